# SPDX-License-Identifier: Apache-2.0
"""The wire protocol once more, from docs/wire.md and not from the C code: the shim's side of link 1.

Blocking, with deadlines: every wait is for a message or an event of a channel.
"""
import os
import re
import select
import socket
import struct
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAGIC = 0x314C5842
VERSION = 1
SHIM, AGENT = 1, 2
HELLO, MSG, DATA, EOF, CREDIT, RESET = range(1, 7)
WINDOW = 1 << 20
TTY, STDIN = 1, 2
TIMED_OUT, OOM_KILLED, NOT_STARTED = 1, 2, 4


def _numbers():
    """Message and tag numbers of src/wire/proto.h, the one place where they are written."""
    with open(os.path.join(ROOT, "src/wire/proto.h")) as f:
        text = f.read()
    return {m[1]: int(m[2]) for m in re.finditer(r"\bBX_((?:AG|SH|T)_\w+)\s*=\s*(\d+)", text)}


N = _numbers()
TAGS = {v: k[2:] for k, v in N.items() if k.startswith("T_")}
MESSAGES = {v: k[3:] for k, v in N.items() if k.startswith("AG_")}
NUMBERS = set(
    "REQUEST EXEC FLAGS ROWS COLS TIMEOUT_MS SIGNO CODE EXIT_FLAGS WALL_US USER_US SYSTEM_US MAX_RSS "
    "START_ERROR PID ERRNO CLOCK_NS NET_MTU BOOT_US LEVEL MEM_TOTAL MEM_FREE CPU_US PIDS".split()
)


def frame(kind, channel=0, payload=b""):
    return struct.pack("<IIBBH", len(payload), channel, kind, 0, 0) + payload


def message(name, fields):
    out = struct.pack("<H", N["AG_" + name])
    for tag, value in fields:
        if isinstance(value, int):
            value = struct.pack("<Q", value)
        elif isinstance(value, str):
            value = value.encode("utf-8", "surrogateescape")
        out += struct.pack("<HI", N["T_" + tag], len(value)) + value
    return out


def parse(payload):
    (kind,) = struct.unpack_from("<H", payload)
    fields, at = {}, 2
    while at < len(payload):
        tag, length = struct.unpack_from("<HI", payload, at)
        value = payload[at + 6 : at + 6 + length]
        assert len(value) == length
        name = TAGS[tag]
        fields[name] = struct.unpack("<Q", value)[0] if name in NUMBERS else value
        at += 6 + length
    return MESSAGES[kind], fields


class Lost(Exception):
    """The link has ended."""


class Channel:
    def __init__(self):
        self.data = bytearray()
        self.eof = False
        self.reset = False
        self.credit = WINDOW  # what we may send
        self.owed = 0
        self.hold = False  # keep the credit back: a slow reader


