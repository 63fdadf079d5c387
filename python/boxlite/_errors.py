# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each code of the library.

All derive from `BoxliteError`. The exit status of a program in a box is data and raises nothing, unless the caller asks
for it with ``check=True``.
"""
from __future__ import annotations

import builtins
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Type

from boxlite._native import ffi, lib

if TYPE_CHECKING:
    from boxlite._results import ExecResult


class BoxliteError(RuntimeError):
    """Anything that went wrong in BoxLite.

    Attributes:
        code: the library's name for it, such as ``"NOT_FOUND"``.
        message: one line, with its chain of context ("starting box x: engine: ...").
        hint: what the user can do about it, or None.
        cause: the `OSError` behind it, or None. It is also ``__cause__``.
    """

    code = "INTERNAL"

    def __init__(self, message: str, *, hint: Optional[str] = None, code: Optional[str] = None, errno: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.cause: Optional[OSError] = OSError(errno, os.strerror(errno)) if errno else None
        if code is not None:
            self.code = code
        if self.cause is not None:
            self.__cause__ = self.cause

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: Type[BoxliteError], args: Sequence[Any], state: Dict[str, Any]) -> BoxliteError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    error.args = tuple(args)
    return error


class InvalidArgumentError(BoxliteError, ValueError):
    """An argument is wrong."""

    code = "INVALID"


class NotFoundError(BoxliteError, LookupError):
    """No such image, box, kernel, command or file."""

    code = "NOT_FOUND"


class AlreadyExistsError(BoxliteError):
    """The name is taken."""

    code = "EXISTS"


class BusyError(BoxliteError):
    """In use by something else."""

    code = "BUSY"


class InvalidStateError(BoxliteError):
    """The box, the runtime or the stream is not in a state that allows this."""

    code = "STATE"


class DeniedError(BoxliteError):
    """The system refused for want of rights."""

    code = "DENIED"


class AuthError(BoxliteError):
    """A registry refused the credentials."""

    code = "AUTH"


class UnsupportedError(BoxliteError):
    """Not on this host, or not in this version."""

    code = "UNSUPPORTED"


class CancelledError(BoxliteError):
    """The caller cancelled it, or closed the runtime. (A cancelled task gets `asyncio.CancelledError` as usual.)"""

    code = "CANCELLED"


class NetworkError(BoxliteError):
    """The network failed."""

    code = "NETWORK"


class IntegrityError(BoxliteError):
    """Data is damaged, or not what its digest says, or a box tried to trick the host."""

    code = "INTEGRITY"


class ResourceExhaustedError(BoxliteError):
    """Disk full, over quota, out of memory, or more output than was allowed."""

    code = "NO_SPACE"


class SystemCallError(BoxliteError):
    """Any other failure of a system call; `cause` says which."""

    code = "IO"


class GuestError(BoxliteError):
    """The guest failed: kernel panic, agent lost, boot failed."""

    code = "GUEST"


class EngineError(BoxliteError):
    """The VM engine is missing, failed or was killed."""

    code = "ENGINE"


class InternalError(BoxliteError):
    """A bug in BoxLite."""


class ExecError(BoxliteError):
    """A command failed: raised with ``check=True`` only.

    Attributes:
        command: its argument vector.
        exit_code: 1 to 255; 126 and 127: it could not be started.
        stderr: its standard error as text.
        result: all that is known, as without ``check``.
    """

    code = "EXEC"

    def __init__(self, command: Sequence[str], result: "ExecResult") -> None:
        last = result.stderr.strip().splitlines()[-1:]
        why = result.error_message or (last[0] if last else "")
        # Arguments can hold secrets: only the program is named.
        super().__init__(f"{command[0]} ended with exit code {result.exit_code}{': ' + why if why else ''}")
        self.command = list(command)
        self.exit_code = result.exit_code
        self.stderr = result.stderr
        self.result = result


class TimeoutError(ExecError, builtins.TimeoutError):
    """A command ran longer than its ``timeout`` and was killed with all that it had started (``check=True`` only), or the
    library waited in vain. `result` has the output so far."""

    code = "TIMEOUT"

    def __init__(self, command: Sequence[str], result: "ExecResult") -> None:
        super().__init__(command, result)
        self.message = f"{command[0]} did not end within its time-out"
        self.args = (self.message,)


class DeadlineError(BoxliteError, builtins.TimeoutError):
    """A deadline of the library itself passed, while starting or stopping a box."""

    code = "TIMEOUT"


_CLASSES: Dict[str, Type[BoxliteError]] = {
    cls.code: cls
    for cls in (InvalidArgumentError, NotFoundError, AlreadyExistsError, BusyError, InvalidStateError, DeniedError,
                AuthError, UnsupportedError, CancelledError, NetworkError, IntegrityError, ResourceExhaustedError,
                SystemCallError, GuestError, EngineError, DeadlineError)
}
_CLASSES["NO_MEMORY"] = ResourceExhaustedError


def text(pointer: Any) -> str:
    """A C string; bytes that are no UTF-8 are kept as Python does for file names."""
    value: bytes = b"" if pointer == ffi.NULL else ffi.string(pointer)
    return value.decode("utf-8", "surrogateescape")


def from_native(code: int, error: Any) -> BoxliteError:
    """The exception for a failed call; `error` is borrowed and may be NULL."""
    name = text(lib.boxlite_error_name(code))
    cls = _CLASSES.get(name, InternalError)
    if error == ffi.NULL:
        return cls(name.lower().replace("_", " "), code=name)
    hint = lib.boxlite_error_hint(error)
    return cls(text(lib.boxlite_error_message(error)), code=name, errno=lib.boxlite_error_errno(error),
               hint=None if hint == ffi.NULL else text(hint))


def check(code: int, slot: Any) -> int:
    """Takes the error out of its slot and raises it if the call failed; the call's value otherwise."""
    if code >= 0:
        return code
    try:
        raise from_native(code, slot[0])
    finally:
        lib.boxlite_error_free(slot[0])
        slot[0] = ffi.NULL


def call(function: Any, *args: Any) -> int:
    """Calls a function whose last parameter is `boxlite_error **`."""
    slot = ffi.new("boxlite_error **")
    return check(function(*args, slot), slot)
