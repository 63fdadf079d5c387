# SPDX-License-Identifier: Apache-2.0
"""The life of boxes by the command line: create, start, stop, kill, pause, wait, logs, attach, ls, inspect, rm."""
import signal
import subprocess

import pytest

from conftest import IMAGE, assert_nothing_left, home_processes, wait_until

pytestmark = pytest.mark.vm


def test_create_start_stop_start_rm(vm):
    box = vm.ok("create", "--name", "life", IMAGE, "sh", "-c", "echo started >> /root/log; exec sleep 600").strip()
    assert vm.state("life") == vm.state(box) == vm.state(box[:6]) == "created"
    assert vm.ok("start", "life") == "life\n"
    assert vm.state(box) == "running"
    assert vm.ok("start", "life") == "life\n"  # it runs already
    vm.fails("rm", "life")
    wait_until(lambda: vm.run("exec", "life", "cat", "/root/log").stdout == "started\n", what="its first line")
    assert vm.ok("stop", "-t", "1", "life") == "life\n"
    assert vm.state(box) == "stopped"
    assert vm.ok("stop", "life") == "life\n"
    vm.ok("start", "life")
    wait_until(lambda: vm.ok("exec", "life", "cat", "/root/log") == "started\nstarted\n", what="its disk to be as before")
    assert vm.ok("rm", "-f", "life") == "life\n"
    assert box not in vm.boxes()
    assert_nothing_left(vm.home)


def test_start_attached_has_output_and_status(vm):
    vm.ok("create", "--name", "att", IMAGE, "sh", "-c", "echo out; echo err >&2; exit 4")
    for _ in range(2):
        done = vm.run("start", "-a", "att")
        assert (done.returncode, done.stdout, done.stderr) == (4, "out\n", "err\n")
    assert vm.ok("wait", "att") == "4\n"


def test_a_box_of_an_attached_run_can_be_started_in_the_background(vm):
    vm.ok("run", "--name", "again", IMAGE, "sh", "-c", "test -e /root/x && exec sleep 600; touch /root/x")
    vm.ok("start", "again")
    assert vm.state("again") == "running"
    assert "again" in vm.ok("ls")


def test_detached_box_outlives_its_starter(vm):
    box = vm.ok("run", "-d", "--name", "det", IMAGE, "sh", "-c", "echo hi; exec sleep 600").strip()
    assert len(box) >= 12
    assert vm.state("det") == "running"
    assert vm.ok("exec", "det", "echo", "in") == "in\n"
    assert vm.run("logs", "det").stdout == "hi\n"
    vm.ok("rm", "-f", "det")


def test_detached_box_with_rm_goes_when_it_ends(vm):
    box = vm.ok("run", "-d", "--rm", IMAGE, "true").strip()
    wait_until(lambda: box not in vm.boxes(), what="the box to be removed")
    assert_nothing_left(vm.home)


def test_idle_box_waits_for_commands(vm):
    vm.ok("run", "-d", "--idle", "--name", "idle", IMAGE)
    assert vm.ok("exec", "idle", "sh", "-c", "echo $((6*7))") == "42\n"
    said = vm.fails("logs", "idle")
    assert "idle" in said or "main" in said
    vm.ok("stop", "-t", "0", "idle")
    assert vm.ok("wait", "idle") == "0\n"
    said = vm.fails("exec", "idle", "true")
    assert "hint: " in said
    assert vm.fails("run", "--idle", IMAGE).startswith("boxlite: --idle needs --detach")


def test_kill(vm):
    vm.ok("run", "-d", "--name", "k", IMAGE, "sh", "-c", "trap 'exit 6' USR1; echo ready; while :; do sleep 0.05; done")
    wait_until(lambda: vm.ok("logs", "k") == "ready\n")
    assert vm.ok("kill", "-s", "USR1", "k") == "k\n"
    assert vm.ok("wait", "k", timeout=60) == "6\n"
    vm.fails("kill", "k")
    vm.ok("start", "k")
    assert vm.ok("kill", "k") == "k\n"
    wait_until(lambda: vm.state("k") == "stopped")
    assert_nothing_left(vm.home)


def test_pause_holds_everything_still(vm):
    vm.ok("run", "-d", "--name", "p", IMAGE, "sh", "-c", "while :; do echo x; sleep 0.02; done")
    wait_until(lambda: vm.ok("logs", "p"), what="output")
    assert vm.ok("pause", "p") == "p\n"
    assert vm.state("p") == "paused" and "paused" in vm.ok("ls")
    before = vm.ok("logs", "p")
    assert vm.ok("logs", "p") == before
    assert "is paused" in vm.fails("start", "p") and vm.state("p") == "paused"
    assert vm.ok("unpause", "p") == "p\n"
    wait_until(lambda: len(vm.ok("logs", "p")) > len(before), what="more output")
    assert vm.state("p") == "running"
    vm.fails("unpause", "nobody")


