# SPDX-License-Identifier: Apache-2.0
"""Clumsy and hostile clients. A shim without a VM runs the commands, so that many may run."""
import json
import random
import signal

import pytest

from conftest import BUILD, MCP_SERVER, _read, assert_nothing_left, processes, wait_until
from mcpclient import Server

FAKE = str(BUILD / "tests" / "fakeshim")


@pytest.fixture
def server(home):
    s = Server([MCP_SERVER], {"BOXLITE_HOME": str(home), "BOXLITE_LIBEXEC": FAKE})
    s.initialize()
    yield s
    s.kill()
    assert_nothing_left(home)


def sleepers(seconds):
    return [p for p in processes() if p.name == "sleep" and seconds in _read(f"/proc/{p.pid}/cmdline").split(b"\0")]


def sleep(server, seconds, **more):
    return server.start("tools/call", {"name": "run_command", "arguments": {"command": f"sleep {seconds}", **more}})


def test_a_storm_of_cancellations(server):
    server.call("run_command", command="true")
    for _ in range(3):
        ids = [sleep(server, 8001) for _ in range(60)]
        random.Random(1).shuffle(ids)
        for id in ids:
            server.send({"method": "notifications/cancelled", "params": {"requestId": id}})
    assert server.request("ping", timeout=20)["result"] == {}
    wait_until(lambda: not sleepers(b"8001"))
    assert server.call("run_command", command="echo well")["structuredContent"]["stdout"] == "well\n"
    assert not server.answers  # nothing was said about the cancelled ones


def test_an_id_that_is_in_use_is_refused_and_the_first_call_goes_on(server):
    for _ in range(5):
        server.start("tools/call", {"name": "run_command", "arguments": {"command": "sleep 0.5; echo once"}}, id="same")
    answers = [server.line() for _ in range(5)]
    assert [a["error"]["code"] for a in answers if "error" in a] == [-32600] * 4
    assert [a["result"]["structuredContent"]["stdout"] for a in answers if "result" in a] == ["once\n"]


def test_too_many_calls_are_told_so_and_none_starves(server):
    ids = [server.start("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1"}}) for _ in range(90)]
    results = [server.wait(id)["result"] for id in ids]
    refused = [r["structuredContent"] for r in results if r["isError"]]
    assert len(refused) == 26 and all(r["code"] == "BUSY" and "wait" in r["hint"] for r in refused)
    assert all(r["structuredContent"]["exit_code"] == 0 for r in results if not r["isError"])


def test_damaged_messages(server):
    rnd = random.Random(2)
    arguments = [{"process": "p1", "offset": 2 ** 63}, {"command": "true", "env": {"": "x"}}, {"path": "", "offset": -1}, [], None,
                 {"code": "", "language": "python", "files": {"": "x"}}, {"command": "true", "timeout_seconds": 1e300}]
    for i in range(300):
        params = rnd.choice([{}, [], None, 1, {"_meta": []}, {"_meta": {"progressToken": {}}},
                             {"name": rnd.choice(["run_command", "read_file", "execute_code", "read_output", "", 5]),
                              "arguments": rnd.choice(arguments)}])
        line = bytearray(json.dumps({"jsonrpc": "2.0", "id": 1000 + i, "method": rnd.choice(["tools/call", "ping", "x"]),
                                     "params": params}).encode())
        for _ in range(rnd.randrange(4)):
            line[rnd.randrange(len(line))] = rnd.randrange(256)
        server.send_raw(bytes(line).replace(b"\n", b" ") + b"\n")
    assert server.request("ping", timeout=60)["result"] == {}
    assert server.close()[0] == 0


@pytest.mark.parametrize("how", ["kill", "end of input", "term"])
def test_five_busy_environments_leave_nothing(home, how):
    s = Server([MCP_SERVER], {"BOXLITE_HOME": str(home), "BOXLITE_LIBEXEC": FAKE})
    try:
        s.initialize()
        for i in range(5):
            assert not s.call("create_environment", image="boxlite/base:bookworm", name=f"e{i}")["isError"]
        for i in range(30):
            sleep(s, 8002, environment=f"e{i % 5}")
        wait_until(lambda: len(sleepers(b"8002")) == 30)
        costs = [(e["memory_used_mb"], e["disk_used_mb"]) for e in s.call("list_environments")["structuredContent"]["environments"]]
        assert len(costs) == 5 and all(memory > 0 and disk > 0 for memory, disk in costs), costs
        if how == "end of input":
            assert s.close()[0] == 0
        else:
            s.process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
            s.process.wait(timeout=10)
        wait_until(lambda: not sleepers(b"8002"))
        assert_nothing_left(home)
    finally:
        s.kill()
