# SPDX-License-Identifier: Apache-2.0
"""mcpclient: a small MCP client over stdio for tests. Every wait has a deadline."""
import json
import os
import queue
import subprocess
import threading
import time


class Server:
    def __init__(self, argv, env, stderr=subprocess.PIPE):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                                        env={**os.environ, **env})
        self.lines = queue.Queue()
        self.answers = {}
        self.next_id = 0
        self.errors = b""
        self.readers = [threading.Thread(target=self._read, daemon=True),
                        threading.Thread(target=self._read_errors, daemon=True)]
        for reader in self.readers:
            reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def _read_errors(self):
        for line in self.process.stderr or ():
            self.errors += line

    def send_raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def line(self, timeout=60):
        """The next message. Anything but a JSON object on a line fails the test."""
        line = self.lines.get(timeout=timeout)
        if line is None:
            raise EOFError(f"server ended: {self.process.wait(timeout=10)}: {self.errors!r}")
        message = json.loads(line)
        assert isinstance(message, dict) and message["jsonrpc"] == "2.0", line
        return message

    def start(self, method, params=None, id=None):
        if id is None:
            self.next_id += 1
            id = self.next_id
        self.send({"id": id, "method": method, "params": params or {}})
        return id

    def modern(self, method, params=None, timeout=60, version="2026-07-28", **meta):
        """A request of the stateless era; None as a value of meta leaves that field out."""
        prefix = "io.modelcontextprotocol/"
        fields = {prefix + "protocolVersion": version, prefix + "clientCapabilities": {},
                  prefix + "clientInfo": {"name": "tests", "version": "1"},
                  **{(key if key == "progressToken" else prefix + key): value for key, value in meta.items()}}
        meta = {key: value for key, value in fields.items() if value is not None}
        return self.request(method, {**(params or {}), "_meta": meta}, timeout)

    def wait(self, id, timeout=120):
        deadline = time.monotonic() + timeout
        while id not in self.answers:
            message = self.line(max(0.01, deadline - time.monotonic()))
            self.answers[message["id"]] = message
        return self.answers.pop(id)

    def request(self, method, params=None, timeout=120):
        return self.wait(self.start(method, params), timeout)

    def initialize(self, revision="2025-11-25"):
        answer = self.request("initialize", {"protocolVersion": revision, "capabilities": {},
                                             "clientInfo": {"name": "tests", "version": "1"}}, 10)
        self.send({"method": "notifications/initialized"})
        return answer["result"]

    def call(self, tool, timeout=180, **arguments):
        answer = self.request("tools/call", {"name": tool, "arguments": arguments}, timeout)
        assert "result" in answer, answer
        return answer["result"]

    def close(self, timeout=10):
        """End of input: exit status and seconds."""
        start = time.monotonic()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        status = self.process.wait(timeout=timeout)
        return status, time.monotonic() - start

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=10)
