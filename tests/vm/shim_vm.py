# SPDX-License-Identifier: Apache-2.0
"""A box of the shim alone: the program boxlite-shim, started as the library would, and a client of link 2."""
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile

import wire
from wire import DATA, EOF, HELLO, MSG, N, Channel, Link, Lost, frame

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT, SHIM = 3, 1
STARTING, RUNNING, PAUSED, STOPPING, STOPPED = 1, 2, 3, 4, 5
NUMBERS = wire.NUMBERS | set(
    "CODE_NEG STATE STARTED_NS ATTACHMENT OFFSET_OUT OFFSET_ERR FOLLOW STDIN START_OUT START_ERR DETACHED".split()
)
NAMES = {v: k[3:] for k, v in N.items() if k.startswith("SH_")}


class Refused(Exception):
    def __init__(self, fields):
        super().__init__(fields.get("ERROR", b"").decode())
        self.code, self.hint = -fields["CODE_NEG"], fields.get("HINT", b"").decode()


def parse(payload):
    (kind,) = struct.unpack_from("<H", payload)
    fields, at = {}, 2
    while at < len(payload):
        tag, length = struct.unpack_from("<HI", payload, at)
        value = payload[at + 6 : at + 6 + length]
        name = wire.TAGS[tag]
        fields[name] = struct.unpack("<Q", value)[0] if name in NUMBERS else value
        at += 6 + length
    return NAMES[kind], fields


class Client(Link):
    def __init__(self, sock):
        self.request = self.attachment = 0
        self.states = []
        super().__init__(sock)

    def put(self, data):
        # The base class introduces itself as the shim.
        if data[8] == HELLO:
            data = frame(HELLO, 0, struct.pack("<III", wire.MAGIC, wire.VERSION, CLIENT))
        try:
            super().put(data)
        except Lost:
            if data[8] != HELLO:  # a shim that has failed already has left its reason to be read
                raise

    def handle(self, kind, channel, payload):
        if kind == HELLO:
            assert struct.unpack("<III", payload) == (wire.MAGIC, wire.VERSION, SHIM)
            self.greeted = True
        elif kind == MSG:
            name, fields = parse(payload)
            if name == "STATE":
                self.states.append(fields)
            else:
                self.inbox.append((name, fields))
        else:
            super().handle(kind, channel, payload)

    def post(self, name, *fields):
        self.request += 1
        out = struct.pack("<H", N["SH_" + name])
        for tag, value in [("REQUEST", self.request), *fields]:
            if isinstance(value, int):
                value = struct.pack("<Q", value)
            elif isinstance(value, str):
                value = value.encode()
            out += struct.pack("<HI", N["T_" + tag], len(value)) + value
        self.put(frame(MSG, 0, out))
        return self.request

    def answer(self, request, timeout=60):
        name, f = self.expect(lambda n, f: f.get("REQUEST") == request, timeout)
        if name == "REPLY_ERROR":
            raise Refused(f)
        return f

    def ask(self, name, *fields, timeout=60):
        return self.answer(self.post(name, *fields), timeout)

    def until_state(self, *states, timeout=90):
        self.until(lambda: self.states and self.states[-1]["STATE"] in states, timeout)
        return self.states[-1]

    def attach(self, exec_number, **fields):
        self.attachment += 1
        a = Attachment(self, self.attachment)
        f = [("EXEC", exec_number), ("ATTACHMENT", a.number)] + [(k.upper(), v) for k, v in fields.items()]
        a.start = self.ask("ATTACH", *f)
        return a

    def exec(self, *argv, stdin=False, detached=False, **fields):
        f = [("ARG", x) for x in argv] + [("FLAGS", 2 if stdin else 0), ("DETACHED", int(detached))]
        number = self.ask("EXEC", *f, *[(k.upper(), v) for k, v in fields.items()])["EXEC"]
        a = self.attach(number, **({"stdin": 1} if stdin else {}))
        a.exec = number
        return a

    def wait(self, number, timeout=60):
        return self.ask("WAIT", ("EXEC", number), timeout=timeout)


