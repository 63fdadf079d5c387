# SPDX-License-Identifier: Apache-2.0
"""Folders and files of the host in boxes: what both sides see, and what the guest does not get."""
import json
import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest

from conftest import IMAGE, Cli, processes, wait_until

CHECKS = (pathlib.Path(__file__).parent / "share_checks.py").read_text()
LONG = os.environ.get("BOXLITE_LONG") == "1"


def git(folder, *args):
    config = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "safe.directory=*"]
    done = subprocess.run(["git", *config, "-C", folder, *args], check=True, capture_output=True, text=True)
    return done.stdout


class Shared:
    """A box with shared folders. `at` is the folder of the host that holds them."""

    def __init__(self, home, at):
        self.cli, self.at = Cli(home), at
        for name in ("rw", "ro", "outside"):
            (at / name).mkdir()
        (at / "ro" / "file").write_text("read me")
        (at / "one").write_text("single")
        self.box = f"share-{os.getpid()}-{time.monotonic_ns()}"
        self.cli.ok("run", "-d", "--idle", "--name", self.box, "-v", f"{at}/rw:/rw", "-v", f"{at}/ro:/ro:ro",
                    "-v", f"{at}/one:/etc/one", "--mount", f"type=bind,src={at}/made/deep,dst=/made,create", IMAGE)

    def run(self, script, *args, user="0", timeout=120):
        return self.cli.run("exec", "-u", user, self.box, "python3", "-c", script, *args, timeout=timeout)

    def ok(self, script, *args, **kw):
        done = self.run(script, *args, **kw)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def shared(home, tmp_path_factory):
    at = tmp_path_factory.mktemp("share")
    os.chmod(at, 0o755)
    s = Shared(home, at)
    yield s
    s.cli.ok("rm", "-f", s.box)


def no_foreign_files(folder):
    return all(os.lstat(os.path.join(d, n)).st_uid == os.geteuid() for d, ds, fs in os.walk(folder) for n in ds + fs)


# ---- without a machine


def test_what_is_missing_is_named_with_advice(cli, tmp_path):
    said = cli.fails("create", "-v", f"{tmp_path}/none:/x", IMAGE)
    assert f"{tmp_path}/none" in said and "create" in said
    assert "HOST:PATH" in cli.fails("create", "-v", "/tmp", IMAGE)
    assert "absolute" in cli.fails("create", "-v", "/tmp:x", IMAGE)
    assert "taken" in cli.fails("create", "-v", "/tmp:/x", "-v", "/usr:/x/", IMAGE)
    assert "keys" in cli.fails("create", "--mount", "type=bind,sauce=/tmp,target=/x", IMAGE)
    assert "type" in cli.fails("create", "--mount", "type=volume,source=/tmp,target=/x", IMAGE)
    assert "folder" in cli.fails("create", "--workspace", "/etc/passwd", IMAGE)


# ---- one box with shared folders

vm = pytest.mark.vm


@vm
@pytest.mark.parametrize("user", ["0", "1000"])
def test_it_is_a_file_system(shared, user):
    folder = shared.at / "rw" / f"checks{user}"
    folder.mkdir()
    os.chmod(folder, 0o777)
    out = shared.ok(CHECKS, f"/rw/checks{user}", user=user, timeout=300)
    assert out.splitlines()[-1].endswith(" 0 broken"), out
    assert no_foreign_files(folder)


@vm
def test_both_sides_see_the_same(shared):
    rw = shared.at / "rw"
    (rw / "from-host").write_text("host")
    os.chmod(rw / "from-host", 0o755)
    shared.ok("""
import os
assert open("/rw/from-host").read() == "host" and os.stat("/rw/from-host").st_mode & 0o777 == 0o755
open("/rw/from-guest", "w").write("guest"); os.chmod("/rw/from-guest", 0o751)
os.utime("/rw/from-guest", (1, 1234567890)); os.symlink("from-guest", "/rw/link")
assert open("/etc/one").read() == "single"; open("/etc/one", "a").write("!")
open("/made/x", "w").write("made")""")
    st = os.stat(rw / "from-guest")
    assert (st.st_mode & 0o7777, st.st_mtime, st.st_uid) == (0o751, 1234567890, os.geteuid())
    assert (rw / "from-guest").read_text() == "guest" and os.readlink(rw / "link") == "from-guest"
    assert (shared.at / "one").read_text() == "single!"
    assert (shared.at / "made" / "deep" / "x").read_text() == "made"


