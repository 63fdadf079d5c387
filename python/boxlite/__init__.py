# SPDX-License-Identifier: Apache-2.0
"""BoxLite: run untrusted code in hardware-isolated micro-VMs, with no daemon and no root.

    import asyncio, boxlite

    async def main():
        async with boxlite.CodeBox(image="python:3.11-slim") as sandbox:
            result = await sandbox.run("print(6*7)")
            print(result, result.exit_code)

    asyncio.run(main())

`boxlite.sync` has the same classes for programs without an event loop. Sizes are bytes unless a name says otherwise, times
are seconds. Everything that goes wrong is a `BoxliteError` with `code`, `message`, `hint` and `cause`; the exit code of
a program in a box is data.
"""
from boxlite._box import Box
from boxlite._boxlite import Boxlite
from boxlite._code import CodeBox, languages
from boxlite._errors import (AlreadyExistsError, AuthError, BoxliteError, BusyError, CancelledError, DeadlineError,
                             DeniedError, EngineError, ExecError, GuestError, IntegrityError, InternalError,
                             InvalidArgumentError, InvalidStateError, NetworkError, NotFoundError,
                             ResourceExhaustedError, SystemCallError, TimeoutError, UnsupportedError, text as _text)
from boxlite._execution import ExecStderr, ExecStdin, ExecStdout, Execution, Output
from boxlite._images import ImageHandle
from boxlite._info import BoxInfo, BoxMetrics, BoxStateInfo, ImageInfo, RuntimeMetrics
from boxlite._interactive import InteractiveBox
from boxlite._native import lib as _lib
from boxlite._options import BoxOptions, CopyOptions, ImageRegistry, NetworkSpec, Options
from boxlite._results import CodeResult, ExecResult
from boxlite._simple import SimpleBox

__version__ = _text(_lib.boxlite_version())

__all__ = [
    "AlreadyExistsError", "AuthError", "Box", "BoxInfo", "BoxMetrics", "BoxOptions", "BoxStateInfo", "Boxlite",
    "BoxliteError", "BusyError", "CancelledError", "CodeBox", "CodeResult", "CopyOptions", "DeadlineError", "DeniedError",
    "EngineError", "ExecError", "ExecResult", "ExecStderr", "ExecStdin", "ExecStdout", "Execution", "GuestError",
    "ImageHandle", "ImageInfo", "ImageRegistry", "IntegrityError", "InteractiveBox", "InternalError",
    "InvalidArgumentError", "InvalidStateError", "NetworkError", "NetworkSpec", "NotFoundError", "Options", "Output",
    "ResourceExhaustedError", "RuntimeMetrics", "SimpleBox", "SystemCallError", "TimeoutError", "UnsupportedError",
    "languages",
]
