# SPDX-License-Identifier: Apache-2.0
"""boxlite-shim with a real engine and a real guest, driven by a client that was written from docs/wire.md."""
import hashlib
import json
import os
import signal
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent_vm import Files  # noqa: E402
from shim_vm import RUNNING, STOPPED, PAUSED, Box, Refused  # noqa: E402
from wire import NOT_STARTED, Lost  # noqa: E402

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("test_kernel")]

E_STATE, E_NOT_FOUND, E_GUEST, E_ENGINE, E_INTEGRITY = -5, -2, -16, -17, -12
BOX_LOST = 8


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(str(tmp_path_factory.mktemp("shim")))


@pytest.fixture
def new_box(files):
    boxes = []

    def make(**config):
        boxes.append(Box(files, **config))
        return boxes[-1]

    yield make
    for b in boxes:
        b.close()


@pytest.fixture(scope="module")
def shared(files):
    b = Box(files, detached=True)
    b.start().until_state(RUNNING, STOPPED)
    yield b
    b.close()


@pytest.fixture
def client(shared):
    c = shared.connect()
    c.until_state(RUNNING)
    yield c
    c.sock.close()


def gone(pid):
    """True once a process has ended, 10 s at most."""
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        os.sched_yield()
    return not os.path.exists(f"/proc/{pid}")


# ---- commands -------------------------------------------------------------------------------------


def test_a_command_runs_with_the_boxs_defaults(client):
    a = client.exec("/bin/sh", "-c", "echo $A; hostname; cat /etc/hosts; echo e >&2; exit 3", env="B=1")
    assert a.read_all().startswith(b"box\nb\n127.0.0.1\tlocalhost\n")
    assert bytes(a.stderr.data) == b"e\n"
    assert client.wait(a.exec)["CODE"] == 3


def test_a_missing_program_is_a_result(client):
    a = client.exec("/no/such")
    r = client.wait(a.exec)
    assert r["CODE"] == 127 and r["EXIT_FLAGS"] == NOT_STARTED and r["ERROR"]


def test_a_megabyte_goes_in_and_comes_out(client):
    data = os.urandom(1 << 20)
    a = client.exec("/bin/cat", stdin=True)
    a.write(data)
    a.close_stdin()
    assert hashlib.sha256(a.read_all()).digest() == hashlib.sha256(data).digest()
    assert client.wait(a.exec)["CODE"] == 0


def test_output_is_read_again_from_an_offset(client):
    a = client.exec("/bin/sh", "-c", "seq 1 200000", detached=True)
    whole = a.read_all()
    client.wait(a.exec)
    assert whole == b"".join(b"%d\n" % i for i in range(1, 200001))
    again = client.attach(a.exec, offset_out=1000000)
    assert again.start["START_OUT"] == 1000000
    assert again.read_all() == whole[1000000:]


def test_the_end_of_a_connection_ends_its_commands(shared, client):
    other = shared.connect()
    other.until_state(RUNNING)
    a = other.exec("/bin/sleep", "1000")
    other.expect(lambda n, f: n == "STARTED")
    request = client.post("WAIT", ("EXEC", a.exec))
    other.sock.close()
    assert client.answer(request)["SIGNO"] == signal.SIGKILL


def test_signals_and_kills(client):
    a = client.exec("/bin/sh", "-c", "trap 'echo got; exit 9' TERM; echo up; while :; do sleep 1; done")
    client.until(lambda: b"up" in a.stdout.data)
    client.ask("SIGNAL", ("EXEC", a.exec), ("SIGNO", signal.SIGTERM))
    assert client.wait(a.exec)["CODE"] == 9
    assert a.read_all() == b"up\ngot\n"


def test_two_clients_see_the_same_command(shared, client):
    other = shared.connect()
    a = client.exec("/bin/cat", stdin=True)
    b = other.attach(a.exec)
    a.write(b"hello\n")
    a.close_stdin()
    assert a.read_all() == b.read_all() == b"hello\n"
    with pytest.raises(Refused):
        other.attach(9999)
    other.sock.close()


def test_statistics(client):
    s = client.ask("STATS")
    assert 100 << 20 < s["MEM_TOTAL"] < 300 << 20 and 0 < s["MEM_FREE"] < s["MEM_TOTAL"]


def test_the_shim_is_small(shared, client):
    if os.geteuid() != 0:
        pytest.skip("the maps of a process that is not dumpable are root's to read")
    with open(f"/proc/{shared.shim.pid}/smaps_rollup") as f:
        pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    assert pss <= 4096, f"{pss} KiB"
    with open(f"/proc/{shared.shim.pid}/maps") as f:
        maps = f.read()
    assert not [name for name in ("libsqlite", "libcurl", "libarchive", "libcrypto") if name in maps]


# ---- life -----------------------------------------------------------------------------------------