def test_logs_tail_follow_and_streams(vm):
    vm.ok("run", "-d", "--name", "l", IMAGE, "sh", "-c",
          "seq 1000; seq 5 >&2; while ! test -e /tmp/go; do sleep 0.05; done; echo last")
    wait_until(lambda: vm.run("logs", "l").stderr == "1\n2\n3\n4\n5\n", what="output")
    assert vm.run("logs", "--stdout", "--tail", "3", "l").stdout == "998\n999\n1000\n"
    done = vm.run("logs", "--stderr", "--tail=1", "l")
    assert (done.stdout, done.stderr) == ("", "5\n")
    assert vm.run("logs", "-n0", "l").stdout == ""
    follow = vm.popen("logs", "-f", "--tail", "1", "--stdout", "l")
    assert follow.stdout.readline() == b"1000\n"
    vm.ok("exec", "l", "touch", "/tmp/go")
    out, _ = follow.communicate(timeout=60)
    assert (follow.returncode, out) == (0, b"last\n")
    wait_until(lambda: vm.state("l") == "stopped")
    assert vm.run("logs", "l").stdout.splitlines() == [str(i) for i in range(1, 1001)] + ["last"]


def test_following_logs_ends_with_an_interrupt(vm):
    vm.ok("run", "-d", "--name", "lf", IMAGE, "sh", "-c", "echo x; exec sleep 600")
    follow = vm.popen("logs", "-f", "lf")
    assert follow.stdout.readline() == b"x\n"
    follow.send_signal(signal.SIGINT)
    follow.communicate(timeout=60)
    assert follow.returncode == 130
    assert vm.state("lf") == "running"


def test_attach_joins_the_main_command(vm):
    vm.ok("run", "-d", "-i", "--name", "a", IMAGE, "sh", "-c", "echo begun; read line; echo got $line; exit 8")
    p = vm.popen("attach", "a")
    assert p.stdout.readline() == b"begun\n"
    out, _ = p.communicate(input=b"words\n", timeout=60)
    assert (p.returncode, out) == (8, b"got words\n")
    assert vm.ok("wait", "a") == "8\n"
    said = vm.fails("attach", "a")
    assert "is stopped" in said and "start -a" in said


def test_ls_shows_and_filters(vm):
    vm.ok("run", "-d", "--idle", "--name", "one", "-l", "team=red", "-l", "flag", IMAGE)
    vm.ok("create", "--name", "two", "-l", "team=blue", IMAGE, "true")
    rows = {row["name"]: row for row in vm.json("ls", "-a", "--json")}
    assert rows["one"]["state"] == "running" and rows["two"]["state"] == "created"
    assert rows["one"]["labels"] == "team=red,flag=" and rows["one"]["image"] == IMAGE
    assert rows["one"]["engine"]
    assert [r["name"] for r in vm.json("ls", "--json", "-l", "team")] == ["one"]
    assert [r["name"] for r in vm.json("ls", "-a", "--json", "-l", "team=blue")] == ["two"]
    assert vm.ok("ls", "-q").split() == [rows["one"]["id"]]
    head, line = vm.ok("ls").splitlines()[:2]
    assert head.split() == ["ID", "NAME", "IMAGE", "STATE", "ENGINE", "CREATED"] and " one " in line
    info = vm.json("info", "--json")
    assert info["running"] >= 1 and info["images"] == 1 and info["kernels"] == 1


def test_inspect_knows_box_and_image(vm):
    box = vm.ok("create", "--name", "insp", "--memory", "256M", "-e", "A=b", IMAGE, "true").strip()
    both = vm.json("inspect", "insp", IMAGE)
    assert both[0]["id"] == box and both[0]["name"] == "insp" and both[0]["memory"] == 256 << 20
    assert both[0]["state"] == "created"
    assert vm.json("image", "inspect", IMAGE) == [both[1]]


def test_image_in_use_is_not_removed(vm):
    vm.ok("create", "--name", "user", IMAGE, "true")
    vm.fails("image", "rm", IMAGE)
    assert vm.json("image", "ls", "--json")


def test_completion_offers_names(vm):
    vm.ok("create", "--name", "complete-me", IMAGE, "true")
    assert vm.ok("__complete", "start", "comp").split("\t")[0] == "complete-me"
    assert "complete-me:" in vm.ok("__complete", "cp", "comp")
    assert vm.ok("__complete", "run", "box").split("\t")[0] == IMAGE
    assert vm.ok("__complete", "run", "--kernel", "").split("\t")[0] == "default"


def test_creates_of_one_name_at_once_have_one_winner(vm):
    creates = [vm.popen("create", "--name", "race", IMAGE, "true", stdin=subprocess.DEVNULL) for _ in range(8)]
    results = [(p.communicate(timeout=120), p.returncode) for p in creates]
    assert sorted(code for _, code in results) == [0] + [125] * 7
    assert all(b"race" in err for (_, err), code in results if code)


def test_processes_of_a_detached_box_are_its_supervisor_and_engine(vm):
    vm.ok("run", "-d", "--idle", "--name", "procs", IMAGE)
    names = sorted(p.name for p in home_processes(vm.home))
    assert any(n.startswith("boxlite-shim") for n in names)
    vm.ok("stop", "-t", "0", "procs")
    assert_nothing_left(vm.home)
