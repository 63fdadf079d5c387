# SPDX-License-Identifier: Apache-2.0
"""Environments that nobody uses are stopped, started again by their next use, and leave nothing however the server ends.
A shim without a VM runs the commands, but for the last test."""
import signal

import pytest

from conftest import BUILD, MCP_SERVER, Cli, assert_nothing_left, wait_until
from mcpclient import Server

FAKE = {"BOXLITE_LIBEXEC": str(BUILD / "tests" / "fakeshim")}


def serve(home, *options, env=FAKE):
    s = Server([MCP_SERVER, *options], {"BOXLITE_HOME": str(home), **env})
    s.initialize()
    return s


def environments(s):
    return s.call("list_environments")["structuredContent"]["environments"]


def is_state(s, state):
    return wait_until(lambda: [e["state"] for e in environments(s)] == [state])


def run(s, command, **more):
    return s.call("run_command", command=command, **more)["structuredContent"]


def folders(home):
    return {p.name for p in (home / "boxes").iterdir()}


@pytest.fixture
def before(home):
    assert_nothing_left(home)  # killed servers' boxes have ended
    Cli(home).ok("ls", "--all")  # and what is left of them is cleared
    return folders(home)


def test_an_idle_environment_is_stopped_listed_and_started_again(home, before):
    s = serve(home, "--stop-idle", "1")
    try:
        assert "started_again" not in run(s, "true")
        box = folders(home) - before
        assert len(box) == 1
        for _ in range(2):
            is_state(s, "stopped")
            assert_nothing_left(home)  # no supervisor, no engine
            (e,) = environments(s)
            assert e["age_seconds"] >= 1 and e["idle_seconds"] >= 1 and e["disk_used_mb"] > 0 and "memory_used_mb" not in e, e
            Cli(home).ok("ls", "--all")  # a look of another process leaves it
            ids = [s.start("tools/call", {"name": "run_command", "arguments": {"command": "echo again"}}) for _ in range(3)]
            results = [s.wait(id)["result"]["structuredContent"] for id in ids]
            assert [v["stdout"] for v in results] == ["again\n"] * 3
            assert [v.get("started_again") for v in results].count(True) == 1 and not any("restarted" in v for v in results)
            assert folders(home) - before == box  # the same box with its disk
    finally:
        s.kill()
        assert_nothing_left(home)


def test_a_running_command_counts_as_use(home):
    s = serve(home, "--stop-idle", "1")
    try:
        v = run(s, "sleep 4; echo end", background=True)
        assert v["running"]
        wait_until(lambda: environments(s)[0]["running_commands"] == 0, timeout=30)
        out = s.call("read_output", process=v["process"])["structuredContent"]
        assert "end\n" in str(out) or out.get("exit_code") == 0, out
        is_state(s, "stopped")
    finally:
        s.kill()


def test_paused_first_then_stopped_and_neither_if_off(home):
    s = serve(home, "--idle-after", "1", "--stop-idle", "4")
    off = serve(home, "--idle-after", "1", "--stop-idle", "0")
    try:
        run(s, "true")
        run(off, "true")
        is_state(s, "paused")
        is_state(s, "stopped")
        assert [e["state"] for e in environments(off)] == ["paused"]
        assert run(s, "echo well")["stdout"] == "well\n"
    finally:
        s.kill()
        off.kill()


def test_a_stopped_one_is_removed_and_a_removed_box_is_made_afresh(home, before):
    s = serve(home, "--stop-idle", "1")
    try:
        run(s, "true")
        is_state(s, "stopped")
        assert s.call("remove_environment", environment="default")["structuredContent"]["removed"]
        wait_until(lambda: folders(home) == before)
        run(s, "true")
        is_state(s, "stopped")
        (box,) = folders(home) - before
        Cli(home).ok("rm", box)
        v = run(s, "true")
        assert v["restarted"] is True and "started_again" not in v and v["exit_code"] == 0
    finally:
        s.kill()


@pytest.mark.parametrize("how", ["end of input", "term", "kill"])
def test_the_end_of_the_server_removes_stopped_ones(home, before, how):
    s = serve(home, "--stop-idle", "1")
    other = serve(home, "--stop-idle", "1")
    try:
        run(other, "true")
        is_state(other, "stopped")
        others = folders(home) - before
        run(s, "true")
        is_state(s, "stopped")
        assert len(folders(home) - before) == 2
        if how == "end of input":
            assert s.close()[0] == 0
        else:
            s.process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
            s.process.wait(timeout=10)
        if how == "kill":  # the next server's first call
            last = serve(home)
            run(last, "true")
            assert last.close()[0] == 0
        assert folders(home) - before == others  # the living server's is left alone
        assert run(other, "true")["started_again"] is True
        assert other.close()[0] == 0
        assert folders(home) == before
        assert_nothing_left(home)
    finally:
        s.kill()
        other.kill()


@pytest.mark.vm
def test_files_outlive_the_stop_of_a_vm(home):
    s = serve(home, "--stop-idle", "2", env={})
    try:
        assert run(s, "echo kept > /root/file; echo lost > /dev/shm/file")["exit_code"] == 0
        is_state(s, "stopped")
        v = run(s, "cat /root/file; cat /dev/shm/file")
        assert v["stdout"] == "kept\n" and v["started_again"] is True and v["exit_code"] == 1, v
    finally:
        s.kill()
        assert_nothing_left(home)
