# SPDX-License-Identifier: Apache-2.0
"""Commands that take all memory of their box: they end with 137 and the limit in the message, in a bounded time, and the
box goes on. The kernel alone does not promise that: a command that leaves its own program's pages to reclaim, and no
others, thrashes for ever."""
import os
import time

import pytest

from conftest import IMAGE, Cli

pytestmark = pytest.mark.vm

MEMORY = "256M"
# A quiet machine needs 2 to 20 s; what is tested is that it ends.
BOUND = 110
ROUNDS = int(os.environ.get("BOXLITE_BOMB_ROUNDS", 1))  # more: to look for rare ones by hand

GROW = "x = []\nwhile True: x.append(b'x' * {})"

EDGE = """
import os, sys
def read(name):
    with open("/sys/fs/cgroup/memory." + name) as f:
        return f.read()
limit, held = int(read("max")), []
def rest():
    stat = dict(line.split() for line in read("stat").splitlines())
    return limit - int(read("current")) + int(stat["file"]) - int(stat["shmem"])
while rest() > 2 << 20:
    held.append(b"x" * (1 << 18))
while True:  # no more is asked for; only the program itself has no room
    for folder, _, files in os.walk("/usr/lib"):
        for name in files:
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    f.read(65536)
            except OSError:
                pass
"""

MANY = """
import os
for i in range(50):
    if os.fork() == 0:
        x = []
        while True: x.append(b"x" * 65536)
while True: os.wait()
"""

SHARED = """
try:
    with open("/dev/shm/fill", "wb") as f:
        while True: f.write(b"x" * 65536)
except OSError as e:
    print("full:", e.strerror, flush=True)
"""

BOMBS = {
    "large pieces": GROW.format(1 << 20),
    "small pieces": GROW.format(4000),
    "one at the edge": EDGE,
    "many processes": MANY,
    "shared memory": SHARED + GROW.format(1 << 18),
    "shared segments": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
while True:
    segment = libc.shmget(0, 1 << 20, 0o1600)
    if segment < 0: break
    ctypes.memset(libc.shmat(segment, None, 0), 1, 1 << 20)
print("full", flush=True)
""" + GROW.format(1 << 18),
    "a file without a name": "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, b'x' * (1 << 20))",
}


@pytest.fixture(scope="module")
def small(home):
    cli = Cli(home)
    name = f"memory-{os.getpid()}-{time.monotonic_ns()}"
    cli.ok("run", "-d", "--idle", "--memory", MEMORY, "--name", name, IMAGE)
    yield cli, name
    cli.ok("rm", "-f", name)


def test_memory_kill_is_said(vm):
    done = vm.run("run", "--rm", "--memory", MEMORY, IMAGE, "python3", "-c", BOMBS["large pieces"], timeout=BOUND)
    assert done.returncode == 137, done.stderr
    assert done.stderr.splitlines() == [
        "boxlite: the box ran out of memory (256 MiB) and the command was killed",
        "hint: give the box more with --memory"]
    assert vm.boxes() == []


@pytest.mark.parametrize("kind", BOMBS)
def test_a_memory_bomb_ends_in_time_and_the_box_goes_on(small, kind):
    cli, box = small
    for _ in range(ROUNDS):
        done = cli.run("exec", box, "python3", "-c", BOMBS[kind], timeout=BOUND)
        assert done.returncode == 137, (done.returncode, done.stdout, done.stderr)
        assert "ran out of memory (256 MiB)" in done.stderr
        # also beside what the bomb has left in /dev/shm
        assert cli.ok("exec", box, "python3", "-c", "print(6*7)", timeout=BOUND) == "42\n"
        cli.ok("exec", box, "rm", "-f", "/dev/shm/fill")


def test_large_files_in_a_small_box_are_no_bomb(small):
    """More page cache than memory is slow at worst: nothing is killed."""
    cli, box = small
    script = "head -c 220000000 /dev/zero >/tmp/big && for i in 1 2 3; do cksum </tmp/big; done; rm /tmp/big"
    done = cli.run("exec", box, "sh", "-c", script, timeout=BOUND)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(set(done.stdout.splitlines())) == 1 and len(done.stdout.splitlines()) == 3
