# SPDX-License-Identifier: Apache-2.0
"""boxlite exec in a running box: streams byte for byte, terminals, signals, time-outs, detached commands."""
import hashlib
import os
import pty
import re
import select
import signal
import subprocess
import termios
import time

import pytest

from conftest import Cli, wait_until

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def vm(home):  # these tests make no boxes
    return Cli(home)


def test_a_megabyte_of_random_bytes_through_cat(vm, box):
    data = os.urandom(1 << 20)
    done = vm.raw("exec", "-i", box, "cat", input=data)
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout == data


def test_ten_megabytes_of_input_are_counted(vm, box):
    data = os.urandom(10 << 20)
    out = vm.ok("exec", "-i", box, "sha256sum", input=data)
    assert out.split()[0] == hashlib.sha256(data).hexdigest()


def test_forty_mebibytes_of_output_are_byte_exact(vm, box):
    script = "import os, sys\nblock = bytes(range(256)) * 4096\nfor i in range(40): sys.stdout.buffer.write(block)"
    done = vm.raw("exec", box, "python3", "-c", script)
    assert done.returncode == 0 and done.stderr == b""
    assert done.stdout == bytes(range(256)) * 4096 * 40


def test_both_streams_full_at_once(vm, box):
    script = "head -c 3000000 /dev/zero | tr '\\0' e >&2; head -c 3000000 /dev/zero | tr '\\0' o"
    done = vm.raw("exec", box, "sh", "-c", script)
    assert done.stdout == b"o" * 3_000_000 and done.stderr == b"e" * 3_000_000


def test_short_commands_lose_nothing(vm, box):
    for i in range(20):
        done = vm.run("exec", box, "echo", i)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{i}\n", "")


def test_a_slow_reader_loses_nothing(vm, box):
    p = vm.popen("exec", box, "seq", "2000000")
    wait_until(lambda: select.select([p.stdout], [], [], 0)[0], what="output")
    digest, size = hashlib.sha256(), 0
    while chunk := os.read(p.stdout.fileno(), 37 * 1024):
        digest.update(chunk)
        size += len(chunk)
    assert p.wait(timeout=60) == 0
    want = "".join(f"{i}\n" for i in range(1, 2000001)).encode()
    assert size == len(want) and digest.digest() == hashlib.sha256(want).digest()


def test_output_comes_while_the_command_runs(vm, box):
    p = vm.popen("exec", "-i", box, "sh", "-c", "echo first; read line; echo got $line")
    assert p.stdout.readline() == b"first\n"
    p.stdin.write(b"answer\n")
    p.stdin.flush()
    assert p.stdout.readline() == b"got answer\n"
    p.stdin.close()
    assert p.wait(timeout=60) == 0


def test_input_that_is_not_read_does_no_harm(vm, box):
    done = vm.raw("exec", "-i", box, "true", input=os.urandom(3 << 20))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_exit_statuses(vm, box):
    assert vm.run("exec", box, "sh", "-c", "exit 200").returncode == 200
    assert vm.run("exec", box, "--", "sh", "-c", "kill -9 $$").returncode == 137
    done = vm.run("exec", box, "no-such-program")
    assert done.returncode == 127 and "no-such-program" in done.stderr
    assert vm.run("exec", box, "/etc/passwd").returncode == 126


def test_environment_folder_and_user(vm, box):
    out = vm.ok("exec", "-e", "A=b c", "-w", "/var", "-u", "daemon", box, "sh", "-c", "echo $A; pwd; id -un")
    assert out == "b c\n/var\ndaemon\n"


def test_time_out_kills_the_whole_tree(vm, box):
    marker = f"987{os.getpid()}"
    start = time.monotonic()
    done = vm.run("exec", "--timeout", "1500ms", box, "sh", "-c", f"setsid sleep {marker} & trap '' TERM; sleep {marker}")
    assert done.returncode == 124 and time.monotonic() - start < 30
    ps = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f 2>/dev/null; echo; done"
    assert f"sleep {marker}" not in vm.ok("exec", box, "sh", "-c", ps).replace(ps, "")


def test_signals_are_forwarded(vm, box):
    p = vm.popen("exec", box, "sh", "-c", "trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
    assert p.stdout.readline() == b"ready\n"
    p.terminate()
    out, _ = p.communicate(timeout=60)
    assert (p.returncode, out) == (5, b"term\n")


def test_the_second_interrupt_ends_it(vm, box):
    p = vm.popen("exec", box, "python3", "-c",
                 # os.write, not print(): a signal that comes inside print() would find the stream held
                 "import os, signal, time\nsignal.signal(2, lambda *a: os.write(1, b'int\\n'))\n"
                 "os.write(1, b'ready\\n')\nwhile True: time.sleep(0.05)")
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGINT)
    assert p.stdout.readline() == b"int\n"  # the first is the command's

    def ended():
        if p.poll() is None:
            p.send_signal(signal.SIGINT)
        return p.poll() is not None

    wait_until(ended, what="it to give up")
    p.communicate()
    assert p.returncode == 130


