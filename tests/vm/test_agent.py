# SPDX-License-Identifier: Apache-2.0
"""The agent alone, in a real guest: each test is a promise of docs/wire.md or of the container."""
import hashlib
import io
import os
import signal
import socket
import struct
import tarfile
import time

import pytest

import wire
from agent_vm import VM, Files
from wire import NOT_STARTED, OOM_KILLED, TIMED_OUT, Lost

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("test_kernel")]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(str(tmp_path_factory.mktemp("agent")))


@pytest.fixture(scope="module")
def vm(files):
    """One guest for the tests that leave it as it was."""
    g = VM(files, etc={"/etc/hosts": b"127.0.0.1 localhost box\n", "/etc/resolv.conf": b"nameserver 9.9.9.9\n"})
    g.clock_error = int(g.run("date +%s").out) - time.time()
    yield g
    g.close()


@pytest.fixture
def own_vm(files):
    """A guest for a test that may spoil it."""
    guests = []

    def boot(**kw):
        guests.append(VM(files, **kw))
        return guests[-1]

    yield boot
    for g in guests:
        g.close()


# ---- what runs ------------------------------------------------------------------------------------


def test_output_and_exit_code(vm):
    e = vm.run("echo out; echo err >&2; exit 37")
    assert (e.out, e.err) == (b"out\n", b"err\n")
    assert e.result["CODE"] == 37
    assert e.result["EXIT_FLAGS"] == 0
    assert e.result["WALL_US"] > 0 and e.result["MAX_RSS"] > 100000


def test_arguments_arrive_as_they_are(vm):
    args = ["", " ", "a b", "'\"\\$`*", "\n", "ü€", "-n", "x" * 100000]
    e = vm.exec("/bin/sh", "-c", 'for a in "$@"; do printf "%s\\0" "$a"; done', "sh", *args)
    assert e.wait()["CODE"] == 0
    assert e.out == b"".join(a.encode() + b"\0" for a in args)


def test_200_odd_environment_variables(vm):
    odd = ["=", " x ", "a\nb", "ü€𝄞", "'\"", "\\", "", "$HOME", "\t", "x" * 3000]
    env = [f"ODD_{i}={odd[i % len(odd)]}{i}" for i in range(200)]
    e = vm.exec("/bin/cat", "/proc/self/environ", env=env)
    assert e.wait()["CODE"] == 0
    got = e.out.split(b"\0")
    assert [v for v in got if v.startswith(b"ODD_")] == [v.encode() for v in env]


def test_environment_defaults_do_not_replace_what_is_given(vm):
    e = vm.exec("env")
    e.wait()
    lines = e.out.decode().splitlines()
    assert "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" in lines
    assert "HOME=/root" in lines and "HOSTNAME=box" in lines
    assert not any(line.startswith("TERM=") for line in lines)
    e = vm.exec("/bin/env", env=["HOME=/x", "PATH=/y"])
    e.wait()
    assert sorted(e.out.decode().split()) == ["HOME=/x", "HOSTNAME=box", "PATH=/y"]


def test_program_is_searched_in_the_commands_own_path(vm):
    assert vm.exec("true", env=["PATH=/nowhere:/bin"]).wait()["CODE"] == 0
    r = vm.exec("true", env=["PATH=/nowhere:/etc"]).wait()
    assert (r["CODE"], r["EXIT_FLAGS"]) == (127, NOT_STARTED)


def test_working_directory_is_entered_and_made(vm):
    e = vm.exec("/bin/pwd", cwd="/tmp")
    assert e.wait()["CODE"] == 0 and e.out == b"/tmp\n"
    e = vm.exec("/bin/pwd", cwd="/made/for/this")
    assert e.wait()["CODE"] == 0 and e.out == b"/made/for/this\n"
    r = vm.exec("/bin/pwd", cwd="relative").wait()
    assert r["CODE"] == 126 and b"absolute" in r["ERROR"]


