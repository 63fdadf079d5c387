# SPDX-License-Identifier: Apache-2.0
"""boxlite run in real machines: output, exit status, environment, input, time-outs, what stays and what does not."""
import os
import pathlib
import random
import signal
import subprocess

import pytest

from conftest import IMAGE, assert_nothing_left, box_processes, wait_until

pytestmark = pytest.mark.vm


def test_run_prints_42(vm):
    done = vm.raw("run", "--rm", IMAGE, "python3", "-c", "print(6*7)")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"42\n", b"")
    assert_nothing_left(vm.home)


def test_run_prints_42_as_an_ordinary_user(user_cli):
    done = user_cli.raw("run", "--rm", IMAGE, "python3", "-c", "print(6*7)")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"42\n", b"")
    assert user_cli.boxes() == []
    assert_nothing_left(user_cli.home)


def test_exit_statuses(vm):
    done = vm.run("run", "--rm", IMAGE, "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    done = vm.run("run", "--rm", IMAGE, "/no/such/program")
    assert done.returncode == 127 and "/no/such/program" in done.stderr
    done = vm.run("run", "--rm", IMAGE, "/etc/passwd")
    assert done.returncode == 126 and done.stderr.startswith("boxlite: ")
    done = vm.run("run", "--rm", IMAGE, "sh", "-c", "kill -SEGV $$")
    assert done.returncode == 128 + signal.SIGSEGV
    assert vm.boxes() == []


def test_time_out(vm):
    done = vm.run("run", "--rm", "--timeout", "2s", IMAGE, "sh", "-c", "echo begun; trap '' TERM; sleep 600 & wait")
    assert done.returncode == 124 and done.stdout == "begun\n"
    assert "--timeout" in done.stderr
    assert_nothing_left(vm.home)


def test_two_hundred_variables_with_odd_characters(vm):
    rng = random.Random(42)
    odd = "".join(chr(c) for c in range(1, 127)) + "äß€日本🎈"
    want = {f"BX_{i}_{'x' * (i % 7)}": "".join(rng.choice(odd) for _ in range(rng.randrange(1, 400)))
            for i in range(200)}
    want["BX_EMPTY"] = ""
    want["BX_QUOTES"] = "a='b' \"c\" $d `e` \\f\nnew line\ttab"
    argv = [a for name, value in want.items() for a in ("-e", f"{name}={value}")]
    done = vm.raw("run", "--rm", *argv, IMAGE, "cat", "/proc/self/environ")
    assert done.returncode == 0, done.stderr
    have = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert {name: have.get(name) for name in want} == want


def test_env_file_and_inherited_variables(vm, tmp_path):
    (tmp_path / "env").write_text("# comment\nA=from file\nB=two\r\n\nFROM_HERE\nNOT_HERE\n")
    out = vm.ok("run", "--rm", "--env-file", tmp_path / "env", "-e", "B=three", "-e", "ALSO_HERE", IMAGE, "env",
                env={"FROM_HERE": "x y", "ALSO_HERE": "z"})
    lines = out.splitlines()
    assert {"A=from file", "B=three", "FROM_HERE=x y", "ALSO_HERE=z"} <= set(lines)
    assert not any(line.startswith("NOT_HERE") for line in lines)


def test_workdir_user_hostname_and_resources(vm):
    out = vm.ok("run", "--rm", "-w", "/usr/lib", "-u", "nobody", "--hostname", "hal", "--cpus", "2", "--memory", "300M",
                IMAGE, "sh", "-c", "pwd; id -un; hostname; nproc; awk '/MemTotal/ {print $2}' /proc/meminfo")
    folder, user, host, cpus, memory = out.split()
    assert (folder, user, host, cpus) == ("/usr/lib", "nobody", "hal", "2")
    assert 200_000 < int(memory) < 300 * 1024


def test_image_command_and_entrypoint(vm):
    assert vm.ok("run", "--rm", "-i", IMAGE, input=b"echo from bash $BASH_VERSION\n").startswith("from bash 5")
    assert vm.ok("run", "--rm", "--entrypoint", "/bin/echo", IMAGE, "a", "b") == "a b\n"


def test_arguments_arrive_as_they_are(vm):
    args = ["", " ", "a b", "-rf", "--", "$HOME", "'", '"', "\\", "ä", "new\nline", "*"]
    out = vm.ok("run", "--rm", IMAGE, "python3", "-c", "import sys; print(sys.argv[1:])", *args)
    assert out.strip() == repr(args)


def test_standard_input_and_its_end(vm):
    data = os.urandom(100_000)
    done = vm.raw("run", "--rm", "-i", IMAGE, "cat", input=data)
    assert done.returncode == 0 and done.stdout == data
    assert vm.ok("run", "--rm", IMAGE, "cat", input=b"not for it") == ""


def test_no_network_unless_asked_for(vm):
    assert vm.ok("run", "--rm", IMAGE, "sh", "-c", "ls /sys/class/net").split() == ["lo"]


def test_user_network_is_there(vm):
    assert "eth0" in vm.ok("run", "--rm", "--network", "user", IMAGE, "sh", "-c", "ls /sys/class/net").split()


def test_without_rm_the_stopped_box_remains(vm):
    assert vm.ok("run", "--name", "stays", IMAGE, "sh", "-c", "echo kept > /root/file; echo said") == "said\n"
    assert vm.state("stays") == "stopped"
    assert vm.ok("logs", "stays") == "said\n"
    assert "stays" not in vm.ok("ls") and "stays" in vm.ok("ls", "-a")
    vm.fails("run", "--name", "stays", IMAGE, "true")
    assert vm.ok("rm", "stays") == "stays\n"


def test_trace_says_where_the_time_went(vm):
    done = vm.run("run", "--rm", "--trace", IMAGE, "true")
    assert done.returncode == 0
    steps = [line.split()[1] for line in done.stderr.splitlines()]
    assert steps == ["open", "create", "start", "command", "stop", "total"]


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_go_to_the_command(vm, signo):
    script = ("import os, signal, sys\n"
              "signal.signal(int(sys.argv[1]), lambda n, f: (os.write(1, b'got %d\\n' % n), sys.exit(3)))\n"
              # not print(): the signal may come while it still holds the stream; not pause(): it may come just before
              "import os, time\nos.write(1, b'ready\\n')\nwhile True: time.sleep(0.05)\n")
    p = vm.popen("run", "--rm", IMAGE, "python3", "-c", script, int(signo))
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signo)
    out, err = p.communicate(timeout=60)
    assert (p.returncode, out, err) == (3, b"got %d\n" % signo, b"")


