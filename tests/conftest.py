# SPDX-License-Identifier: Apache-2.0
"""Shared by all whole-program tests: where the programs are, a home with kernel and base image, waiting, processes.

Tests marked `vm` boot machines; they are skipped, saying what is missing, where `make setup` has not been. Nothing here
sleeps for luck: every wait is for a condition and has a deadline.
"""
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BOXLITE_BUILD", ROOT / "build")).resolve()
BOXLITE = str(BUILD / "bin" / "boxlite")
MCP_SERVER = str(BUILD / "bin" / "boxlite-mcp-server")
ARTIFACTS = BUILD / "artifacts"
IMAGE = "boxlite/base:bookworm"
ENGINES = ("boxlite-shim", "boxlite-share", "qemu-system-x86", "boxlite-vmm", "passt", "passt.avx2")

# The guest tests have modules of their own beside them. There is one conftest.py: two would hide each other.
sys.path.insert(0, str(ROOT / "tests" / "vm"))

# Nothing of the caller's settings may leak into the tests.
for name in [n for n in os.environ if n.startswith("BOXLITE_") and n not in ("BOXLITE_BUILD", "BOXLITE_TEST_KERNEL", "BOXLITE_TEST_HOME")]:
    del os.environ[name]


# Longer than any test may take on a busy machine: one that waits for what never comes must not hold the others.
TEST_SECONDS = 600


def pytest_configure(config):
    config.addinivalue_line("markers", "vm: boots virtual machines")
    # A shell's background job ignores them, and so would every program that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    def overdue(*_):
        pytest.fail(f"took more than {TEST_SECONDS} s")

    signal.signal(signal.SIGALRM, overdue)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)


# ---- Waiting


def wait_until(condition, timeout=30, what="the condition"):
    """Calls condition() until it is true and returns its value; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {timeout} s for {what}"
        time.sleep(0.01)  # between two looks; the condition decides


# ---- Processes

Process = namedtuple("Process", "pid ppid name")


def processes():
    """All processes that are not zombies."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        name, rest = stat.split("(", 1)[1].rsplit(")", 1)
        state, ppid = rest.split()[:2]
        if state not in "ZX":
            found.append(Process(int(entry), int(ppid), name))
    return found


def box_processes(owner):
    """The processes of the boxes that a process (by pid) started: all below it."""
    everyone, found, parents = processes(), [], {owner}
    while parents:
        children = [p for p in everyone if p.ppid in parents]
        found += children
        parents = {p.pid for p in children}
    return [p for p in found if p.name.startswith(ENGINES)]


def _read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def _names_home(pid, boxes):
    """By what an ordinary user may read of a supervisor or an engine: a box' lock names its supervisor, an engine has
    the box' id among its arguments."""
    if any(_read(box / "lock").split()[:1] == [str(pid).encode()] for box in boxes):
        return True
    arguments = _read(f"/proc/{pid}/cmdline").split(b"\0")
    return any(box.name.encode() in arguments for box in boxes)