@pytest.mark.parametrize(
    "user, want",
    [
        ("", "0 0 2000"),
        ("user", "1000 1000 2000 2001"),
        ("1000", "1000 1000 2000 2001"),
        ("user:wheel", "1000 2001"),
        ("4711", "4711 0"),
        ("4711:4712", "4711 4712"),
        (":extra", "0 2000"),
    ],
)
def test_user(vm, user, want):
    e = vm.run("echo $(id -u) $(id -g) $(id -G)", user=user)
    uid, gid, *groups = e.out.decode().split()
    assert [uid, gid] == want.split()[:2]
    assert sorted({*groups} - {gid}) == want.split()[2:]


def test_user_has_a_home_and_may_write_there_only(vm):
    e = vm.run("echo $HOME; touch ~/mine && echo yes; touch /etc/mine || echo no; rm ~/mine", user="user")
    assert e.out == b"/home/user\nyes\nno\n"


@pytest.mark.parametrize("user", ["stranger", "user:nogroup", "99999999999"])
def test_unknown_user_is_told(vm, user):
    r = vm.exec("/bin/true", user=user).wait()
    assert r["CODE"] == 126 and r["EXIT_FLAGS"] == NOT_STARTED
    assert b"unable to find" in r["ERROR"]


@pytest.mark.parametrize(
    "argv, code, text",
    [
        (["nosuchprogram"], 127, b"not found in $PATH"),
        (["/no/such"], 127, b"No such file"),
        (["/etc"], 126, b"Permission denied"),
        (["/bin/not-executable"], 126, b"Permission denied"),
        (["not-executable"], 126, b"Permission denied"),
        (["/bin/bad-format"], 126, b"xec format error"),
        (["/bin/no-interpreter"], 127, b"interpreter"),
        (["no-interpreter"], 127, b"interpreter"),
        (["/bin/true/x"], 127, b"Not a directory"),
        ([], 127, b"no command"),
        ([""], 127, b"no command"),
    ],
)
def test_what_cannot_start_says_why(vm, argv, code, text):
    r = vm.exec(*argv).wait()
    assert r["CODE"] == code and r["EXIT_FLAGS"] == NOT_STARTED and r["START_ERROR"] > 0
    assert text in r["ERROR"]


def test_resource_limits(vm):
    e = vm.run("ulimit -n; ulimit -c", rlimit=struct.pack("<QQQ", 7, 77, 77))
    assert e.out.split()[0] == b"77"


def test_capabilities_are_dockers(vm):
    caps = {}
    for user in ("", "user"):
        e = vm.run("grep Cap /proc/self/status", user=user)
        caps[user] = dict(line.split(":\t") for line in e.out.decode().split("\n") if line)
    assert caps[""]["CapEff"] == caps[""]["CapBnd"] == "00000000a80425fb"
    assert caps["user"]["CapEff"] == "0000000000000000"
    assert caps["user"]["CapBnd"] == "00000000a80425fb"
    assert caps[""]["CapAmb"] == caps["user"]["CapAmb"] == "0000000000000000"


# ---- streams ----------------------------------------------------------------------------------------


def test_40_mib_of_output_is_byte_exact(vm):
    script = "dd if=/dev/zero bs=64k count=640 2>/dev/null | tr '\\0' 'x'; echo end"
    e = vm.sh(script)
    assert e.wait(120)["CODE"] == 0
    assert len(e.out) == (40 << 20) + 4
    assert hashlib.sha256(e.out).digest() == hashlib.sha256(b"x" * (40 << 20) + b"end\n").digest()


def test_input_comes_back_identical(vm):
    data = os.urandom(1 << 20) * 3
    e = vm.exec("/bin/cat", stdin=True)
    e.write(data)
    e.close_stdin()
    assert e.wait()["CODE"] == 0
    assert e.out == data


def test_input_ends_and_without_input_is_empty(vm):
    e = vm.exec("/bin/wc", "-c", stdin=True)
    e.write(b"12345")
    e.close_stdin()
    assert e.wait()["CODE"] == 0 and e.out.split() == [b"5"]
    e = vm.exec("/bin/wc", "-c")
    assert e.wait()["CODE"] == 0 and e.out.split() == [b"0"]


