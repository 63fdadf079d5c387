# SPDX-License-Identifier: Apache-2.0
"""A command that runs in a box: its streams, its signals, its end.

Events are told by edges and read by level, as the library does: a reader takes what is there and waits for an event only
when there was nothing. In collecting mode (`communicate`) output is taken inside the callback, so a short command costs
one turn of the loop. What a reader does not take stays in the box: nothing is buffered here beyond one chunk.
"""
from __future__ import annotations

import asyncio
import codecs
import signal as _signal
import weakref
from typing import (TYPE_CHECKING, Any, AsyncIterator, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type,
                    Union)

from boxlite._errors import InvalidArgumentError, InvalidStateError, ResourceExhaustedError, call, from_native, text
from boxlite._native import ffi, lib
from boxlite._results import ExecResult, result_of
from boxlite._runtime import Core, Handle, pointer_of, register, unregister

if TYPE_CHECKING:
    from types import TracebackType

CHUNK = 256 * 1024
MAX_OUTPUT = 256 * 1024 * 1024

Data = Union[bytes, bytearray, memoryview, str]
Env = Union[Mapping[str, str], Sequence[Tuple[str, str]], None]

_STREAMS = {lib.BOXLITE_STDOUT: lib.BOXLITE_EXEC_STDOUT, lib.BOXLITE_STDERR: lib.BOXLITE_EXEC_STDERR}
_NAMES = {lib.BOXLITE_STDOUT: "stdout", lib.BOXLITE_STDERR: "stderr"}
_buffer = ffi.new("char[]", CHUNK)  # every read is copied out of it before anything else runs


def to_bytes(data: Data) -> memoryview:
    return memoryview(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data).cast("B")


def pairs(env: Env) -> Sequence[Tuple[str, str]]:
    """Environment variables as given by any of the ways that are allowed."""
    if env is None:
        return ()
    listed = list(env.items() if isinstance(env, Mapping) else env)
    for item in listed:
        if len(item) != 2 or not all(isinstance(part, str) for part in item):
            raise InvalidArgumentError("env: not a mapping or a list of (name, value) texts")
    return listed