def test_the_main_command_is_the_box(new_box):
    b = new_box(main=True, argv=["/bin/sh", "-c", "cat; exit 4"], stdin_open=True)
    c = b.start()
    a = c.attach(1, stdin=1)
    a.write(b"early\n")
    a.close_stdin()
    request = c.post("WAIT", ("EXEC", 1))
    assert a.read_all(90) == b"early\n"
    assert c.answer(request)["CODE"] == 4
    assert "ERROR" not in c.until_state(STOPPED)
    with pytest.raises(Lost):
        c.until(lambda: False)
    assert b.shim.wait(10) == 0
    assert b.exit()["code"] == 0 and b.exit()["engine"] == "qemu-tcg"
    with open(b.path("execs/1/result.json")) as f:
        assert json.load(f)["code"] == 4
    with open(b.path("execs/1/stdout"), "rb") as f:
        assert f.read() == b"early\n"
    assert not os.path.exists(b.path("started")) and not os.path.exists(b.path("control.sock"))


def test_stop_start_and_the_disk_stays(new_box):
    b = new_box(detached=True)
    for turn in range(2):
        c = b.start()
        c.until_state(RUNNING)
        a = c.exec("/bin/sh", "-c", "cat /kept; echo x >> /kept")
        assert a.read_all() == b"x\n" * turn
        c.wait(a.exec)
        c.ask("STOP", ("TIMEOUT_MS", 1000))
        assert c.until_state(STOPPED)
        assert b.shim.wait(10) == 0


def test_pause_and_resume(new_box):
    b = new_box()
    c = b.start()
    c.until_state(RUNNING)
    c.ask("PAUSE")
    assert c.states[-1]["STATE"] == PAUSED
    with pytest.raises(Refused) as refused:
        c.exec("/bin/true")
    assert refused.value.code == E_STATE
    c.ask("RESUME")
    a = c.exec("/bin/true")
    assert c.wait(a.exec)["CODE"] == 0


def test_a_killed_engine_ends_the_box_with_the_reason(new_box):
    b = new_box(detached=True)
    c = b.start()
    c.until_state(RUNNING)
    a = c.exec("/bin/sleep", "1000")
    request = c.post("WAIT", ("EXEC", a.exec))
    os.kill(b.engine_pid(), signal.SIGKILL)
    assert c.answer(request)["EXIT_FLAGS"] == BOX_LOST
    s = c.until_state(STOPPED)
    assert -s["CODE_NEG"] == E_ENGINE
    assert b.shim.wait(10) == 0
    assert b.exit()["code"] == E_ENGINE


def test_an_owner_that_goes_takes_the_box_with_it(new_box):
    b = new_box()
    c = b.start()
    c.until_state(RUNNING)
    engine = b.engine_pid()
    c.sock.close()
    assert b.shim.wait(10) == 0
    assert gone(engine)


def test_a_killed_shim_leaves_no_engine_and_the_next_start_works(new_box):
    b = new_box(detached=True)
    b.start().until_state(RUNNING)
    engine = b.engine_pid()
    b.shim.kill()
    b.shim.wait()
    assert gone(engine)
    assert os.path.exists(b.path("started")) and not os.path.exists(b.path("exit.json"))
    c = b.start()
    c.until_state(RUNNING)
    a = c.exec("/bin/true")
    assert c.wait(a.exec)["CODE"] == 0


def test_sigterm_stops_the_box(new_box):
    b = new_box(detached=True)
    c = b.start()
    c.until_state(RUNNING)
    b.shim.send_signal(signal.SIGTERM)
    assert "ERROR" not in c.until_state(STOPPED)
    assert b.shim.wait(10) == 0


def test_one_shim_a_box(new_box):
    b = new_box(detached=True)
    first = b.start()
    first.until_state(RUNNING)
    shim = b.shim
    s = b.start().until_state(STOPPED)
    assert -s["CODE_NEG"] == E_STATE and b"running already" in s["ERROR"]
    assert b.shim.wait(10) == 0
    b.shim = shim
    assert first.ask("STATUS")["STATE"] == RUNNING


def test_a_box_to_be_removed_leaves_nothing(new_box):
    b = new_box(auto_remove=True, main=True, argv=["/bin/echo", "bye"])
    c = b.start()
    a = c.attach(1)
    assert a.read_all(90) == b"bye\n"
    c.until_state(STOPPED)
    assert b.shim.wait(10) == 0
    assert os.listdir(b.box) == ["shim.log"] or os.listdir(b.box) == []


def test_a_damaged_root_image_says_so_at_once(new_box):
    b = new_box()
    root = os.path.join(b.home, "rootfs", "r.sqfs")
    os.remove(root)
    with open(root, "wb") as f:
        f.write(b"not a squashfs" * 1000)
    s = b.start().until_state(STOPPED, timeout=10)
    assert -s["CODE_NEG"] == E_INTEGRITY and b"squashfs" in s["ERROR"]


def test_a_guest_that_cannot_boot_shows_its_console(new_box):
    b = new_box()
    initramfs = os.path.join(b.home, "kernels", "default", "initramfs")
    os.remove(initramfs)
    with open(initramfs, "wb") as f:
        f.write(b"\0" * 512)
    s = b.start().until_state(STOPPED)
    assert -s["CODE_NEG"] == E_GUEST
    assert b"panic" in s["ERROR"] and b"console" in s["HINT"]
    assert b.exit()["error"].encode() == s["ERROR"]


def test_the_running_shim_is_jailed(shared, client):
    with open(f"/proc/{shared.shim.pid}/status") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    with open(f"/proc/{shared.shim.pid}/limits") as f:
        assert [line.split()[4] for line in f if line.startswith("Max core file size")] == ["0"]