class Attachment:
    def __init__(self, client, number):
        self.client, self.number = client, number
        for s in range(3):
            client.channels[number << 2 | s] = Channel()
        self.stdin, self.stdout, self.stderr = (client.channels[number << 2 | s] for s in range(3))

    def write(self, data):
        view = memoryview(data)
        while view and not self.stdin.reset:
            n = min(len(view), self.stdin.credit, 65536)
            if n == 0:
                self.client.until(lambda: self.stdin.credit or self.stdin.reset)
                continue
            self.stdin.credit -= n
            self.client.put(frame(DATA, self.number << 2, bytes(view[:n])))
            view = view[n:]

    def close_stdin(self):
        self.client.put(frame(EOF, self.number << 2))

    def read_all(self, timeout=60):
        self.client.until(lambda: self.stdout.eof and self.stderr.eof, timeout)
        return bytes(self.stdout.data)


class Box:
    """A box's folder in a home of its own."""

    def __init__(self, files, **config):
        self.dir = tempfile.mkdtemp(prefix="shim-vm-")
        self.box = os.path.join(self.dir, "box")
        self.home = os.path.join(self.dir, "home")
        kernel = os.path.join(self.home, "kernels", "default")
        for d in (self.box, kernel, os.path.join(self.home, "rootfs")):
            os.makedirs(d)
        os.symlink(os.path.join(files.kernel, "vmlinux"), os.path.join(kernel, "vmlinux"))
        os.symlink(files.initramfs, os.path.join(kernel, "initramfs"))
        os.symlink(files.image, os.path.join(self.home, "rootfs", "r.sqfs"))
        subprocess.run(["cp", "--sparse=always", files.disk, os.path.join(self.box, "upper.img")], check=True)
        self.config = {
            "id": "0123456789abcdef", "name": "b", "hostname": "b", "image": "img", "rootfs": "rootfs/r.sqfs",
            "kernel": "default", "engine": "qemu-tcg", "cpus": 1, "memory": 256 << 20, "disk": 512 << 20,
            "network": 0, "auto_remove": False, "detached": False, "timeout_ms": 0, "created": 0, "main": False,
            "rows": 0, "cols": 0, "stdin_open": False, "env": ["PATH=/bin:/sbin", "A=box"], **config,
        }  # fmt: skip
        self.shim = self.starter = None

    def start(self):
        with open(os.path.join(self.box, "config.json"), "w") as f:
            json.dump(self.config, f)
        ours, theirs = socket.socketpair()
        fds = [os.open(self.box, os.O_RDONLY), os.open(self.home, os.O_RDONLY), theirs.fileno()]
        build = os.environ.get("BOXLITE_BUILD") or os.path.join(ROOT, "build")
        with open(os.path.join(self.box, "shim.log"), "a") as log:
            argv = [os.path.join(build, "boxlite-shim"), "--box-fd", str(fds[0]), "--home-fd", str(fds[1])]
            argv += ["--control-fd", str(fds[2]), "--log-level", "3"]
            self.shim = subprocess.Popen(
                argv, pass_fds=fds, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        os.close(fds[0])
        os.close(fds[1])
        theirs.close()
        self.starter = Client(ours)
        return self.starter

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(os.path.join(self.box, "control.sock"))
        return Client(s)

    def path(self, name):
        return os.path.join(self.box, name)

    def exit(self):
        with open(self.path("exit.json")) as f:
            return json.load(f)

    def engine_pid(self):
        with open(f"/proc/{self.shim.pid}/task/{self.shim.pid}/children") as f:
            return int(f.read().split()[0])

    def log(self):
        with open(self.path("shim.log"), errors="replace") as f:
            return f.read()

    def close(self):
        if self.shim and self.shim.poll() is None:
            self.shim.kill()
            self.shim.wait()
        if self.starter:
            self.starter.sock.close()
        shutil.rmtree(self.dir, ignore_errors=True)