def test_interrupt_ends_a_command_that_does_not_care(vm):
    p = vm.popen("run", "--rm", IMAGE, "sh", "-c", "echo ready; exec sleep 600")
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGINT
    assert_nothing_left(vm.home)


def test_interrupt_while_it_starts(vm):
    p = vm.popen("run", "--rm", IMAGE, "sleep", "600")
    wait_until(lambda: box_processes(p.pid), what="its supervisor")
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 128 + signal.SIGINT
    assert vm.boxes() == []
    assert_nothing_left(vm.home)


@pytest.mark.parametrize("stage", ["starting", "running"])
def test_kill_9_leaves_nothing(vm, stage):
    before = set(vm.boxes())
    p = vm.popen("run", "--rm", IMAGE, "sh", "-c", "echo ready; sleep 600")
    if stage == "running":
        assert p.stdout.readline() == b"ready\n"
    pids = wait_until(lambda: [q.pid for q in box_processes(p.pid)], what="its supervisor")
    p.kill()
    p.communicate(timeout=60)
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), what="its processes to end")
    assert_nothing_left(vm.home)
    assert set(vm.boxes()) == before
    left = set(os.listdir(vm.home / "boxes"))
    assert left == {b for b in left if b in before}


def test_a_reader_that_goes_away_ends_it(vm):
    p = vm.popen("run", "--rm", IMAGE, "yes")
    assert p.stdout.read(4) == b"y\ny\n"
    p.stdout.close()
    assert p.wait(timeout=60) == 128 + signal.SIGPIPE
    assert p.stderr.read() == b""
    wait_until(lambda: vm.boxes() == [], what="the box to be removed")


def test_standard_output_to_a_file_and_to_the_same_pipe(vm, tmp_path):
    with open(tmp_path / "out", "wb") as f:
        subprocess.run(vm.argv("run", "--rm", IMAGE, "seq", "100000"), stdout=f, env=vm.env, check=True, timeout=120)
    assert (tmp_path / "out").read_text().splitlines() == [str(i) for i in range(1, 100001)]
    done = subprocess.run(vm.argv("run", "--rm", IMAGE, "sh", "-c", "echo a; echo b >&2"), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=vm.env, timeout=120)
    assert sorted(done.stdout.split()) == [b"a", b"b"]


def test_many_at_once_on_one_home(vm):
    runs = [vm.popen("run", "--rm", "--memory", "128M", IMAGE, "echo", str(i)) for i in range(4)]
    for i, p in enumerate(runs):
        out, err = p.communicate(timeout=240)
        assert (p.returncode, out, err) == (0, b"%d\n" % i, b"")
    assert_nothing_left(vm.home)