class Link:
    """One connected socket to an agent."""

    def __init__(self, sock):
        self.sock = sock
        self.buf = bytearray()
        self.channels = {}
        self.inbox = []
        self.greeted = False
        sock.setblocking(False)
        self.put(frame(HELLO, 0, struct.pack("<III", MAGIC, VERSION, SHIM)))

    def put(self, data):
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except BlockingIOError:
                self.step(time.monotonic() + 30, want_out=True)
            except (BrokenPipeError, ConnectionResetError):
                raise Lost()

    def step(self, deadline, want_out=False):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("nothing from the agent in time")
        r, w, _ = select.select([self.sock], [self.sock] if want_out else [], [], left)
        if r:
            try:
                data = self.sock.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise Lost()
            self.feed(data)

    def feed(self, data):
        self.buf += data
        at = 0
        while len(self.buf) - at >= 12:
            length, channel, kind, zero, zero2 = struct.unpack_from("<IIBBH", self.buf, at)
            assert zero == 0 and zero2 == 0
            if len(self.buf) - at - 12 < length:
                break
            self.handle(kind, channel, bytes(self.buf[at + 12 : at + 12 + length]))
            at += 12 + length
        del self.buf[:at]

    def handle(self, kind, channel, payload):
        if kind == HELLO:
            assert not self.greeted
            assert struct.unpack("<III", payload) == (MAGIC, VERSION, AGENT)
            self.greeted = True
            return
        assert self.greeted
        if kind == MSG:
            self.inbox.append(parse(payload))
            return
        c = self.channels.get(channel)
        if c is None:
            return
        if kind == DATA:
            assert 0 < len(payload) <= 65536 and not c.eof
            c.data += payload
            c.owed += len(payload)
            assert c.owed <= WINDOW, "the agent sent more than it was granted"
            if not c.hold and c.owed >= WINDOW // 4:
                self.consume(channel)
        elif kind == EOF:
            assert not c.eof
            c.eof = True
        elif kind == CREDIT:
            c.credit += struct.unpack("<I", payload)[0]
            assert c.credit <= WINDOW
        elif kind == RESET:
            c.reset = True
        else:
            raise AssertionError(f"frame type {kind}")

    def consume(self, channel):
        c = self.channels[channel]
        owed, c.owed = c.owed, 0
        if owed:
            self.put(frame(CREDIT, channel, struct.pack("<I", owed)))

    def send(self, name, *fields):
        payload = message(name, fields)
        self.put(frame(MSG, 0, payload))

    def until(self, done, timeout=60):
        deadline = time.monotonic() + timeout
        while not done():
            self.step(deadline)

    def expect(self, match, timeout=60):
        """The first message for which match(name, fields) holds; it leaves the inbox."""
        found = []

        def look():
            for i, (name, fields) in enumerate(self.inbox):
                if match(name, fields):
                    found.append(self.inbox.pop(i))
                    return True
            return False

        self.until(look, timeout)
        return found[0]


class Exec:
    """A command in the guest."""

    def __init__(self, vm, number, fields):
        self.vm, self.link, self.number = vm, vm.link, number
        for stream in range(3):
            self.link.channels[number << 2 | stream] = Channel()
        self.stdin, self.stdout, self.stderr = (self.link.channels[number << 2 | s] for s in range(3))
        self.link.send("EXEC", ("EXEC", number), *fields)
        self.result = None

    def write(self, data, timeout=60):
        view = memoryview(data)
        deadline = time.monotonic() + timeout
        while view and not self.stdin.reset:
            n = min(len(view), self.stdin.credit, 65536)
            if n == 0:
                self.link.step(deadline)
                continue
            self.stdin.credit -= n
            self.link.put(frame(DATA, self.number << 2, bytes(view[:n])))
            view = view[n:]
            while select.select([self.link.sock], [], [], 0)[0]:
                self.link.step(deadline)

    def close_stdin(self):
        self.link.put(frame(EOF, self.number << 2))

    def started(self, timeout=60):
        return self.link.expect(lambda n, f: n == "STARTED" and f["EXEC"] == self.number, timeout)[1]["PID"]

    def signal(self, signo):
        self.link.send("SIGNAL", ("EXEC", self.number), ("SIGNO", signo))

    def resize(self, rows, cols):
        self.link.send("RESIZE", ("EXEC", self.number), ("ROWS", rows), ("COLS", cols))

    def read_until(self, text, timeout=60):
        self.link.until(lambda: text in self.stdout.data or self.stdout.eof, timeout)
        assert text in self.stdout.data, bytes(self.stdout.data)

    def wait(self, timeout=60):
        if self.result is None:
            name, f = self.link.expect(lambda n, f: n == "EXITED" and f["EXEC"] == self.number, timeout)
            assert self.stdout.eof and self.stderr.eof, "EOF of the outputs comes before EXITED"
            self.result = f
            self.link.inbox = [
                (n, g) for n, g in self.link.inbox if not (n == "STARTED" and g["EXEC"] == self.number)
            ]
        return self.result

    @property
    def out(self):
        return bytes(self.stdout.data)

    @property
    def err(self):
        return bytes(self.stderr.data)