def c_text(value: str) -> Any:
    """A C string; one with NUL in it would be cut silently."""
    if not isinstance(value, str):
        raise TypeError(f"a text is needed, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgumentError("a text with a NUL character cannot be given to a box")
    return ffi.new("char[]", value.encode("utf-8", "surrogateescape"))


def c_argv(argv: Sequence[str]) -> Tuple[Any, List[Any]]:
    """An argument vector, and what must live as long as it."""
    keep = [c_text(word) for word in argv]
    return ffi.new("const char *[]", keep or [ffi.NULL]), keep


class Output(NamedTuple):
    """A piece of output: of "stdout" or "stderr"."""

    stream: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class ExecSpec(NamedTuple):
    """How a command is started."""

    argv: Sequence[str]
    env: Env = None
    user: Optional[str] = None
    cwd: Optional[str] = None
    timeout: Optional[float] = None
    tty: Optional[Tuple[int, int]] = None
    stdin: bool = False
    detach: bool = False
    rlimits: Optional[Mapping[int, Tuple[int, int]]] = None
    files: Sequence[Tuple[str, memoryview]] = ()

    def native(self) -> Any:
        argv, _keep = c_argv(self.argv)
        slot = ffi.new("boxlite_exec_options **")
        call(lib.boxlite_exec_options_new, argv, len(self.argv), slot)
        options = ffi.gc(slot[0], lib.boxlite_exec_options_free)
        for name, value in pairs(self.env):
            call(lib.boxlite_exec_options_add_env, options, c_text(name), c_text(value))
        if self.user is not None:
            call(lib.boxlite_exec_options_set_user, options, c_text(self.user))
        if self.cwd is not None:
            call(lib.boxlite_exec_options_set_workdir, options, c_text(self.cwd))
        if self.timeout is not None:
            call(lib.boxlite_exec_options_set_timeout, options, milliseconds("timeout", self.timeout))
        if self.tty is not None:
            call(lib.boxlite_exec_options_set_tty, options, *self.tty)
        call(lib.boxlite_exec_options_set_stdin, options, int(self.stdin))
        call(lib.boxlite_exec_options_set_detached, options, int(self.detach))
        for path, data in self.files:
            call(lib.boxlite_exec_options_add_file, options, c_text(path), ffi.from_buffer(data), len(data))
        for resource, (soft, hard) in (self.rlimits or {}).items():
            call(lib.boxlite_exec_options_add_rlimit, options, resource, soft, hard)
        return options


def milliseconds(name: str, seconds: float) -> int:
    """At least one: 0 would mean never."""
    if not 0 <= seconds < 1e9:
        raise InvalidArgumentError(f"{name}: {seconds} is no number of seconds that can be waited")
    return max(1, int(seconds * 1000))


class ExecStdin:
    """The standard input of a command."""

    def __init__(self, execution: "Execution") -> None:
        self._execution = execution

    async def send_input(self, data: Data) -> None:
        """Gives all of `data` (text as UTF-8), waiting while the command does not read. Raises `InvalidStateError` when
        it takes no more."""
        rest = to_bytes(data)
        execution = self._execution
        execution._count_sent(len(rest))
        while len(rest):
            taken = execution._write(rest)
            if taken:
                rest = rest[taken:]
            else:
                await execution._events(lib.BOXLITE_EXEC_STDIN)

    async def close(self) -> None:
        """Its end, after all that was sent."""
        self._execution._close_stdin()

    def is_closed(self) -> bool:
        """Whether its end was sent."""
        return self._execution._stdin_closed


class OutputStream:
    """One output of a command: an asynchronous iterator of text pieces, as they come. A character is never cut in two;
    what is no UTF-8 is replaced by U+FFFD. `chunks()` and `read()` give exact bytes."""

    def __init__(self, execution: "Execution", stream: int) -> None:
        self._execution = execution
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ended = False

    async def read_chunk(self) -> bytes:
        """The next piece as bytes, b"" at the end."""
        return await self._execution._read(self._stream)

    async def read(self, limit: int = MAX_OUTPUT) -> bytes:
        """All of the rest as bytes; more than `limit` of them raise `ResourceExhaustedError`."""
        parts = bytearray()
        async for chunk in self.chunks():
            parts += chunk
            if len(parts) > limit:
                raise _too_much(_NAMES[self._stream], limit)
        return bytes(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterates over pieces of bytes as they come."""
        while True:
            chunk = await self.read_chunk()
            if not chunk:
                return
            yield chunk

    async def lines(self) -> AsyncIterator[str]:
        """Iterates over lines of text, without their ends."""
        rest = ""
        async for piece in self:
            rest += piece
            *whole, rest = rest.split("\n")
            for line in whole:
                yield line
        if rest:
            yield rest

    def __aiter__(self) -> "OutputStream":
        return self

    async def __anext__(self) -> str:
        while not self._ended:
            chunk = await self.read_chunk()
            self._ended = not chunk
            piece: str = self._decoder.decode(chunk, final=self._ended)
            if piece:
                return piece
        raise StopAsyncIteration


class ExecStdout(OutputStream):
    """Standard output."""


class ExecStderr(OutputStream):
    """Standard error."""


def _too_much(stream: str, limit: int) -> ResourceExhaustedError:
    return ResourceExhaustedError(f"the command wrote more than {limit} bytes to {stream}",
                                  hint="give max_output=, or read the output in pieces: box.spawn(...).stdout()")


class Execution:
    """A command that runs, or ran, in a box. Closing it, or losing the last reference, kills the command with all that it
    started, unless it has ended or is detached."""

    def __init__(self, core: Core, handle: Handle, argv: Sequence[str], stdin: bool) -> None:
        self._core = core
        self._handle = handle
        self._argv = list(argv)
        self._has_stdin = stdin
        self._stdin_closed = not stdin
        self._stdin_taken = False
        self._taken: Dict[int, OutputStream] = {}
        self._collecting: Tuple[int, ...] = ()  # streams that the callback empties: kept, or dropped
        self._collected: Dict[int, bytearray] = {}
        self._limit = MAX_OUTPUT
        self._over: Optional[str] = None
        self._ended = {stream: False for stream in _STREAMS}
        self._feed: Optional[memoryview] = None
        self._waiters: List[Tuple[int, "asyncio.Future[None]"]] = []
        self._result: Optional[ExecResult] = None
        handle.owner = weakref.ref(self)
        # The number leads to a small object, not to this one: so a command that nobody holds is collected.
        self._events_to = _Events(self)
        self._number = register(self._events_to)
        lib.boxlite_exec_set_callback(handle.pointer, lib.boxlite_sdk_exec, pointer_of(self._number))

    # ---- Native calls

    def _due(self) -> int:
        return int(lib.boxlite_exec_events(self._handle.pointer))

    def _on_events(self, events: int) -> None:
        """From dispatch: takes what is collected, feeds what waits, wakes who waits."""
        for stream in self._collecting:
            if events & _STREAMS[stream]:
                self._collect(stream)
        if self._feed is not None and events & lib.BOXLITE_EXEC_STDIN:
            self._feed_some()
        for mask, future in self._waiters:
            if mask & events and not future.done():
                future.set_result(None)

    async def _events(self, mask: int) -> None:
        """Waits until one of the events comes, or is due already."""
        await self._core.attach()
        if self._due() & mask:
            return
        waiter = (mask, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            await waiter[1]
        finally:
            self._waiters.remove(waiter)

    def _take(self, stream: int) -> Optional[bytes]:
        """What is there: None if nothing is yet, b"" at the end."""
        if self._ended[stream]:
            return b""
        pointer = self._handle.pointer
        n = lib.boxlite_exec_read(pointer, stream, _buffer, CHUNK, ffi.NULL)
        if n == lib.BOXLITE_E_AGAIN:
            return None
        if n < 0:
            n = call(lib.boxlite_exec_read, pointer, stream, _buffer, CHUNK)
        if n == 0:
            self._ended[stream] = True
            return b""
        self._core.metrics["bytes_received_total"] += n
        return bytes(ffi.buffer(_buffer, n))

    async def _read(self, stream: int) -> bytes:
        while True:
            data = self._take(stream)
            if data is not None:
                return data
            await self._events(_STREAMS[stream])

    def _write(self, data: memoryview) -> int:
        """How much was taken; 0: wait for the event."""
        slot = ffi.new("boxlite_error **")
        n: int = lib.boxlite_exec_write(self._handle.pointer, ffi.from_buffer(data), len(data), slot)
        if n >= 0:
            return n
        error, code = slot[0], n
        try:
            if code == lib.BOXLITE_E_AGAIN:
                return 0
            raise from_native(code, error)
        finally:
            lib.boxlite_error_free(error)

    def _count_sent(self, n: int) -> None:
        self._core.metrics["bytes_sent_total"] += n

    def _close_stdin(self) -> None:
        if not self._stdin_closed:
            self._stdin_closed = True
            call(lib.boxlite_exec_close_stdin, self._handle.pointer)

    # ---- Collecting

    def _collect(self, stream: int) -> None:
        while not self._ended[stream]:
            data = self._take(stream)
            if data is None:
                return
            kept = self._collected.get(stream)
            if kept is None or self._over:
                continue
            kept += data
            if len(kept) > self._limit:
                self._over = _NAMES[stream]
                self._kill_quietly()

    def _feed_some(self) -> None:
        while self._feed is not None:
            try:
                taken = self._write(self._feed) if len(self._feed) else 0
            except InvalidStateError:  # it ended, or closed its input: its result tells more
                self._feed = None
                return
            self._feed = self._feed[taken:]
            if not len(self._feed):
                self._feed = None
                self._close_stdin()
            elif not taken:
                return

    def _kill_quietly(self) -> None:
        lib.boxlite_exec_signal(self._handle.pointer, int(_signal.SIGKILL), ffi.NULL)

    async def communicate(self, input: Optional[Data] = None, *, max_output: int = MAX_OUTPUT) -> ExecResult:
        """Gives it `input`, takes all of its output, waits for its end. A cancelled caller kills it.

        Args:
            input: bytes, or text that goes as UTF-8. Its standard input ends after it.
            max_output: bytes of each stream; one more kills the command and raises `ResourceExhaustedError`.
        """
        if self._taken:
            raise InvalidStateError("the output of this command is being read already")
        self._collecting = tuple(_STREAMS)
        self._collected = {stream: bytearray() for stream in _STREAMS}
        self._limit = max_output
        if self._has_stdin:
            self._feed = to_bytes(input) if input is not None else memoryview(b"")
            self._count_sent(len(self._feed))
        elif input is not None:
            raise InvalidArgumentError("input: the command was started without a standard input")
        await self._finish()
        if self._over is not None:
            raise _too_much(self._over, max_output)
        assert self._result is not None
        return self._result

    async def _finish(self) -> None:
        """Waits for the end while the callback collects."""
        try:
            for stream in _STREAMS:
                self._collect(stream)
            if self._feed is not None:
                self._feed_some()
            while not all(self._ended.values()):
                waiting = sum(bit for stream, bit in _STREAMS.items() if not self._ended[stream])
                waiter = (waiting | lib.BOXLITE_EXEC_EXITED, asyncio.get_running_loop().create_future())
                self._waiters.append(waiter)
                try:
                    await waiter[1]
                finally:
                    self._waiters.remove(waiter)
                for stream in _STREAMS:
                    self._collect(stream)
            await self._events(lib.BOXLITE_EXEC_EXITED)
            self._take_result()
        except BaseException:
            self.close()
            raise

    def _take_result(self) -> ExecResult:
        if self._result is None:
            native = ffi.new("boxlite_exec_result *")
            native.struct_size = ffi.sizeof("boxlite_exec_result")
            call(lib.boxlite_exec_wait, self._handle.pointer, 0, native)
            failure = lib.boxlite_exec_failure(self._handle.pointer)
            kept = self._collected
            self._result = result_of(native, None if failure == ffi.NULL else text(failure),
                                     bytes(kept.get(lib.BOXLITE_STDOUT, b"")), bytes(kept.get(lib.BOXLITE_STDERR, b"")))
            if self._result.exit_code:
                self._core.metrics["total_exec_errors"] += 1
        return self._result

    # ---- Public

    def id(self) -> str:
        """Its number in the box as text, for `Box.attach`; "0" until it runs."""
        return str(lib.boxlite_exec_number(self._handle.pointer))

    def stdin(self) -> ExecStdin:
        """Its standard input. Can be taken once."""
        if self._stdin_taken or not self._has_stdin:
            raise InvalidStateError("stdin was taken already" if self._stdin_taken else
                                    "the command was started without a standard input")
        self._stdin_taken = True
        return ExecStdin(self)

    def _output(self, stream: int, cls: Type[OutputStream]) -> OutputStream:
        if stream in self._taken or self._collecting:
            raise InvalidStateError(f"{_NAMES[stream]} was taken already")
        self._taken[stream] = cls(self, stream)
        return self._taken[stream]

    def stdout(self) -> ExecStdout:
        """Its standard output (with a terminal: all of its output). Can be taken once."""
        return self._output(lib.BOXLITE_STDOUT, ExecStdout)  # type: ignore[return-value]

    def stderr(self) -> ExecStderr:
        """Its standard error. Can be taken once."""
        return self._output(lib.BOXLITE_STDERR, ExecStderr)  # type: ignore[return-value]

    async def output(self) -> AsyncIterator[Output]:
        """Iterates over both outputs in the order in which they arrive."""
        for stream, cls in ((lib.BOXLITE_STDOUT, ExecStdout), (lib.BOXLITE_STDERR, ExecStderr)):
            self._output(stream, cls)
        while not all(self._ended.values()):
            found = False
            for stream in _STREAMS:
                data = self._take(stream)
                if data:
                    found = True
                    yield Output(_NAMES[stream], data)
            open_streams = sum(bit for stream, bit in _STREAMS.items() if not self._ended[stream])
            if not found and open_streams:
                await self._events(open_streams)

    async def wait(self) -> ExecResult:
        """Its end. Output that nobody has taken is dropped (it stays in the box: `Box.attach` shows it), and a standard
        input that nobody has taken is closed. A cancelled wait leaves the command running."""
        if self._result is None:
            await self._core.attach()
            if not self._stdin_taken and self._feed is None:
                self._close_stdin()
            if not self._collecting:
                self._collecting = tuple(stream for stream in _STREAMS if stream not in self._taken)
            for stream in self._collecting:
                self._collect(stream)
            await self._events(lib.BOXLITE_EXEC_EXITED)
            self._take_result()
        assert self._result is not None
        return self._result

    async def signal(self, signo: int) -> None:
        """Sends it a signal (Linux numbers). SIGKILL ends all that it has started, too."""
        await self._core.attach()
        call(lib.boxlite_exec_signal, self._handle.pointer, int(signo))

    async def kill(self, signal: int = 9) -> None:
        """`signal(SIGKILL)`, unless another is named."""
        await self.signal(signal)

    async def resize_tty(self, rows: int, cols: int) -> None:
        """Tells its terminal a new size."""
        await self._core.attach()
        call(lib.boxlite_exec_resize, self._handle.pointer, rows, cols)

    def close(self) -> None:
        """Frees it: kills the command unless it has ended or is detached."""
        unregister(self._number)
        self._handle.free()

    def _on_freed(self) -> None:
        """Nobody waits for what cannot come any more."""
        for _mask, future in self._waiters:
            if not future.done():
                future.set_exception(InvalidStateError("the command was closed while it was waited for"))

    async def __aenter__(self) -> "Execution":
        return self

    async def __aexit__(self, _type: Optional[Type[BaseException]], _value: Optional[BaseException],
                        _traceback: Optional["TracebackType"]) -> None:
        self.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            unregister(getattr(self, "_number", 0))
            handle.drop()

    def __repr__(self) -> str:
        state = "closed" if not self._handle.alive else "ended" if self._result is not None else "running"
        return f"<Execution {self._argv[0]!r} {state}>"


class _Events:
    """What a callback's number leads to. Holds the command weakly."""

    __slots__ = ("_execution",)

    def __init__(self, execution: Execution) -> None:
        self._execution = weakref.ref(execution)

    def on_events(self, events: int) -> None:
        execution = self._execution()
        if execution is not None:
            execution._on_events(events)
