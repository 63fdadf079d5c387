# SPDX-License-Identifier: Apache-2.0
"""What a command came to. A program's exit status and output are data: nothing here is an error."""
from __future__ import annotations

from functools import cached_property
from typing import Any, Optional, Sequence

from boxlite import _errors
from boxlite._native import lib


class ExecResult:
    """The end of a command.

    Attributes:
        exit_code: 0 to 255; 128 + N: ended by signal N; 124: its time-out; 126, 127: it could not be started; 137: the box
            ended first.
        stdout_bytes, stderr_bytes: all that it wrote, as it wrote it.
        timed_out: it was killed by its time-out, with all that it had started.
        oom_killed: the box ran out of memory, and this command was killed for it.
        signal: the number of the signal that ended it, or 0.
        error_message: why it could not be started, one line, or None.
        duration: seconds from start to end, by the box' clock.
        cpu_time: seconds of processor time of it and its children.
        max_rss: bytes of memory at its peak.
    """

    def __init__(self, exit_code: int, stdout_bytes: bytes = b"", stderr_bytes: bytes = b"", *, timed_out: bool = False,
                 error_message: Optional[str] = None, oom_killed: bool = False, box_lost: bool = False, signal: int = 0,
                 duration: float = 0.0, cpu_time: float = 0.0, max_rss: int = 0) -> None:
        self.exit_code = exit_code
        self.stdout_bytes = stdout_bytes
        self.stderr_bytes = stderr_bytes
        self.timed_out = timed_out
        self.error_message = error_message
        self.oom_killed = oom_killed
        self.box_lost = box_lost
        self.signal = signal
        self.duration = duration
        self.cpu_time = cpu_time
        self.max_rss = max_rss

    @cached_property
    def stdout(self) -> str:
        """Standard output as text: UTF-8, what is none is replaced by U+FFFD. `stdout_bytes` is exact."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @cached_property
    def stderr(self) -> str:
        """Standard error as text, likewise."""
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """It ran and ended with exit code 0."""
        return self.exit_code == 0

    def check(self, command: Sequence[str]) -> None:
        """Raises `TimeoutError` or `ExecError` unless it ended with exit code 0."""
        if self.timed_out:
            raise _errors.TimeoutError(command, self)
        if self.exit_code != 0:
            raise _errors.ExecError(command, self)

    def __repr__(self) -> str:
        # Output may hold what nobody wants in a log.
        flags = "".join(f", {name}=True" for name in ("timed_out", "oom_killed", "box_lost") if getattr(self, name))
        return (f"{type(self).__name__}(exit_code={self.exit_code}, stdout=<{len(self.stdout_bytes)} bytes>, "
                f"stderr=<{len(self.stderr_bytes)} bytes>, duration={self.duration:.3f}{flags})")


def result_of(native: Any, failure: Optional[str], stdout: bytes, stderr: bytes) -> ExecResult:
    """From `boxlite_exec_result`."""
    return ExecResult(
        native.exit_code, stdout, stderr,
        timed_out=bool(native.flags & lib.BOXLITE_EXIT_TIMED_OUT),
        oom_killed=bool(native.flags & lib.BOXLITE_EXIT_OOM_KILLED),
        box_lost=bool(native.flags & lib.BOXLITE_EXIT_BOX_LOST),
        error_message=failure, signal=native.signal, duration=native.wall_us / 1e6,
        cpu_time=(native.user_us + native.system_us) / 1e6, max_rss=native.max_rss)


class CodeResult(str):
    """What `CodeBox.run` returns: a `str` equal to standard output that knows the rest too.

    Attributes:
        stdout, stderr, stdout_bytes, stderr_bytes, exit_code, duration, timed_out: as in `ExecResult`.
        result: the whole `ExecResult`.
    """

    result: ExecResult

    def __new__(cls, result: ExecResult) -> "CodeResult":
        self = super().__new__(cls, result.stdout)
        self.result = result
        return self

    def __getnewargs__(self) -> Any:
        return (self.result,)

    @property
    def stdout(self) -> str:
        return self.result.stdout

    @property
    def stderr(self) -> str:
        return self.result.stderr

    @property
    def stdout_bytes(self) -> bytes:
        return self.result.stdout_bytes

    @property
    def stderr_bytes(self) -> bytes:
        return self.result.stderr_bytes

    @property
    def exit_code(self) -> int:
        return self.result.exit_code

    @property
    def duration(self) -> float:
        return self.result.duration

    @property
    def timed_out(self) -> bool:
        return self.result.timed_out

    @property
    def ok(self) -> bool:
        return self.result.ok