def test_a_command_that_reads_nothing_holds_back_only_its_input(vm):
    e = vm.exec("/bin/sh", "-c", "read x; echo $x", stdin=True)
    e.started()
    pump = vm.exec("/bin/sleep", "1000", stdin=True)
    pump.started()
    with pytest.raises(TimeoutError):
        pump.write(bytes(8 << 20), timeout=3)  # no more than the window and the pipe are taken
    e.write(b"still here\n")
    assert e.wait()["CODE"] == 0 and e.out == b"still here\n"
    pump.signal(signal.SIGKILL)
    assert pump.wait()["SIGNO"] == signal.SIGKILL


def test_input_nobody_reads_any_more_is_reset(vm):
    e = vm.sh("exec <&-; echo closed; sleep 1000", stdin=True)
    e.read_until(b"closed")
    e.write(b"x" * 100000)
    vm.link.until(lambda: e.stdin.reset)
    e.signal(signal.SIGKILL)
    e.wait()


def test_a_slow_reader_holds_back_its_command_and_nobody_else(vm):
    e = vm.sh("yes | head -c 5000000; echo done")
    e.stdout.hold = True
    vm.link.until(lambda: e.stdout.owed == wire.WINDOW)
    assert vm.run("echo quick").out == b"quick\n"
    assert e.result is None and e.stdout.owed == wire.WINDOW
    e.stdout.hold = False
    vm.link.consume(e.number << 2 | 1)
    assert e.wait()["CODE"] == 0
    assert e.out == b"y\n" * 2500000 + b"done\n"


def test_a_reset_lets_the_command_go_on(vm):
    e = vm.sh("yes | head -c 5000000; echo finished >&2")
    vm.link.put(wire.frame(wire.RESET, e.number << 2 | 1))
    assert e.wait()["CODE"] == 0 and e.err == b"finished\n"


def test_output_of_the_last_moment_is_not_lost(vm):
    for _ in range(5):
        e = vm.run("head -c 200000 /dev/zero")
        assert len(e.out) == 200000


def test_a_background_process_does_not_hold_the_exec_and_lives_on(vm):
    e = vm.sh("(sleep 1; while :; do echo tick; echo alive >/tmp/alive; usleep 20000; done) & echo started")
    start = time.monotonic()
    assert e.wait()["CODE"] == 0
    assert e.out == b"started\n"
    assert time.monotonic() - start < 20
    poll = "n=0; while [ ! -e /tmp/alive ] && [ $n -lt 500 ]; do usleep 50000; n=$((n+1)); done; "
    # It writes where nobody reads, and is not killed by that.
    assert vm.run(poll + "rm /tmp/alive; " + poll + "cat /tmp/alive").out == b"alive\n"
    vm.link.send("SIGNAL", ("EXEC", e.number), ("SIGNO", 9))


def test_many_commands_at_once(vm):
    execs = [vm.sh(f"echo {i}; exit {i}") for i in range(40)]
    for i, e in enumerate(execs):
        assert e.wait(120)["CODE"] == i and e.out == b"%d\n" % i


# ---- terminal ---------------------------------------------------------------------------------------


def test_terminal(vm):
    e = vm.exec("/bin/sh", tty=True, stdin=True, rows=33, cols=111)
    e.write(b"stty size; tty; echo $TERM; echo to-stderr >&2\n")
    e.read_until(b"to-stderr\r\n")
    assert b"33 111" in e.out and b"/dev/pts/" in e.out and b"xterm" in e.out
    e.resize(12, 34)
    e.write(b"stty size; echo marker-$((1+1))\n")
    e.read_until(b"marker-2")
    assert b"12 34" in e.out
    e.write(b"echo ma$((1+1))rk; sleep 1000\n")
    e.read_until(b"ma2rk")
    e.write(b"\x03")
    e.write(b"exit 5\n")
    assert e.wait()["CODE"] == 5
    assert e.err == b""


def test_terminal_hangs_up_with_its_shell(vm):
    e = vm.exec("/bin/sh", "-c", "trap '' HUP; sleep 1000 & echo started; exit 3", tty=True)
    assert e.wait(20)["CODE"] == 3 and b"started" in e.out
    e.signal(signal.SIGKILL)