@vm
def test_edits_of_the_host_are_seen_within_a_second(shared):
    """The guest waits for each of them; how long that took on its own clock is what counts."""
    place = shared.at / "rw" / "edits"
    place.mkdir()
    (place / "f").write_text("0")
    script = """
import os, sys, time
def wait(what):
    print("ready", flush=True)
    sys.stdin.readline()   # the edit has been made
    start = time.monotonic()
    while not what():
        assert time.monotonic() - start < 30
        time.sleep(0.02)
    print(time.monotonic() - start, flush=True)
os.chdir("/rw/edits")
def read(name):
    try:
        return open(name).read()
    except OSError:
        return None
assert read("f") == "0" and read("new") is None and os.listdir(".") == ["f"]
wait(lambda: read("f") == "1")
wait(lambda: read("f") == "replaced")
wait(lambda: read("new") == "n" and "new" in os.listdir("."))
wait(lambda: read("f") is None and "f" not in os.listdir("."))
"""
    p = subprocess.Popen(shared.cli.argv("exec", "-i", shared.box, "python3", "-u", "-c", script),
                         env=shared.cli.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def replace():
        (place / "tmp").write_text("replaced")
        (place / "tmp").rename(place / "f")

    edits = [lambda: (place / "f").write_text("1"), replace, lambda: (place / "new").write_text("n"),
             (place / "f").unlink]
    took = []
    for edit in edits:
        assert p.stdout.readline() == "ready\n"
        edit()
        p.stdin.write("go\n")
        p.stdin.flush()
        took.append(float(p.stdout.readline()))
    p.stdin.close()
    assert p.wait(30) == 0
    assert max(took) < 3, took  # one second, and a busy host's share


@vm
def test_read_only_is_read_only(shared):
    shared.ok("""
import errno, os, subprocess
assert open("/ro/file").read() == "read me"
for fn in (lambda: open("/ro/new", "w"), lambda: open("/ro/file", "a"), lambda: os.unlink("/ro/file"),
           lambda: os.chmod("/ro/file", 0), lambda: os.rename("/ro/file", "/ro/x"), lambda: os.mkdir("/ro/d")):
    try:
        fn()
        raise SystemExit("written")
    except OSError as e:
        assert e.errno == errno.EROFS, e""")
    assert sorted(os.listdir(shared.at / "ro")) == ["file"]


@vm
@pytest.mark.parametrize("user", ["0", "1000"])
def test_a_git_repository_is_edited(shared, user):
    repository, tree = shared.at / "rw" / f"git{user}", shared.at / "rw" / f"tree{user}"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    (repository / "a.py").write_text("print('a')\n")
    (repository / "run.sh").write_text("#!/bin/sh\n")
    os.chmod(repository / "run.sh", 0o755)
    (repository / "gone").write_text("x")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "first")
    git(repository, "worktree", "add", "-q", "-b", "side", tree)
    shared.ok("""
import os, sys
for folder in sys.argv[1:]:
    os.chdir(folder)
    assert os.stat(".git").st_uid == os.stat(".").st_uid == os.geteuid()   # no "dubious ownership"
    assert os.access("run.sh", os.X_OK) and not os.access("a.py", os.X_OK)
    open("a.py", "a").write("print('b')\\n")
    os.unlink("gone")
    open("new.sh", "w").write("#!/bin/sh\\n"); os.chmod("new.sh", 0o755)
    os.rename("run.sh", "tmp"); os.rename("tmp", "run.sh")
""", f"/rw/git{user}", f"/rw/tree{user}", user=user)
    for folder in (repository, tree):
        assert git(folder, "status", "--porcelain").splitlines() == [" M a.py", " D gone", "?? new.sh"]
        assert git(folder, "ls-files", "-s", "run.sh").startswith("100755")
        assert os.stat(folder / "new.sh").st_mode & 0o777 == 0o755
        assert no_foreign_files(folder)
    git(repository, "fsck", "--strict")


@vm
def test_names_of_any_bytes(shared):
    place = os.fsencode(shared.at / "rw") + b"/bytes"
    os.mkdir(place)
    for name in (b"a\nb", b"\xff\xfe", b"\xc3\xa9"):
        with open(place + b"/" + name, "wb") as f:
            f.write(name)
    shared.ok("""
import os
for n in os.listdir(b"/rw/bytes"):
    assert open(b"/rw/bytes/" + n, "rb").read() == n
    os.rename(b"/rw/bytes/" + n, b"/rw/bytes/\\xfe" + n)""")
    assert sorted(os.listdir(place)) == [b"\xfea\nb", b"\xfe\xc3\xa9", b"\xfe\xff\xfe"]


@vm
def test_a_tree_of_50000_files(shared):
    place = shared.at / "rw" / "many"
    for i in range(500):
        folder = place / str(i)
        folder.mkdir(parents=True)
        for k in range(100):
            os.close(os.open(folder / str(k), os.O_CREAT | os.O_WRONLY, 0o644))
    out = shared.ok("""
import os
n = sum(len(f) for d, _, f in os.walk("/rw/many"))
s = sum(e.stat().st_size == 0 for i in range(0, 500, 10) for e in os.scandir(f"/rw/many/{i}"))
print(n, s)""", timeout=400)
    assert out.split() == ["50000", "5000"]


