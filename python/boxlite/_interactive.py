# SPDX-License-Identifier: Apache-2.0
"""InteractiveBox: the user's terminal joined to a shell in a box."""
from __future__ import annotations

import asyncio
import os
import signal
import termios
import tty as _tty
from typing import Any, Callable, List, Optional

from boxlite._boxlite import Boxlite
from boxlite._errors import InvalidStateError
from boxlite._execution import Execution
from boxlite._results import ExecResult
from boxlite._simple import SimpleBox

_CHUNK = 65536


class InteractiveBox(SimpleBox):
    """A box with a shell on this process' standard input and output.

        async with boxlite.InteractiveBox(image="ubuntu:latest") as box:
            await box.wait()

    Args: as `SimpleBox`; `shell`: the program; `tty`: with a terminal (None: if standard input is one). The user's terminal is
    raw meanwhile and is restored at the end, whatever happens.
    """

    def __init__(self, image: Optional[str] = None, shell: str = "/bin/sh", tty: Optional[bool] = None,
                 memory_mib: Optional[int] = None, cpus: Optional[int] = None, runtime: Optional[Boxlite] = None,
                 name: Optional[str] = None, auto_remove: bool = True, stdin_fd: int = 0, stdout_fd: int = 1,
                 stderr_fd: int = 2, **kwargs: Any) -> None:
        super().__init__(image, memory_mib=memory_mib, cpus=cpus, runtime=runtime, name=name, auto_remove=auto_remove,
                         **kwargs)
        self._shell = shell
        self._fds = (stdin_fd, stdout_fd, stderr_fd)
        self._tty = os.isatty(stdin_fd) if tty is None else tty
        self._execution: Optional[Execution] = None
        self._tasks: List["asyncio.Task[None]"] = []
        self._undo: List[Callable[[], object]] = []

    async def start(self) -> "InteractiveBox":
        """Boots the box and starts the shell."""
        if self._execution is not None:
            return self
        await super().start()
        try:
            self._execution = await self.spawn(self._shell, stdin=True, tty=self._tty, size=self._size())
            self._make_raw()
            self._watch_size()
            self._tasks = [asyncio.ensure_future(work) for work in
                           (self._input(), self._output(self._execution.stdout(), self._fds[1]),
                            self._output(self._execution.stderr(), self._fds[2]))]
        except BaseException:
            await self.stop(0)
            raise
        return self

    def _size(self) -> Any:
        try:
            size = os.get_terminal_size(self._fds[0])
            return max(1, size.lines), max(1, size.columns)
        except OSError:
            return 24, 80

    def _make_raw(self) -> None:
        fd = self._fds[0]
        if self._tty and os.isatty(fd):
            before = termios.tcgetattr(fd)
            self._undo.append(lambda: termios.tcsetattr(fd, termios.TCSADRAIN, before))
            _tty.setraw(fd)

    def _watch_size(self) -> None:
        loop = asyncio.get_running_loop()
        if self._tty and os.isatty(self._fds[0]):
            try:
                loop.add_signal_handler(signal.SIGWINCH, self._resized)
            except (ValueError, RuntimeError, NotImplementedError):
                return  # not the main thread: the size stays
            self._undo.append(lambda: loop.remove_signal_handler(signal.SIGWINCH))

    def _resized(self) -> None:
        if self._execution is not None:
            self._tasks.append(asyncio.ensure_future(self._tell_size(self._execution)))

    async def _tell_size(self, execution: Execution) -> None:
        try:
            await execution.resize_tty(*self._size())
        except InvalidStateError:
            pass  # it has just ended

    async def _readable(self, fd: int) -> None:
        """Waits until there is input; a file always has some."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        try:
            loop.add_reader(fd, _resolve, ready)
        except PermissionError:
            return
        try:
            await ready
        finally:
            loop.remove_reader(fd)

    async def _input(self) -> None:
        assert self._execution is not None
        stdin, fd = self._execution.stdin(), self._fds[0]
        try:
            while True:
                await self._readable(fd)
                data = os.read(fd, _CHUNK)
                if not data:
                    break
                await stdin.send_input(data)
            await stdin.close()
        except (InvalidStateError, OSError):
            pass  # the shell takes no more, or the terminal has gone

    @staticmethod
    async def _output(stream: Any, fd: int) -> None:
        async for chunk in stream.chunks():
            view = memoryview(chunk)
            while len(view):
                view = view[os.write(fd, view):]

    async def wait(self) -> ExecResult:
        """Waits until the shell ends and all of its output is written."""
        if self._execution is None:
            raise InvalidStateError("the box is not started", hint="use it inside `async with`, or call start() first")
        await asyncio.gather(*self._tasks[1:3])
        return await self._execution.wait()

    async def stop(self, timeout: float = 10.0) -> None:
        """Ends the shell, restores the terminal, stops the box."""
        execution, self._execution = self._execution, None
        while self._undo:
            self._undo.pop()()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if execution is not None:
            execution.close()
        await super().stop(timeout)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