def test_end_of_input_on_a_terminal(vm):
    e = vm.exec("/bin/cat", tty=True, stdin=True)
    e.write(b"no newline")
    e.close_stdin()
    assert e.wait(20)["CODE"] == 0


def test_terminal_belongs_to_the_user(vm):
    e = vm.exec("/bin/sh", "-c", "stat -c '%u %g %a' $(tty); echo x >$(tty)", tty=True, user="user")
    assert e.wait()["CODE"] == 0
    assert e.out == b"1000 5 620\r\nx\r\n"


# More than a guest has, in pieces that the kernel does not refuse at once.
HOG = "for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=80M count=2 & done; wait"


# ---- signals, time, memory --------------------------------------------------------------------------


def test_signals(vm):
    e = vm.sh("trap 'echo got; exit 9' USR1; echo ready; while :; do usleep 10000; done")
    e.read_until(b"ready")
    e.signal(signal.SIGUSR1)
    assert e.wait()["CODE"] == 9 and e.out == b"ready\ngot\n"
    e = vm.exec("/bin/sleep", "1000")
    assert e.started() > 1
    e.signal(signal.SIGTERM)
    assert e.wait()["SIGNO"] == signal.SIGTERM


def test_signals_are_reset_for_commands(vm):
    e = vm.run("grep -E 'Sig(Blk|Ign)' /proc/self/status; yes | head -1; echo ${PIPESTATUS:-}")
    lines = dict(line.split(":\t") for line in e.out.decode().split("\n")[:2])
    assert set(lines.values()) == {"0000000000000000"}


def test_kill_takes_the_whole_tree(vm):
    e = vm.sh("(setsid sleep 4321 &) ; echo ready; sleep 4321")
    e.read_until(b"ready")
    e.signal(signal.SIGKILL)
    assert e.wait()["SIGNO"] == signal.SIGKILL
    assert vm.run("grep -ls 432[1] /proc/[0-9]*/cmdline | wc -l").out.strip() == b"0"


def test_time_out_kills_grandchildren_and_spares_others(vm):
    other = vm.sh("echo up; sleep 9999; true")
    other.read_until(b"up")
    e = vm.sh("(setsid sh -c 'trap \"\" TERM; sleep 8765' &); echo ready; sleep 8765", timeout_ms=1500)
    r = e.wait(30)
    assert r["CODE"] == 124 and r["EXIT_FLAGS"] == TIMED_OUT
    assert b"ready" in e.out
    assert r["WALL_US"] >= 1400000
    assert vm.run("grep -ls 876[5] /proc/[0-9]*/cmdline | wc -l").out.strip() == b"0"
    assert vm.run("grep -ls 999[9] /proc/[0-9]*/cmdline | wc -l").out.strip() == b"2"  # the shell and its sleep
    other.signal(signal.SIGKILL)
    other.wait()


def test_memory_kill_is_reported(vm):
    e = vm.run(HOG, timeout=120)
    assert e.result["EXIT_FLAGS"] == OOM_KILLED
    r = vm.run("echo fine")
    assert r.out == b"fine\n" and r.result["EXIT_FLAGS"] == 0


def test_fork_bomb_leaves_room_for_a_rescue(own_vm):
    vm = own_vm()
    e = vm.sh("bomb() { bomb | bomb & }; bomb; echo armed; sleep 1000")
    e.started()
    poll = "while [ $(cat /sys/fs/cgroup/pids.current) -lt 200 ]; do usleep 100000; done; echo many"
    assert vm.run(poll, timeout=180).out == b"many\n"
    vm.link.send("PING", ("REQUEST", 5))
    vm.link.expect(lambda n, f: n == "PONG" and f["REQUEST"] == 5, 60)
    e.signal(signal.SIGKILL)
    e.wait(120)
    assert vm.run("echo rescued", timeout=120).out == b"rescued\n"


