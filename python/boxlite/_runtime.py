# SPDX-License-Identifier: Apache-2.0
"""The library's loop inside asyncio's: what everything else in this package stands on.

A `Core` owns one `boxlite_runtime` and belongs to the thread and event loop that first used it. The loop watches the
runtime's descriptor (`add_reader`); whenever it is readable, one dispatch runs the callbacks that are due. There is no
thread and nothing polls.

What must hold:

* Native objects are freed before their runtime, in its thread, once. Each is a `Handle` that its core knows. A collector
  that runs in another thread only queues what it found and wakes the core.
* A callback reaches its object by a number, never by a pointer to a Python object that might be gone.
* After fork() the child touches nothing that it inherited: every handle is dead there, and freeing it does nothing.
* When the loop shuts down (`asyncio.run` ends), the core is closed and the boxes that it started attached end.
"""
from __future__ import annotations

import asyncio
import collections
import itertools
import os
import threading
import warnings
import weakref
from typing import Any, AsyncGenerator, Callable, Deque, Dict, List, Optional, Set, TypeVar

from boxlite._errors import InvalidStateError, call, from_native, text
from boxlite._native import ffi, lib

F = TypeVar("F", bound=Callable[..., None])
ProgressFn = Callable[[str, int, int], None]

_numbers = itertools.count(1)
_targets: Dict[int, Any] = {}  # number -> what a callback is for
_cores: "weakref.WeakSet[Core]" = weakref.WeakSet()
_raised: List[BaseException] = []  # by a callback (an interrupt, say): raised again after the dispatch


def register(target: Any) -> int:
    """A number by which callbacks find `target`, until `unregister`."""
    number = next(_numbers)
    _targets[number] = target
    return number


def unregister(number: int) -> None:
    _targets.pop(number, None)


def pointer_of(number: int) -> Any:
    return ffi.cast("void *", number)


def _target(data: Any) -> Any:
    return _targets.get(int(ffi.cast("uintptr_t", data)))


def _keep_exception(_type: Any, value: BaseException, _traceback: Any) -> None:
    _raised.append(value)


def _callback(name: str) -> Callable[[F], F]:
    decorated: Callable[[F], F] = ffi.def_extern(name=name, onerror=_keep_exception)
    return decorated


@_callback("boxlite_sdk_done")
def _on_done(data: Any, result: int, error: Any) -> None:
    target = _target(data)
    if target is not None:
        target(result, error)


@_callback("boxlite_sdk_exec")
def _on_exec(data: Any, _exec: Any, events: int) -> None:
    target = _target(data)
    if target is not None:
        target.on_events(events)


@_callback("boxlite_sdk_progress")
def _on_progress(data: Any, what: Any, done: int, total: int) -> None:
    target = _target(data)
    if target is not None:
        target(text(what), done, total)


@_callback("boxlite_sdk_transfer")
def _on_transfer(data: Any, event: Any) -> None:
    target = _target(data)
    if target is not None:
        kind, digest = text(event.kind), text(event.digest)
        target(f"{kind} {digest}" if digest else kind, event.done, event.total)


class Handle:
    """One native object: its pointer, and how it is freed. Dead after `free`, after its core is closed, and in a child."""

    __slots__ = ("core", "owner", "_pointer", "_free", "__weakref__")

    def __init__(self, core: "Core", pointer: Any, free: Any) -> None:
        self.core = core
        self.owner: Optional["weakref.ref[Any]"] = None  # is told by _on_freed()
        self._pointer = pointer
        self._free = free
        core.handles.add(self)

    @property
    def alive(self) -> bool:
        return self._pointer is not None and not self.core.dead

    @property
    def pointer(self) -> Any:
        self.core.check()
        if self._pointer is None:
            raise InvalidStateError("this handle was closed", hint="get the box again by its name: runtime.get(NAME)")
        return self._pointer

    def take(self) -> Any:
        """How to free it, and what; it is dead then."""
        pointer, self._pointer = self._pointer, None
        return self._free, pointer if pointer is not None else ffi.NULL

    def free(self) -> None:
        """Frees it now. For the core's thread."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self.core.handles.discard(self)
            if not self.core.dead:
                self._free(pointer)
            owner = self.owner() if self.owner is not None else None
            if owner is not None:
                owner._on_freed()

    def drop(self) -> None:
        """Frees it as soon as the core's thread can. For collectors, in any thread."""
        core = self.core
        if self._pointer is None or core.dead:
            return
        if core.thread == threading.get_ident():
            self.free()
        else:
            core.graveyard.append(self)
            core.wake()


async def _watch_loop(core: "weakref.ref[Core]") -> AsyncGenerator[None, None]:
    """Waits in the loop's set of asynchronous generators; the loop closes it when it shuts down."""
    try:
        yield None
    finally:
        watched = core()
        if watched is not None:
            watched.close()


