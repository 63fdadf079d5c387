# SPDX-License-Identifier: Apache-2.0
"""The tools, in real VMs."""
import os
import pathlib
import signal
import time

import pytest

from conftest import MCP_SERVER, wait_until, box_processes
from mcpclient import Server

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def server(home):
    s = Server([MCP_SERVER], {"BOXLITE_HOME": str(home)})
    s.initialize()
    yield s
    assert s.close()[0] == 0


def test_execute_code_runs_python(server):
    result = server.call("execute_code", code="print(6*7)", language="python")
    v = result["structuredContent"]
    assert not result["isError"]
    assert (v["stdout"], v["stderr"], v["exit_code"], v["timed_out"]) == ("42\n", "", 0, False)
    assert v["engine"] and v["environment"] == "default" and v["file"] == "main.py"
    assert "42" in result["content"][0]["text"]


def test_files_stay_between_calls_and_tests_see_the_code(server):
    server.call("execute_code", code="def double(x):\n    return 2 * x\n", language="python")
    test = "python3 -c 'import main; assert main.double(4) == 8; print(\"good\")'"
    v = server.call("execute_code", code="def double(x):\n    return x + x\n", language="python",
                    test_command=test)["structuredContent"]
    assert v["tests_passed"] is True and v["tests"]["stdout"] == "good\n"
    v = server.call("execute_code", code="def double(x):\n    return 3 * x\n", language="python",
                    test_command=test)["structuredContent"]
    assert v["tests_passed"] is False and v["tests"]["exit_code"] == 1 and "AssertionError" in v["tests"]["stderr"]


def test_exit_code_and_stderr_are_data(server):
    result = server.call("execute_code", code="import sys\nsys.stderr.write('oops')\nsys.exit(3)", language="py")
    assert result["isError"] is False
    assert result["structuredContent"]["exit_code"] == 3 and result["structuredContent"]["stderr"] == "oops"


def test_missing_interpreter_is_127_with_a_reason(server):
    v = server.call("execute_code", code="puts 1", language="ruby")["structuredContent"]
    assert v["exit_code"] == 127 and "ruby" in v["stderr"]


def test_code_of_four_megabytes(server):
    code = "x = '" + "a" * (4 << 20) + "'\nprint(len(x))\n"
    assert server.call("execute_code", code=code, language="python")["structuredContent"]["stdout"] == f"{4 << 20}\n"


def test_long_output_keeps_head_and_tail_and_says_how_much(server):
    code = "for i in range(200000): print('line', i)"
    v = server.call("execute_code", code=code, language="python")["structuredContent"]
    assert v["truncated"] and v["stdout"].startswith("line 0\nline 1\n") and v["stdout"].endswith("line 199999\n")
    assert "bytes left out" in v["stdout"] and len(v["stdout"]) < 8000
    assert v["stdout_bytes"] == sum(len(f"line {i}\n") for i in range(200000))


def test_output_that_is_not_utf8(server):
    code = "import sys; sys.stdout.buffer.write(b'a\\xff\\xfe\\x00b\\xe2\\x82\\xac')"
    v = server.call("execute_code", code=code, language="python")["structuredContent"]
    assert v["stdout"] == "a\ufffd\ufffd\ufffdb\u20ac" and v["stdout_bytes"] == 8


def sleepers(server, seconds):
    """How many `sleep SECONDS` run in the environment."""
    command = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null | grep -c '^sleep " + str(seconds)
    return int(server.call("run_command", command=command + " $'; true")["structuredContent"]["stdout"])


def test_timeout_kills_the_tree_and_says_so(server):
    v = server.call("run_command", command="(setsid sleep 300 &) ; sleep 300", timeout_seconds=1)["structuredContent"]
    assert v["timed_out"] is True and v["exit_code"] == 124
    assert sleepers(server, 300) == 0


def test_run_command_working_dir_and_no_network(server):
    v = server.call("run_command", command="pwd; cat /proc/net/route | wc -l", working_dir="/tmp/new/dir")
    assert v["structuredContent"]["stdout"] == "/tmp/new/dir\n1\n"


def test_calls_run_at_the_same_time(server):
    slow = server.start("tools/call", {"name": "run_command", "arguments": {"command": "read x < /tmp/fifo_never || "
                                       "mkfifo /tmp/fifo; cat /tmp/fifo"}})
    server.request("ping", timeout=5)
    made = "until [ -p /tmp/fifo ]; do :; done; echo through > /tmp/fifo"
    v = server.call("run_command", command=made, timeout_seconds=60)
    assert v["structuredContent"]["exit_code"] == 0
    assert server.wait(slow)["result"]["structuredContent"]["stdout"] == "through\n"


def test_parallel_code_does_not_share_a_file(server):
    ids = [server.start("tools/call", {"name": "execute_code", "arguments": {"code": f"print({i})", "language": "python"}})
           for i in range(4)]
    assert [server.wait(i)["result"]["structuredContent"]["stdout"] for i in ids] == ["0\n", "1\n", "2\n", "3\n"]


def test_cancellation_kills_the_work_and_sends_nothing(server):
    id = server.start("tools/call", {"name": "run_command", "arguments": {"command": "touch /tmp/begun; sleep 12345"}})
    server.call("run_command", command="until [ -e /tmp/begun ]; do :; done", timeout_seconds=60)
    server.send({"method": "notifications/cancelled", "params": {"requestId": id, "reason": "test"}})
    wait_until(lambda: sleepers(server, 12345) == 0)
    server.request("ping")
    assert id not in server.answers


def test_create_environment_and_use_it(server):
    v = server.call("create_environment", image="boxlite/base:bookworm", name="second", memory_mb=256,
                    env={"COLOUR": "blue"})["structuredContent"]
    assert v["environment"] == "second"
    v = server.call("run_command", command="echo $COLOUR; test -e /workspace/main.py; echo $?", environment="second")
    assert v["structuredContent"]["stdout"] == "blue\n1\n"
    again = server.call("create_environment", image="boxlite/base:bookworm", name="second")
    assert again["isError"] and again["structuredContent"]["code"] == "EXISTS"


def test_a_killed_engine_is_said_and_the_next_call_works(home):
    s = Server([MCP_SERVER], {"BOXLITE_HOME": str(home)})
    try:
        s.initialize()
        s.call("run_command", command="echo lost > /tmp/file")
        id = s.start("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1000"}})
        engine = wait_until(lambda: [p for p in box_processes(s.process.pid) if p.name.startswith("qemu")])[0]
        os.kill(engine.pid, signal.SIGKILL)
        result = s.wait(id)["result"]
        text = str(result["structuredContent"])
        assert result["isError"] or "ended" in result["content"][0]["text"], text
        v = s.call("run_command", command="cat /tmp/file")["structuredContent"]
        assert v["restarted"] is True and v["exit_code"] == 1
    finally:
        s.kill()


@pytest.mark.parametrize("how", ["eof", "term", "kill"])
def test_nothing_is_left_however_it_ends(home, how):
    s = Server([MCP_SERVER], {"BOXLITE_HOME": str(home)})
    s.initialize()
    s.call("run_command", command="true")
    s.start("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1000"}})
    pids = [p.pid for p in box_processes(s.process.pid)]
    assert len(pids) >= 2
    if how == "eof":
        s.close()
    else:
        s.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
        s.process.wait(timeout=10)
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))


def test_unknown_image_is_a_clear_error(server):
    result = server.call("create_environment", image="no/such:image")
    assert result["isError"] and result["structuredContent"]["code"] == "NOT_FOUND"
    assert "no/such:image" in result["structuredContent"]["error"] and result["structuredContent"]["hint"]