def test_exhausted_memory_does_not_end_the_agent(own_vm):
    vm = own_vm(memory=192)
    hogs = [vm.sh(HOG + "; head -c 90000000 /dev/zero >/dev/shm/fill") for _ in range(2)]
    for e in hogs:
        e.wait(180)
    vm.link.send("STATS", ("REQUEST", 9))
    _, f = vm.link.expect(lambda n, f: n == "STATS_REPLY", 60)
    assert f["REQUEST"] == 9 and 0 < f["MEM_FREE"] < f["MEM_TOTAL"] and f["CPU_US"] > 0 and f["PIDS"] >= 1
    assert vm.run("rm -f /dev/shm/fill; echo alive", timeout=120).out == b"alive\n"


# ---- the container ----------------------------------------------------------------------------------


def test_the_agent_cannot_be_seen_or_hurt(vm):
    e = vm.run(
        "kill -9 1; kill -TERM 1; kill -9 -1 2>/dev/null; echo survived; "
        "ls /proc | grep -c '^[0-9]'; cat /proc/1/environ; ls /modules /box /init 2>&1 | grep -vc 'No such'"
    )
    if e.result.get("SIGNO") != 9:  # "kill -1" may take the shell itself
        assert b"survived" in e.out
    assert vm.run("echo well").out == b"well\n"


def test_devices_below_the_container_are_out_of_reach(vm):
    e = vm.run(
        "mknod /tmp/disk b 254 0; head -c 1 /tmp/disk; mknod /dev/disk b 254 0; head -c 1 /dev/disk; "
        "mknod /dev/shm/mem c 1 1; head -c 1 /dev/shm/mem; rm -f /tmp/disk /dev/disk /dev/shm/mem"
    )
    assert e.out == b"" and e.err.count(b"ermission denied") == 3
    # The agent's own port, also by way of a file system of the command's own: root in a user namespace may mount.
    e = vm.run(
        "p=$(cat /sys/class/virtio-ports/*/dev); mknod /tmp/port c ${p%:*} ${p#*:} && echo made; echo x >/tmp/port; "
        "rm -f /tmp/port; "
        "unshare -Urm sh -c \"mount -t tmpfs t /mnt && mknod /mnt/port c ${p%:*} ${p#*:}; test -e /mnt/port && echo x >/mnt/port && echo written\""
    )
    assert e.out == b"made\n" and b"ermission denied" in e.err
    e = vm.run("echo c >/proc/sysrq-trigger; echo 1 >/proc/sys/kernel/panic; mount -t tmpfs x /mnt; chroot / true")
    assert e.err.count(b"ead-only") == 2


def test_what_a_container_finds(vm):
    e = vm.run(
        "hostname; cat /etc/hosts /etc/resolv.conf; stat -c %a /tmp /dev/shm /dev/null /dev/pts/ptmx; "
        "ls -l /dev/fd /dev/stdin /dev/ptmx | wc -l; echo x >/dev/null; head -c 3 /dev/zero | wc -c; "
        "touch /new && echo writable; cat /proc/self/cgroup; ip -o addr show lo | grep -c 127.0.0.1; head -c 1 /proc/kcore | wc -c"
    )
    assert e.out.decode().split("\n") == [
        "box", "127.0.0.1 localhost box", "nameserver 9.9.9.9", "1777", "1777", "666", "666", "3", "3",
        "writable", f"0::/e{e.number}", "1", "0", "",
    ]  # fmt: skip


def test_the_clock_is_the_hosts(vm):
    assert abs(vm.clock_error) < 5
    vm.link.send("CLOCK", ("CLOCK_NS", 2_000_000_000 * 10**9))
    assert 0 <= int(vm.run("date +%s").out) - 2_000_000_000 < 30
    vm.link.send("CLOCK", ("CLOCK_NS", time.time_ns()))


def test_written_files_survive_a_restart(own_vm, tmp_path):
    disk = str(tmp_path / "upper.img")
    vm = own_vm(disk=disk)
    assert vm.run("echo kept >/root/file; rm /bin/bad-format; mv /home /house").result["CODE"] == 0
    vm.shutdown()
    vm = own_vm(disk=disk)
    assert vm.run("cat /root/file; ls /bin/bad-format; ls /house").out == b"kept\nuser\n"


def test_a_box_without_a_disk_writes_to_memory(own_vm):
    vm = own_vm(disk=False)
    assert vm.run("echo x >/file; cat /file").out == b"x\n"