class Core:
    """One runtime. `attach` before each use."""

    def __init__(self, home: Optional[str] = None, libexec: Optional[str] = None,
                 progress: Optional[ProgressFn] = None) -> None:
        self.dead = False  # inherited by fork, or closed
        self.pid = os.getpid()
        self.thread = threading.get_ident()
        self.handles: Set[Handle] = set()
        self.graveyard: Deque[Handle] = collections.deque()
        self.metrics: collections.Counter[str] = collections.Counter()
        self.started: Set[str] = set()  # ids of boxes
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._watcher: Optional[AsyncGenerator[None, None]] = None
        self._progress = register(progress) if progress else 0
        options = ffi.new("boxlite_runtime_options *")
        lib.boxlite_runtime_options_init(options)
        keep = [ffi.new("char[]", os.fsencode(value)) if value is not None else ffi.NULL for value in (home, libexec)]
        options.home, options.libexec = keep
        if progress:
            options.progress = lib.boxlite_sdk_progress
            options.progress_data = pointer_of(self._progress)
        slot = ffi.new("boxlite_runtime **")
        try:
            call(lib.boxlite_runtime_new, options, slot)
        except BaseException:
            self.dead = True
            unregister(self._progress)
            raise
        self.pointer = slot[0]
        self.fd: int = lib.boxlite_runtime_fd(self.pointer)
        self.home = text(lib.boxlite_runtime_home(self.pointer))
        _cores.add(self)

    def check(self) -> None:
        """Raises unless this process and thread may use it."""
        if self.dead:
            inherited = self.pid != os.getpid()
            raise InvalidStateError(
                "this runtime was made before fork()" if inherited else "this runtime was closed",
                hint="make a new Boxlite in this process" if inherited else "make a new Boxlite, or use one "
                "`async with` block for all of the work")
        if self.thread != threading.get_ident():
            raise InvalidStateError("this runtime belongs to another thread",
                                    hint="make one Boxlite a thread, or use boxlite.sync, which any thread may call")

    async def attach(self) -> None:
        """Lets the running loop drive it. Free if it does already."""
        self.check()
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise InvalidStateError("this runtime belongs to another event loop", hint="make one Boxlite a loop")
        self._loop = loop
        reference = weakref.ref(self)
        loop.add_reader(self.fd, _readable, reference)
        self._watcher = _watch_loop(reference)
        await self._watcher.__anext__()

    def dispatch(self) -> None:
        """Runs the callbacks that are due."""
        if self.dead:
            return
        self.bury()
        call(lib.boxlite_runtime_dispatch, self.pointer, 0)
        while _raised:
            raise _raised.pop()

    def bury(self) -> None:
        """Frees what collectors in other threads have found."""
        while self.graveyard:
            self.graveyard.popleft().free()

    def wake(self) -> None:
        """Any thread, and signal handlers."""
        if not self.dead:
            lib.boxlite_runtime_wakeup(self.pointer)

    async def run(self, begin: Callable[..., int], *args: Any, on_cancel: Optional[Callable[[], Any]] = None) -> None:
        """Awaits an asynchronous call of the library: ``begin(*args, fn, data, err)``. It cannot be taken back; a cancelled
        caller has `on_cancel` awaited, and then the call's end."""
        await self.attach()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(result: int, error: Any) -> None:
            if future.done():
                return
            if result < 0:
                future.set_exception(from_native(result, error))
            else:
                future.set_result(None)

        number = register(done)
        try:
            call(begin, *args, lib.boxlite_sdk_done, pointer_of(number))
            try:
                await asyncio.shield(future)
            except asyncio.CancelledError:
                if on_cancel is not None and not future.done() and not self.dead:
                    await on_cancel()
                await asyncio.wait([future])
                future.exception()  # it was seen
                raise
        finally:
            unregister(number)

    def close(self) -> None:
        """Frees all that was made from it, then the runtime. The boxes that it started attached end: two seconds at most.
        For its thread; twice is fine."""
        if self.dead:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self.fd)
        for handle in list(self.handles):
            handle.free()
        lib.boxlite_runtime_free(self.pointer)  # tells CANCELLED to what is under way
        self.dead = True
        self.graveyard.clear()
        unregister(self._progress)
        _cores.discard(self)

    async def aclose(self) -> None:
        """The same, and the loop forgets it."""
        self.close()
        watcher, self._watcher = self._watcher, None
        if watcher is not None and self._loop is asyncio.get_running_loop():
            await watcher.aclose()

    def __del__(self) -> None:
        if getattr(self, "dead", True) or self.pid != os.getpid():
            return
        if self.handles:
            warnings.warn(f"a BoxLite runtime was not closed (home {self.home})",
                          ResourceWarning, source=self)
        if self.thread == threading.get_ident() or self._loop is None or self._loop.is_closed():
            self.close()
        else:  # the pointer is handed to its own thread
            self.dead = True
            children = [handle.take() for handle in self.handles]
            self._loop.call_soon_threadsafe(_close_orphan, self._loop, self.fd, self.pointer, children)


def _close_orphan(loop: asyncio.AbstractEventLoop, fd: int, pointer: Any, children: List[Any]) -> None:
    loop.remove_reader(fd)
    for free, child in children:
        free(child)
    lib.boxlite_runtime_free(pointer)


def _readable(reference: "weakref.ref[Core]") -> None:
    core = reference()
    if core is not None:
        core.dispatch()


def _after_fork() -> None:
    """In the child: what was inherited is the parent's. Nothing is freed, nothing is told to the supervisors."""
    for core in list(_cores):
        core.dead = True
    _cores.clear()
    _targets.clear()


def close_all() -> None:
    """Ends what this thread's runtimes still have: at exit, when no loop did it."""
    for core in list(_cores):
        if core.thread == threading.get_ident() and core.pid == os.getpid():
            core.close()


os.register_at_fork(after_in_child=_after_fork)