def test_killing_the_client_kills_its_command(vm, box):
    marker = f"654{os.getpid()}"
    p = vm.popen("exec", box, "sh", "-c", f"echo ready; exec sleep {marker}")
    assert p.stdout.readline() == b"ready\n"
    p.kill()
    p.communicate(timeout=60)
    wait_until(lambda: vm.run("exec", box, "pgrep", "-fx", f"sleep {marker}").returncode == 1
               if vm.run("exec", box, "sh", "-c", "command -v pgrep").returncode == 0
               else f"sleep\0{marker}" not in vm.ok("exec", box, "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null; :"),
               what="the command to end")


def test_detached_command(vm, box):
    number = vm.ok("exec", "-d", box, "sh", "-c", "echo hello; echo oops >&2; echo done > /tmp/detached").strip()
    assert number.isdigit()
    wait_until(lambda: vm.run("exec", box, "cat", "/tmp/detached").stdout == "done\n", what="the command")
    done = vm.run("logs", "-f", "--exec", number, box)
    assert (done.stdout, done.stderr) == ("hello\n", "oops\n")
    done = vm.run("exec", "-d", box, "no-such-program")
    assert done.returncode == 127 and done.stdout == ""


def test_two_hundred_short_commands_in_four_rows(vm, box):
    def start(i):
        return vm.popen("exec", box, "echo", i, stdin=subprocess.DEVNULL)

    row, finished = {}, 0
    for i in range(200):
        row[i] = start(i)
        if len(row) == 4:
            first = min(row)
            out, err = row.pop(first).communicate(timeout=60)
            assert (out, err) == (b"%d\n" % first, b"")
            finished += 1
    for i, p in row.items():
        assert p.communicate(timeout=60)[0] == b"%d\n" % i
        finished += 1
    assert finished == 200


# ---- Terminals


class Terminal:
    """boxlite with a terminal for its three descriptors, as a user has it."""

    def __init__(self, cli, *args):
        self.master, slave = pty.openpty()
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.resize(30, 100)
        self.process = subprocess.Popen(cli.argv(*args), stdin=slave, stdout=slave, stderr=slave, env=cli.environ(),
                                        start_new_session=True,
                                        preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = b""

    def resize(self, rows, cols):
        termios.tcsetwinsize(self.slave, (rows, cols))

    def type(self, data):
        os.write(self.master, data)

    def expect(self, pattern, timeout=60):
        """Reads until the pattern comes; the match."""
        deadline = time.monotonic() + timeout
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"waited for {pattern!r}, saw {self.seen!r}"
            self.seen += os.read(self.master, 65536)
        self.seen = self.seen[match.end():]
        return match

    def end(self, timeout=60):
        """Reads to the end; exit status. The terminal must be as it was."""
        status = self.process.wait(timeout=timeout)
        after = termios.tcgetattr(self.slave)
        os.close(self.slave)
        os.close(self.master)
        assert after == self.before
        return status

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON


def test_terminal_of_a_shell(vm, box):
    t = Terminal(vm, "exec", "-it", box, "bash", "--norc")
    t.type(b"PS1=; stty size; tty; echo $TERM; echo m''ark\n")
    t.expect(rb"30 100\r\n/dev/pts/\d+\r\n\S+\r\nmark\r\n")
    assert t.is_raw()
    t.resize(41, 121)
    t.type(b"stty size; echo e''nd\n")
    # the new size travels beside the keys
    if b"41 121" not in t.expect(rb"(\d+ \d+)\r\nend\r\n").group(1):
        t.type(b"stty size; echo e''nd\n")
        t.expect(rb"41 121\r\nend\r\n")
    t.type(b"exit 9\n")
    assert t.end() == 9


def test_keys_of_a_terminal_go_to_the_command(vm, box):
    t = Terminal(vm, "exec", "-it", box, "python3", "-c",
                 # no input(): a signal that comes just before it blocks would not be seen
                 "import time\ntry:\n print('ready')\n while True: time.sleep(0.05)\n"
                 "except KeyboardInterrupt:\n print('interrupted')")
    t.expect(rb"ready\r\n")
    t.type(b"\x03")
    t.expect(rb"interrupted\r\n")
    assert t.end() == 0


def test_end_of_input_key(vm, box):
    t = Terminal(vm, "exec", "-it", box, "sh", "-c", "echo ready; cat; echo over")
    t.expect(rb"ready\r\n")
    t.type(b"word\n\x04")
    t.expect(rb"word\r\nword\r\nover\r\n")
    assert t.end() == 0


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGHUP])
def test_terminal_is_restored_when_boxlite_is_ended(vm, box, signo):
    t = Terminal(vm, "exec", "-it", box, "sh", "-c", "echo ready; exec sleep 600")
    t.expect(rb"ready\r\n")
    wait_until(t.is_raw)
    os.kill(t.process.pid, signo)
    assert t.end() == 128 + signo


def test_terminal_without_one_here_sees_the_end_of_input(vm, box):
    done = vm.run("exec", "-t", box, "cat", input=b"", timeout=60)
    assert done.returncode == 0
    done = vm.run("exec", "-it", box, "sh", "-c", "tty && cat", input=b"words\n", timeout=60)
    assert done.returncode == 0 and "/dev/pts/" in done.stdout and "words" in done.stdout


def test_no_terminal_unless_asked_for(vm, box):
    t = Terminal(vm, "exec", "-i", box, "sh", "-c", "test -t 0 || echo none")
    t.expect(rb"none\r\n")
    assert not t.is_raw()
    assert t.end() == 0