def test_network(own_vm):
    fields = [("NET_ADDR", "10.0.2.15/24"), ("NET_GATEWAY", "10.0.2.2"), ("NET_MTU", 1400)]
    vm = own_vm(disk=False, network=True, fields=fields)
    e = vm.run("ip -o addr show eth0; ip route; ip link show eth0; arping -c 1 -w 20 -I eth0 10.0.2.2 >&2", user="")
    assert b"10.0.2.15/24" in e.out and b"default via 10.0.2.2 dev eth0" in e.out and b"mtu 1400" in e.out
    assert b"eply from 10.0.2.2" in e.err


def test_without_network_there_is_loopback_only(vm):
    e = vm.run("ls /sys/class/net; ip route; wget -q -T 5 http://192.0.2.1/; echo $?")
    assert e.out.split()[0] == b"lo" and e.out.split()[-1] != b"0"


# ---- built-ins --------------------------------------------------------------------------------------


def test_copy_out_and_in(vm):
    long_name = "n" * 150
    assert vm.run(
        f"mkdir -p /copy/sub /copy/{long_name}; echo one >/copy/sub/a; ln -s sub/a /copy/link; ln -s /etc /copy/out; "
        f"chmod 4711 /copy/sub/a; chown 1000:1000 /copy/sub; head -c 300000 /dev/urandom >/copy/{long_name}/b; "
        "touch -d @1000000000 /copy/sub; mkfifo /copy/fifo"
    ).result["CODE"] == 0
    e = vm.exec("/copy/", builtin="tar-out")
    assert e.wait()["CODE"] == 0, e.err
    t = tarfile.open(fileobj=io.BytesIO(e.out))
    names = {m.name: m for m in t.getmembers()}
    assert {"copy", "copy/sub", "copy/sub/a", "copy/link", "copy/out", "copy/fifo", f"copy/{long_name}/b"} <= set(names)
    assert names["copy/sub/a"].mode == 0o4711 and names["copy/sub"].uid == 1000
    assert names["copy/sub"].mtime == 1000000000 and names["copy/link"].linkname == "sub/a"
    back = vm.exec("/elsewhere/place", builtin="tar-in", stdin=True)
    back.write(e.out)
    back.close_stdin()
    assert back.wait()["CODE"] == 0, back.err
    check = "cd /elsewhere/place/copy && cmp {0}/b /copy/{0}/b && stat -c '%a %u %Y' sub/a sub && readlink link && cat link"
    out = vm.run(check.format(long_name)).out.decode().split("\n")
    assert out[1] == "755 1000 1000000000" and out[0].startswith("4711 0 ") and out[2:] == ["sub/a", "one", ""]


def test_copy_in_stays_where_it_should(vm):
    b = io.BytesIO()
    t = tarfile.open(fileobj=b, mode="w")
    for name, kind, link in [
        ("../escape", b"0", ""), ("a/../../escape", b"0", ""), ("/abs/file", b"0", ""), ("out", b"2", "/"),
        ("out/root/hit", b"0", ""), ("up", b"2", "../../.."), ("up/hit", b"0", ""), ("hard", b"1", "/../etc/passwd"),
    ]:  # fmt: skip
        m = tarfile.TarInfo(name)
        m.type, m.linkname, m.size = kind, link, 4 if kind == b"0" else 0
        t.addfile(m, io.BytesIO(b"evil"))
    t.close()
    e = vm.exec("/jail/deep", builtin="tar-in", stdin=True)
    e.write(b.getvalue())
    e.close_stdin()
    assert e.wait()["CODE"] == 1
    assert e.err.count(b"refused") >= 2
    out = vm.run("ls -d /escape /jail/escape /root/hit /hit /jail/hit /jail/deep/abs/file /jail/deep/root/hit /jail/deep/hit").out
    assert out.split() == [b"/jail/deep/abs/file", b"/jail/deep/hit", b"/jail/deep/root/hit"]


@pytest.mark.parametrize("data", [b"not a tar file" * 100, b"", b"\0" * 1024, b"x" * 511])
def test_copy_in_of_what_is_no_archive(vm, data):
    e = vm.exec("/tmp/target", builtin="tar-in", stdin=True)
    e.write(data)
    e.close_stdin()
    assert e.wait()["CODE"] == (1 if data.strip(b"\0") else 0)


