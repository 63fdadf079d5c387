# SPDX-License-Identifier: Apache-2.0
"""A box: its life, the commands in it, its files."""
from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Tuple, Type, Union

from boxlite import _files
from boxlite._errors import BoxliteError, InvalidStateError, NotFoundError, call, text
from boxlite._execution import Data, Env, ExecSpec, Execution, c_text, to_bytes
from boxlite._info import BoxInfo, BoxMetrics, usage
from boxlite._native import ffi, lib
from boxlite._options import CopyOptions
from boxlite._runtime import Core, Handle

if TYPE_CHECKING:
    from types import TracebackType

STOP_TIMEOUT = 10.0
TTY_SIZE = (24, 80)


class Box:
    """A handle on a box, made by `Boxlite`. As `async with`, it starts the box and stops it at the end.

    Losing the handle does not end the box: a box that was started attached ends with its runtime, a detached one goes on.
    """

    def __init__(self, core: Core, pointer: Any) -> None:
        self._core = core
        self._handle = Handle(core, pointer, lib.boxlite_box_free)
        self._id = text(lib.boxlite_box_id(pointer))
        self._name = text(lib.boxlite_box_name(pointer))
        self._executed = 0
        self._made_at = time.monotonic()
        self._boot_ms = 0
        self._create_ms = 0

    @property
    def id(self) -> str:
        """Its id, sixteen hexadecimal digits."""
        return self._id

    @property
    def name(self) -> str:
        """Its name; one was made up if none was given."""
        return self._name

    # ---- Life

    async def start(self) -> None:
        """Boots it and waits until the guest answers. Nothing happens if it runs already. A cancelled caller has the box
        stopped again."""
        started = time.monotonic()
        await self._core.run(lib.boxlite_box_start_async, self._handle.pointer, on_cancel=self._stop_now)
        self._core.started.add(self.id)
        self._boot_ms = int((time.monotonic() - started) * 1000)
        self._create_ms = self._create_ms or int((time.monotonic() - self._made_at) * 1000)

    async def _stop_now(self) -> None:
        try:
            await self.stop(0)
        except BoxliteError:
            pass  # who starts it sees why it did not start

    async def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stops it: its main command has `timeout` seconds to end, its disk is synced. Nothing happens if it is stopped."""
        try:
            await self._core.run(lib.boxlite_box_stop_async, self._handle.pointer, int(timeout * 1000))
        except NotFoundError:
            pass  # removed as it stopped

    async def remove(self, force: bool = False) -> None:
        """Removes it with all that was written in it; `force`: also if it runs. Nothing happens if it is gone."""
        await self._core.attach()
        if force:
            await self.stop(0)
        try:
            call(lib.boxlite_box_remove, self._handle.pointer, int(force))
        except NotFoundError:
            pass

    async def pause(self) -> None:
        """Holds it still, with all its memory. `InvalidStateError` unless it runs."""
        await self._core.attach()
        call(lib.boxlite_box_pause, self._handle.pointer)

    async def resume(self) -> None:
        """Lets a paused box go on."""
        await self._core.attach()
        call(lib.boxlite_box_resume, self._handle.pointer)

    async def info(self) -> BoxInfo:
        """What is known of it now. `NotFoundError`: it was removed."""
        await self._core.attach()
        slot = ffi.new("const char **")
        call(lib.boxlite_box_json, self._handle.pointer, slot)
        return BoxInfo.from_json(json.loads(text(slot[0])))

    async def status(self) -> str:
        """created, starting, running, paused, stopping, stopped, or removed."""
        await self._core.attach()
        try:
            return text(lib.boxlite_box_state_name(call(lib.boxlite_box_state, self._handle.pointer)))
        except NotFoundError:
            return "removed"

    async def metrics(self) -> BoxMetrics:
        """Figures of it: see `BoxMetrics`."""
        memory, cpu = usage((await self.info()).state.pid)
        return BoxMetrics(self._executed, self._boot_ms, self._create_ms, memory, cpu)

    # ---- Commands

    async def exec(self, command: str, args: Optional[Sequence[str]] = None, env: Env = None, tty: bool = False,
                   user: Optional[str] = None, timeout_secs: Optional[float] = None, cwd: Optional[str] = None, *,
                   stdin: bool = True, detach: bool = False, size: Tuple[int, int] = TTY_SIZE,
                   rlimits: Optional[Mapping[int, Tuple[int, int]]] = None) -> Execution:
        """Starts a command and returns at once.

        Args:
            command, args: its argument vector; no shell is involved.
            env: a mapping or (name, value) pairs, added to the box' own.
            tty: with a terminal of `size` (rows, columns); all output then comes as stdout.
            user: NAME-OR-UID[:GROUP-OR-GID].
            timeout_secs: it is killed with all that it started after so long.
            cwd: folder in which it starts.
            stdin: it has a standard input that `Execution.stdin()` writes; else it reads end of file.
            detach: it goes on when the Execution is closed.
            rlimits: {resource number of Linux: (soft, hard)}.

        A command that cannot be started ends with exit code 126 or 127. A box that was never started is started.
        """
        spec = ExecSpec((command, *(args or ())), env, user, cwd, timeout_secs, size if tty else None, stdin, detach,
                        rlimits)
        return await self._exec(spec)

    async def _exec(self, spec: ExecSpec) -> Execution:
        await self._core.attach()
        options = spec.native()
        slot = ffi.new("boxlite_exec **")
        try:
            call(lib.boxlite_box_exec, self._handle.pointer, options, slot)
        except InvalidStateError:
            if await self.status() != "created":
                raise
            await self.start()
            call(lib.boxlite_box_exec, self._handle.pointer, options, slot)
        self._executed += 1
        self._core.metrics["total_commands_executed"] += 1
        return self._execution(slot[0], spec.argv, spec.stdin)

    def _execution(self, pointer: Any, argv: Sequence[str], stdin: bool) -> Execution:
        return Execution(self._core, Handle(self._core, pointer, lib.boxlite_exec_free), argv, stdin)

    async def _open_exec(self, function: Any, argv: Sequence[str], *args: Any, stdin: bool = False) -> Execution:
        await self._core.attach()
        slot = ffi.new("boxlite_exec **")
        call(function, self._handle.pointer, *args, slot)
        return self._execution(slot[0], argv, stdin)

    async def _tar(self, function: Any, path: str) -> Execution:
        return await self._open_exec(function, ["tar"], c_text(path), stdin=function is lib.boxlite_box_exec_tar_in)

    async def attach(self, number: Union[int, str]) -> Execution:
        """Any command of the box by its number (`Execution.id()`), also one that another process started, from the
        beginning of its kept output, without its input. Closing it leaves the command alone."""
        return await self._open_exec(lib.boxlite_box_attach, [f"command {number}"], int(number))

    async def main(self) -> Execution:
        """The main command of a box that has one (`BoxOptions.main`): its output from the beginning, its input, its end.
        Works after the box has stopped, too."""
        has_stdin = bool((await self.info()).raw.get("stdin_open"))
        return await self._open_exec(lib.boxlite_box_main, ["main command"], stdin=has_stdin)

    # ---- Files

    async def copy_in(self, host_path: _files.HostPath, container_dest: str, options: Optional[CopyOptions] = None) -> None:
        """Copies a file or folder into the box by the rules of `docker cp`: into an existing folder, else to that name; a
        source that ends with "/." gives its contents only. Owners become root; modes, times and links are kept."""
        await _files.copy_in(self, host_path, container_dest, options or CopyOptions())

    async def copy_out(self, container_src: str, host_dest: _files.HostPath, options: Optional[CopyOptions] = None) -> None:
        """Copies a file or folder out of the box, likewise; owners become the calling user. What comes never leaves the
        target folder; `IntegrityError` when the box tries."""
        await _files.copy_out(self, container_src, host_dest, options or CopyOptions())

    async def read_file(self, path: str, max_bytes: int = 256 << 20) -> bytes:
        """The bytes of a file of the box. More than `max_bytes` of them raise `ResourceExhaustedError`."""
        return await _files.read_file(self, path, max_bytes)

    async def write_file(self, path: str, data: Data, mode: int = 0o644) -> None:
        """Writes a file in the box (text as UTF-8), replacing one that is there. Folders that are missing are made."""
        await _files.write_file(self, path, to_bytes(data), mode)

    # ---- Handle

    async def __aenter__(self) -> "Box":
        await self.start()
        return self

    async def __aexit__(self, _type: Optional[Type[BaseException]], _value: Optional[BaseException],
                        _traceback: Optional["TracebackType"]) -> None:
        await finish(self.stop())

    def close(self) -> None:
        """Frees the handle; the box goes on."""
        self._handle.free()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.drop()

    def __repr__(self) -> str:
        return f"<Box {self.name!r} {self.id}{'' if self._handle.alive else ' closed'}>"


async def finish(work: Any) -> None:
    """Awaits what must be done to its end although the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