@vm
def test_swapped_links_lead_nowhere(shared):
    """The host's side swaps a folder for a link that leads out, as fast as it can, while the guest opens, writes and
    removes what is behind that name."""
    place, outside = shared.at / "rw" / "race", shared.at / "outside"
    (place / "real").mkdir(parents=True)
    (place / "real" / "file").write_text("inside")
    (outside / "file").write_text("secret")
    os.symlink(outside, place / "link")
    seconds, stop = (30 if LONG else 4), threading.Event()

    def swap():
        names = [(place / "real", place / "d"), (place / "d", place / "real"), (place / "link", place / "d"),
                 (place / "d", place / "link")]
        while not stop.is_set():
            for a, b in names:
                os.rename(a, b)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        out = shared.ok("""
import os, sys, time
end, hits, seen = time.monotonic() + float(sys.argv[1]), 0, set()
def attempt(fn):
    try:
        return fn()
    except OSError:
        return None
while time.monotonic() < end:
    got = attempt(lambda: open("/rw/race/d/file").read())
    hits += got is not None
    seen.add(got)
    attempt(lambda: open("/rw/race/d/planted", "w").close())
    attempt(lambda: os.mkdir("/rw/race/d/folder"))
    attempt(lambda: os.rename("/rw/race/d/file", "/rw/race/d/file"))
    attempt(lambda: os.chmod("/rw/race/d/file", 0o600))
    attempt(lambda: os.listdir("/rw/race/d"))
    attempt(lambda: os.unlink("/rw/race/d/planted"))
print(seen, hits)""", str(seconds), timeout=seconds + 120)
    finally:
        stop.set()
        thread.join()
    assert "secret" not in out
    assert sorted(os.listdir(outside)) == ["file"] and (outside / "file").read_text() == "secret"
    assert os.stat(outside / "file").st_mode & 0o777 != 0o600


@vm
def test_a_full_host_disk_says_so(shared, home, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small]).returncode:
        pytest.skip("a small file system can only be mounted by root")
    try:
        out = shared.cli.ok("run", "--rm", "-v", f"{small}:/small", IMAGE, "python3", "-c", """
import errno, os
fd = os.open("/small/f", os.O_CREAT | os.O_WRONLY)
try:
    for i in range(100):
        os.write(fd, b"x" * 100_000)
except OSError as e:
    assert e.errno == errno.ENOSPC, e
    os.close(fd); os.unlink("/small/f"); open("/small/ok", "w").write("x"); print("full")""")
        assert out == "full\n" and os.listdir(small) == ["ok"]
    finally:
        subprocess.run(["umount", small], check=True)


@vm
def test_a_workspace_keeps_its_writes_to_itself(home, tmp_path):
    cli, place = Cli(home), tmp_path / "work"
    (place / "sub").mkdir(parents=True)
    (place / "a").write_text("a")
    (place / "sub" / "b").write_text("b")
    name = f"ws-{os.getpid()}-{time.monotonic_ns()}"
    cli.ok("run", "-d", "--idle", "-u", "1000:1000", "--name", name, "--workspace", place, IMAGE)
    try:
        first = f"""
import os
os.chdir({str(place)!r})
assert os.stat(".").st_uid == os.stat("a").st_uid == 1000
open("a", "a").write("+"); os.rename("sub", "moved"); open("new", "w").write("n"); os.chmod("moved/b", 0o755)"""
        cli.ok("exec", name, "python3", "-c", first)
        assert sorted(p.name for p in place.rglob("*")) == ["a", "b", "sub"] and (place / "a").read_text() == "a"
        cli.ok("stop", name)
        cli.ok("start", name)
        out = cli.ok("exec", "-w", place, name, "sh", "-c", "cat a new moved/b; ls; stat -c %a moved/b")
        assert out == "a+nba\nmoved\nnew\n755\n"
    finally:
        cli.ok("rm", "-f", name)
    assert sorted(p.name for p in place.rglob("*")) == ["a", "b", "sub"]


def children(pid):
    return [p for p in processes() if p.ppid == pid]


def server_of(cli, name):
    pid = int((pathlib.Path(cli.home) / "boxes" / json.loads(cli.ok("inspect", name))[0]["id"] / "lock").read_text().split()[0])
    return pid, [p.pid for p in children(pid) if p.name.startswith("boxlite-share")]


@vm
def test_killed_servers_leave_nothing(home, tmp_path):
    cli = Cli(home)
    (tmp_path / "f").write_text("x")
    name = f"kill-{os.getpid()}-{time.monotonic_ns()}"
    cli.ok("run", "-d", "--idle", "--name", name, "-v", f"{tmp_path}:/x", IMAGE)
    try:
        shim, servers = server_of(cli, name)
        assert len(servers) == 1
        assert cli.ok("exec", name, "cat", "/x/f") == "x"
        os.kill(servers[0], signal.SIGKILL)
        wait_until(lambda: not children(shim) or not server_of(cli, name)[1], what="the server's end")
        done = cli.run("exec", name, "cat", "/x/f", timeout=60)  # an error, and no wait for ever
        assert done.returncode != 0 and "x" != done.stdout
        assert cli.ok("exec", name, "echo", "lives") == "lives\n"
        cli.ok("stop", name)
        cli.ok("start", name)
        assert cli.ok("exec", name, "cat", "/x/f") == "x"
        shim, servers = server_of(cli, name)
        os.kill(shim, signal.SIGKILL)
        wait_until(lambda: not any(p.pid == servers[0] for p in processes()), what="the server's end")
    finally:
        cli.ok("rm", "-f", name)