def test_changes_are_a_layer(vm):
    assert vm.run(
        "mkdir -p /changed/sub; echo new >/changed/sub/a; ln /changed/sub/a /changed/hard; chmod 700 /changed/sub; "
        "rm /srv/gone; rm -r /srv/kept; mkdir /srv/kept; echo s >/srv/kept/new; mv /srv/moved /srv/there; "
        "echo x >>/etc/hosts; truncate -s 50M /changed/hole"
    ).result["CODE"] == 0
    e = vm.exec("/box/upper/upper", "/box/merged", "/etc/hosts", builtin="changes-out")
    assert e.wait()["CODE"] == 0, e.err
    assert len(e.out) < 10 << 20
    again = vm.exec("/box/upper/upper", "/box/merged", "/etc/hosts", builtin="changes-out")
    assert again.wait()["CODE"] == 0 and again.out == e.out
    t = tarfile.open(fileobj=io.BytesIO(e.out))
    names = {m.name: m for m in t.getmembers()}
    assert "etc/hosts" not in names
    assert names["changed/sub"].mode == 0o700 and t.extractfile("changed/hard").read() == b"new\n"
    assert names["changed/sub/a"].islnk() and names["changed/sub/a"].linkname == "changed/hard"
    assert names["changed/hole"].size == 50 << 20 and names["changed/hole"].issparse()
    assert {"srv/.wh.gone", "srv/.wh.moved", "srv/kept/.wh..wh..opq", "srv/kept/new", "srv/there/inner"} <= set(names)
    assert t.extractfile("srv/there/inner").read() == b"i" and "srv/kept/old" not in names
    assert not any(m.ischr() for m in t.getmembers())
    # A command of the container, root too, sees none of that place.
    assert vm.run("ls /box").result["CODE"] != 0


def test_copy_out_of_what_is_not_there(vm):
    e = vm.exec("/no/such", builtin="tar-out")
    assert e.wait()["CODE"] == 1 and b"No such file" in e.err
    assert vm.exec("/x", builtin="tar-nonsense").wait()["EXIT_FLAGS"] == NOT_STARTED


# ---- begin and end ----------------------------------------------------------------------------------


def test_shutdown_is_quick_and_clean(own_vm):
    vm = own_vm()
    e = vm.sh("trap '' TERM; echo ready; sleep 1000")
    e.read_until(b"ready")
    assert vm.shutdown() < 3  # 100 ms is the goal; this machine may be busy
    assert vm.qemu.returncode == 0
    assert "panic" not in vm.log()


def test_the_guest_ends_with_its_host(own_vm):
    vm = own_vm()
    vm.link.sock.shutdown(socket.SHUT_RDWR)
    vm.link.sock.close()
    assert vm.qemu.wait(30) == 0


def test_garbage_from_the_host_ends_the_guest_in_order(own_vm):
    vm = own_vm()
    vm.link.sock.setblocking(True)
    vm.link.sock.sendall(b"\xff" * 4096)
    assert vm.qemu.wait(30) == 0
    assert "Protocol error" in vm.log() and "panic" not in vm.log()


@pytest.mark.parametrize(
    "change, text",
    [
        ({"ROOT_TYPE": "ext4"}, b"mounting /dev/vda"),
        ({"ROOT_DEV": "/dev/nothing"}, b"waiting for the disk /dev/nothing"),
        ({"UPPER_TYPE": "squashfs"}, b"mounting /dev/vdb"),
    ],
)
def test_a_guest_that_cannot_be_set_up_says_why(own_vm, change, text):
    vm = own_vm(configure=False)
    vm.link.send("CONFIGURE", *[(k, change.get(k, v)) for k, v in vm.fields])
    _, f = vm.link.expect(lambda n, f: n == "FAILED", 60)
    assert text in f["ERROR"] and f["ERRNO"] > 0
    with pytest.raises(Lost):
        vm.link.until(lambda: False, 30)
    assert vm.qemu.wait(30) == 0
    assert text.decode() in vm.log()
