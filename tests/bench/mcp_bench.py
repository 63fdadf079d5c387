#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mcp_bench: what the MCP server costs, each number beside its reference or its goal.

Usage: mcp_bench.py HOME [--rounds N] [--megabytes N]. HOME has kernel and base image (`make home`).
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mcp"))
from mcpclient import Server  # noqa: E402

SERVER, BOXLITE = str(ROOT / "build/bin/boxlite-mcp-server"), str(ROOT / "build/bin/boxlite")


def timed(fn):
    start = time.monotonic()
    fn()
    return (time.monotonic() - start) * 1000


def start_and_list():
    with tempfile.TemporaryDirectory() as home:
        s = Server([SERVER], {"BOXLITE_HOME": home + "/none"})
        s.initialize()
        s.request("tools/list")
        s.kill()


def peak_kib(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("no VmHWM")


def line(what, value, goal):
    print(f"{what:58} {value:>22}   goal {goal}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("home")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--megabytes", type=int, default=1024)
    o = parser.parse_args()

    times = [timed(start_and_list) for _ in range(o.rounds)]
    line("start, initialize, tools/list; empty home", f"{statistics.median(times):.1f} ms", "< 50 ms")

    s = Server([SERVER, "--yield-after", "600", "--max-timeout", "1200"], {"BOXLITE_HOME": o.home})
    s.initialize()
    assert s.call("run_command", command="true")["structuredContent"]["exit_code"] == 0
    env = {"BOXLITE_HOME": o.home, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    box = subprocess.run([BOXLITE, "ls", "-q"], env=env, check=True, capture_output=True, text=True).stdout.split()[0]

    def by_mcp():
        assert s.call("execute_code", code="print(1)", language="python")["structuredContent"]["stdout"] == "1\n"

    def by_exec():
        subprocess.run([BOXLITE, "exec", box, "python3", "-c", "print(1)"], env=env, check=True, capture_output=True)

    mine, theirs = [], []
    for _ in range(o.rounds):
        mine.append(timed(by_mcp))
        theirs.append(timed(by_exec))
    a, b = statistics.median(mine), statistics.median(theirs)
    line("warm execute_code print(1) / boxlite exec python3 -c", f"{a:.0f}/{b:.0f} ms = {a / b:.2f}", "<= 1.15")

    before = peak_kib(s.process.pid)
    start = time.monotonic()
    size = o.megabytes << 20
    v = s.call("run_command", command=f"yes 'a line of output' | head -c {size}", timeout_seconds=1200, timeout=1300)
    v = v["structuredContent"]
    assert v["stdout_bytes"] == size, v
    line(f"server memory at its peak after {o.megabytes} MiB of output", f"{peak_kib(s.process.pid) / 1024:.1f} MiB", "< 64 MiB")
    line("  (before; time)", f"{before / 1024:.1f} MiB; {time.monotonic() - start:.0f} s", "-")

    start = time.monotonic()
    ids = [s.start("tools/call", {"name": "run_command", "arguments": {"command": "echo x"}}) for _ in range(20)]
    ends = []
    for id in ids:
        assert s.wait(id)["result"]["structuredContent"]["stdout"] == "x\n"
        ends.append((time.monotonic() - start) * 1000)
    one = statistics.median(timed(lambda: s.call("run_command", command="echo x")) for _ in range(5))
    line("20 calls at once, the last / 20 one after the other", f"{ends[-1]:.0f}/{20 * one:.0f} ms = {ends[-1] / 20 / one:.2f}",
         "<= 1.2")
    s.close()


if __name__ == "__main__":
    main()
