# SPDX-License-Identifier: Apache-2.0
"""The one loop and thread behind `boxlite.sync`. See there for what holds."""
from __future__ import annotations

import asyncio
import atexit
import os
import threading
from typing import Any, AsyncIterator, Awaitable, Callable, Generic, Iterator, Optional, TypeVar

from boxlite import _runtime
from boxlite._errors import InvalidStateError

T = TypeVar("T")
A = TypeVar("A")

_END_TIMEOUT = 15.0  # seconds that an interrupted call has to clean up


class _Loop:
    """The loop of this module and its thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="boxlite.sync", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            _runtime.close_all()
            self.loop.close()

    def stop(self) -> None:
        """Ends what runs, the boxes that were started attached, and the thread."""
        if self.pid == os.getpid() and self.thread.is_alive():
            self.loop.call_soon_threadsafe(self._cancel_all)
            self.thread.join(_END_TIMEOUT)

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            gathered = asyncio.gather(*tasks, return_exceptions=True)
            gathered.add_done_callback(lambda _done: self.loop.stop())
        else:
            self.loop.stop()


_lock = threading.Lock()
_current: Optional[_Loop] = None


def _loop() -> _Loop:
    global _current
    with _lock:
        if _current is None or _current.pid != os.getpid():
            _current = _Loop()
            atexit.register(_current.stop)
        return _current


def _after_fork() -> None:
    global _current, _lock
    _current, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Has `work()` done by the loop and returns its value. An interrupt cancels it, and waits until it has cleaned up."""
    running = _loop()
    if threading.current_thread() is running.thread:
        raise InvalidStateError("boxlite.sync was called from its own loop")
    over = threading.Event()

    async def main() -> T:
        try:
            return await work()
        finally:
            over.set()

    future = asyncio.run_coroutine_threadsafe(main(), running.loop)
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            over.wait(_END_TIMEOUT)
        raise


def call(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """A plain function, in the loop's thread."""
    async def work() -> T:
        return function(*args, **kwargs)
    return run(work)


class Wrapper(Generic[A]):
    """Holds the asynchronous object. Its `repr` is that one's."""

    def __init__(self, wrapped: A) -> None:
        self._async = wrapped

    def __repr__(self) -> str:
        return repr(self._async)


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """An asynchronous iterator, item by item; closed when the reader stops."""
    iterator = source.__aiter__()
    nothing = object()

    async def step() -> Any:
        try:
            return await iterator.__anext__()
        except StopAsyncIteration:
            return nothing

    try:
        while True:
            item = run(step)
            if item is nothing:
                return
            yield item
    finally:
        close = getattr(iterator, "aclose", None)
        if close is not None:
            run(close)