def _holds_home(pid, inside):
    """By its open files, which only root may read of processes that are not dumpable."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(link.startswith(inside) or link == inside[:-1] for link in links)


def home_processes(home):
    """Supervisors and engines of boxes of a home, whoever started them."""
    inside = os.path.realpath(home) + "/"
    try:
        boxes = list((pathlib.Path(home) / "boxes").iterdir())
    except OSError:
        boxes = []
    return [p for p in processes() if p.name.startswith(ENGINES) and
            (_holds_home(p.pid, inside) or _names_home(p.pid, boxes))]


# ---- The command line


class Cli:
    """Runs boxlite with one home; `prefix` comes before it (to become another user)."""

    def __init__(self, home, env=None, prefix=()):
        self.home = pathlib.Path(home)
        self.env = {**os.environ, "BOXLITE_HOME": str(home), **(env or {})}
        self.prefix = list(prefix)

    def argv(self, *args):
        return [*self.prefix, BOXLITE, *map(str, args)]

    def environ(self, env=None):
        return {**self.env, **(env or {})}

    def raw(self, *args, input=b"", timeout=120, env=None, **kw):
        """The finished process with bytes."""
        return subprocess.run(self.argv(*args), input=input, capture_output=True, timeout=timeout,
                              env=self.environ(env), **kw)

    def run(self, *args, **kw):
        """The finished process with text."""
        done = self.raw(*args, **kw)
        done.stdout, done.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return done

    def ok(self, *args, **kw):
        """Standard output of a command that must succeed."""
        done = self.run(*args, **kw)
        assert done.returncode == 0, f"{args}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def fails(self, *args, status=125, **kw):
        """Standard error of a command that must fail so: one line of message, at most one of hint."""
        done = self.run(*args, **kw)
        assert done.returncode == status, f"{args}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        lines = done.stderr.splitlines()
        assert lines and lines[0].startswith("boxlite: ") and not lines[0].endswith("."), done.stderr
        assert len(lines) <= 2 and all(line.startswith("hint: ") for line in lines[1:]), done.stderr
        return done.stderr

    def popen(self, *args, env=None, **kw):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(self.argv(*args), env=self.environ(env), **{**pipes, **kw})

    def json(self, *args, **kw):
        return json.loads(self.ok(*args, **kw))

    def state(self, box):
        return self.json("inspect", "--type", "box", box)[0]["state"]

    def boxes(self):
        return self.ok("ls", "-aq").split()

    def remove_all(self):
        boxes = self.boxes()
        if boxes:
            self.ok("rm", "-f", *boxes)


def need_programs():
    if not os.access(BOXLITE, os.X_OK):
        pytest.exit(f"{BOXLITE} is not built: run make first", returncode=3)


def need_artifacts():
    for name in ("kernel.deb", "base.tar"):
        if not (ARTIFACTS / name).exists():
            pytest.skip(f"{ARTIFACTS / name} is missing: make setup brings it")


def fill_home(cli):
    """Kernel and base image, as tools/setup --home does."""
    cli.ok("kernel", "import", ARTIFACTS / "kernel.deb", timeout=120)
    cli.ok("image", "import", "--cmd", "/bin/bash", "--env", "LANG=C.UTF-8", "--env",
           "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
           ARTIFACTS / "base.tar", IMAGE, timeout=300)


def assert_nothing_left(home):
    wait_until(lambda: not home_processes(home), what=f"processes of {home} to end: {home_processes(home)}")


@pytest.fixture(scope="session", autouse=True)
def programs():
    need_programs()


@pytest.fixture(scope="session")
def home():
    """A home with kernel and base image for all tests; they remove their boxes. BOXLITE_TEST_HOME: that one, as it is
    (tests/kvm-lab, where making one takes minutes and a copy of the machine's files is thrown away anyway)."""
    if "BOXLITE_TEST_HOME" in os.environ:
        cli = Cli(os.environ["BOXLITE_TEST_HOME"])
        yield cli.home
        cli.remove_all()
        assert_nothing_left(cli.home)
        return
    need_artifacts()
    path = pathlib.Path(tempfile.mkdtemp(prefix="boxlite-test-"))
    cli = Cli(path / "home")
    try:
        fill_home(cli)
        yield cli.home
        cli.remove_all()
        assert_nothing_left(cli.home)
    finally:
        for p in home_processes(cli.home):
            os.kill(p.pid, signal.SIGKILL)
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def test_kernel(request):
    """$BOXLITE_TEST_KERNEL for the tests of the guest: the shared home's kernel, unless the caller names one."""
    if "BOXLITE_TEST_KERNEL" not in os.environ:
        os.environ["BOXLITE_TEST_KERNEL"] = str(request.getfixturevalue("home") / "kernels" / "default")


@pytest.fixture
def vm(home):
    """The command line on the shared home; boxes that the test makes are removed after it."""
    cli = Cli(home)
    before = set(cli.boxes())
    yield cli
    made = set(cli.boxes()) - before
    if made:
        cli.ok("rm", "-f", *made)


@pytest.fixture(scope="module")
def box(home):
    """Name of an idle box for the tests of a module that only use it."""
    cli = Cli(home)
    name = f"shared-{os.getpid()}-{time.monotonic_ns()}"
    cli.ok("run", "-d", "--idle", "--name", name, IMAGE)
    yield name
    cli.ok("rm", "-f", name)


@pytest.fixture
def cli(tmp_path):
    """The command line on an empty home."""
    made = Cli(tmp_path / "home")
    yield made
    for p in home_processes(made.home):
        os.kill(p.pid, signal.SIGKILL)


@pytest.fixture
def own(home, tmp_path):
    """The command line on a copy of the home that the test may spoil."""
    copy = tmp_path / "own"
    subprocess.run(["cp", "-a", "--sparse=always", str(home), str(copy)], check=True)
    made = Cli(copy)
    made.remove_all()
    yield made
    for p in home_processes(copy):
        os.kill(p.pid, signal.SIGKILL)
    shutil.rmtree(copy, ignore_errors=True)


@pytest.fixture(scope="session")
def user_cli():
    """The command line as an ordinary user (nobody, when the tests run as root) with a home of its own."""
    need_artifacts()
    path = pathlib.Path(tempfile.mkdtemp(prefix="boxlite-user-"))
    prefix, env = [], {"HOME": str(path)}
    if os.geteuid() == 0:
        user = pwd.getpwnam("nobody")
        if not shutil.which("setpriv"):
            pytest.skip("setpriv is missing")
        prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
        os.chown(path, user.pw_uid, user.pw_gid)
        if subprocess.run([*prefix, BOXLITE, "version"], capture_output=True).returncode != 0:
            pytest.skip(f"{BUILD} cannot be read by an ordinary user")
    cli = Cli(path / "home", env=env, prefix=prefix)
    try:
        fill_home(cli)
        yield cli
        cli.remove_all()
        assert_nothing_left(cli.home)
    finally:
        for p in home_processes(cli.home):
            os.kill(p.pid, signal.SIGKILL)
        shutil.rmtree(path, ignore_errors=True)
