# SPDX-License-Identifier: Apache-2.0
"""SimpleBox: a box for one `async with` block."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Optional, Tuple, Type, Union

from boxlite import _files
from boxlite._box import STOP_TIMEOUT, TTY_SIZE, Box, finish
from boxlite._boxlite import Boxlite
from boxlite._errors import BoxliteError, InvalidArgumentError, InvalidStateError
from boxlite._execution import MAX_OUTPUT, Data, Env, ExecSpec, Execution
from boxlite._info import BoxInfo, BoxMetrics
from boxlite._options import OPTION_NAMES, BoxOptions, CopyOptions
from boxlite._results import ExecResult

if TYPE_CHECKING:
    from types import TracebackType


class SimpleBox:
    """A box that starts with `async with` (or `start()`) and is stopped and removed at its end.

        async with boxlite.SimpleBox(image="ubuntu:latest") as box:
            result = await box.exec("ls", "-l", "/")

    Args:
        image, rootfs_path: what it is made from; one of them is needed.
        memory_mib, cpus: see `BoxOptions`.
        runtime: a `Boxlite`; default: `Boxlite.default()`.
        name: made up if None.
        auto_remove: remove the box when it stops.
        reuse_existing: use the box of that name if there is one; it is left running at the end if it ran before.
        **options: any other field of `BoxOptions`.
    """

    def __init__(self, image: Optional[str] = None, rootfs_path: Union[str, "os.PathLike[str]", None] = None,
                 memory_mib: Optional[int] = None, cpus: Optional[int] = None, runtime: Optional[Boxlite] = None,
                 name: Optional[str] = None, auto_remove: bool = True, reuse_existing: bool = False, **options: Any) -> None:
        if image is None and rootfs_path is None:
            raise InvalidArgumentError("image: either it or rootfs_path is needed")
        unknown = sorted(set(options) - OPTION_NAMES)
        if unknown:
            raise TypeError(f"{type(self).__name__}() has no option {unknown[0]!r}; BoxOptions lists them")
        if reuse_existing and name is None:
            raise InvalidArgumentError("reuse_existing: a name is needed")
        self._options = BoxOptions(image=image, rootfs_path=rootfs_path, memory_mib=memory_mib, cpus=cpus,
                                   auto_remove=auto_remove, **options)
        self._runtime = runtime
        self._name = name
        self._reuse = reuse_existing
        self._box: Optional[Box] = None
        self._created: Optional[bool] = None
        self._was_running = False

    # ---- Life

    async def start(self) -> "SimpleBox":
        """Makes and boots the box; nothing happens if it runs. A failed or cancelled start leaves nothing behind."""
        if self._box is not None:
            return self
        runtime = self._runtime if self._runtime is not None else Boxlite.default()
        if self._reuse:
            box, self._created = await runtime.get_or_create(self._options, self._name)
            self._was_running = not self._created and await box.status() in ("running", "paused")
        else:
            box, self._created = await runtime.create(self._options, self._name), True
        try:
            await box.start()
        except BaseException:
            if self._created:
                await finish(_forget(box))
            raise
        self._box = box
        return self

    async def stop(self, timeout: float = STOP_TIMEOUT) -> None:
        """Stops the box, and removes it with `auto_remove`. A detached or reused running box is left alone."""
        box, self._box = self._box, None
        if box is None:
            return
        try:
            if not self._was_running and not self._options.detach:
                await finish(box.stop(timeout))
                if self._created and self._options.auto_remove:
                    await finish(box.remove(force=True))
        finally:
            box.close()

    async def shutdown(self) -> None:
        """The same as `stop()`."""
        await self.stop()

    async def __aenter__(self) -> Any:
        return await self.start()

    async def __aexit__(self, _type: Optional[Type[BaseException]], _value: Optional[BaseException],
                        _traceback: Optional["TracebackType"]) -> None:
        # After an error or a cancellation nobody waits for a graceful end.
        await self.stop(STOP_TIMEOUT if _type is None else 0)

    @property
    def box(self) -> Box:
        """The `Box` below. `InvalidStateError` before it was started and after it was stopped."""
        if self._box is None:
            raise InvalidStateError("the box is not started", hint="use it inside `async with`, or call start() first")
        return self._box

    @property
    def id(self) -> str:
        """Its id."""
        return self.box.id

    @property
    def name(self) -> Optional[str]:
        """Its name; None before it is made, unless one was given."""
        return self._box.name if self._box is not None else self._name

    @property
    def created(self) -> Optional[bool]:
        """Whether this object made the box (True) or found it (False); None before it was started."""
        return self._created

    async def info(self) -> BoxInfo:
        """What is known of it now."""
        return await self.box.info()

    async def metrics(self) -> BoxMetrics:
        """Figures of it."""
        return await self.box.metrics()

    # ---- Commands

    async def exec(self, cmd: str, *args: str, env: Env = None, user: Optional[str] = None,
                   timeout: Optional[float] = None, cwd: Optional[str] = None, stdin: Optional[Data] = None,
                   check: bool = False, tty: bool = False, max_output: int = MAX_OUTPUT) -> ExecResult:
        """Runs a command to its end and returns what it came to.

        Args:
            cmd, args: its argument vector; no shell is involved.
            env: a mapping or (name, value) pairs, added to the box' own.
            user: NAME-OR-UID[:GROUP-OR-GID].
            timeout: seconds, after which it is killed with all that it started; the result says `timed_out`.
            cwd: folder in which it starts.
            stdin: bytes or text for its standard input; default: none.
            check: raise `ExecError` (or `TimeoutError`) unless it ends with exit code 0. Otherwise an exit code is data.
            tty: with a terminal; all output is stdout then.
            max_output: bytes of each stream; more raise `ResourceExhaustedError`.

        A cancelled caller kills the command.
        """
        spec = ExecSpec((cmd, *args), env, user, cwd, timeout, TTY_SIZE if tty else None, stdin is not None)
        return await self._run(spec, stdin, check, max_output)

    async def _run(self, spec: ExecSpec, stdin: Optional[Data], check: bool, max_output: int) -> ExecResult:
        execution = await self.box._exec(spec)
        try:
            result = await execution.communicate(stdin, max_output=max_output)
        finally:
            execution.close()
        if check:
            result.check(spec.argv)
        return result

    async def spawn(self, cmd: str, *args: str, env: Env = None, user: Optional[str] = None,
                    timeout: Optional[float] = None, cwd: Optional[str] = None, stdin: bool = False, tty: bool = False,
                    size: Tuple[int, int] = TTY_SIZE, detach: bool = False) -> Execution:
        """Starts a command and returns at once: its streams are read as they come.

            async with await box.spawn("make") as command:
                async for piece in command.output():
                    print(piece.stream, piece.text)
                print((await command.wait()).exit_code)

        Arguments as for `exec`; `stdin`: it has a standard input, `size`: rows and columns of its terminal, `detach`: it
        goes on when this is closed.
        """
        return await self.box._exec(ExecSpec((cmd, *args), env, user, cwd, timeout, size if tty else None, stdin, detach))

    # ---- Files

    async def copy_in(self, host_path: _files.HostPath, container_dest: str, *, recursive: bool = True,
                      overwrite: bool = True, follow_symlinks: bool = False, include_parent: bool = True) -> None:
        """Copies a file or folder into the box: see `Box.copy_in` and `CopyOptions`."""
        await self.box.copy_in(host_path, container_dest, CopyOptions(recursive, overwrite, follow_symlinks, include_parent))

    async def copy_out(self, container_src: str, host_dest: _files.HostPath, *, recursive: bool = True,
                       overwrite: bool = True, include_parent: bool = True) -> None:
        """Copies a file or folder out of the box: see `Box.copy_out` and `CopyOptions`."""
        await self.box.copy_out(container_src, host_dest, CopyOptions(recursive, overwrite, False, include_parent))

    async def read_file(self, path: str, max_bytes: int = 256 << 20) -> bytes:
        """The bytes of a file of the box."""
        return await self.box.read_file(path, max_bytes)

    async def write_file(self, path: str, data: Data, mode: int = 0o644) -> None:
        """Writes a file in the box (text as UTF-8), replacing one that is there."""
        await self.box.write_file(path, data, mode)

    def __repr__(self) -> str:
        state = "running" if self._box is not None else "not started"
        return f"<{type(self).__name__} {self.name or self._options.image or self._options.rootfs_path} {state}>"


async def _forget(box: Box) -> None:
    """Takes away a box that did not start."""
    try:
        await box.remove(force=True)
    except BoxliteError:
        pass  # the error that is under way says more
    box.close()
