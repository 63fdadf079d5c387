# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in the world: each is told clearly, and the next command works."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import ARTIFACTS, IMAGE, Cli, assert_nothing_left, box_processes, fill_home, home_processes, wait_until

pytestmark = pytest.mark.vm


def works(cli):
    assert cli.ok("run", "--rm", IMAGE, "echo", "works") == "works\n"
    assert_nothing_left(cli.home)


def test_unknown_image(vm):
    for args in (("127.0.0.1:1/no/such:image",), ("--pull", "never", "no/such:image")):  # nobody listens at port 1
        said = vm.fails("run", "--rm", *args, "true")
        assert "no/such:image" in said and "hint: " in said
        assert "image load" in said or "image import" in said
    works(vm)


def test_no_kernel(own):
    kernel = own.home / "kernels"
    kernel.rename(own.home / "away")
    said = own.fails("run", "--rm", IMAGE, "true")
    assert "kernel" in said and "hint: " in said and "kernel import" in said
    assert own.boxes() == []
    if kernel.exists():
        shutil.rmtree(kernel)
    (own.home / "away").rename(kernel)
    works(own)


def test_kernel_of_another_name(own):
    assert "small" in own.fails("run", "--rm", "--kernel", "small", IMAGE, "true")


def test_damaged_kernel(own):
    path = own.home / "kernels" / "default" / "vmlinux"
    good = path.read_bytes()
    path.write_bytes(b"\0" * 4096)
    own.fails("run", "--rm", IMAGE, "true", timeout=120)
    path.write_bytes(good)
    works(own)


def test_initramfs_that_is_damaged_or_of_another_version_is_renewed(own):
    (own.home / "kernels" / "default" / "initramfs").write_bytes(b"\0" * 4096)
    works(own)


def test_no_space(home, tmp_path):
    """A home on a file system that has no room for the disk of another box, nor for the image."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", small]).returncode != 0:
        pytest.skip("cannot mount a tmpfs")
    try:
        cli = Cli(small / "home")
        said = cli.fails("image", "import", ARTIFACTS / "base.tar", IMAGE, timeout=300)
        assert "space" in said and "hint: " in said
        assert cli.json("images", "--json") == []
        assert not list((small / "home").glob("tmp/*"))
        # with the image it can start, until the box fills the disk
        subprocess.run(["mount", "-o", "remount,size=2g", small], check=True)
        fill_home(cli)
        works(cli)
        used = sum(f.stat().st_blocks * 512 for f in small.rglob("*") if f.is_file())
        subprocess.run(["mount", "-o", f"remount,size={used + (24 << 20)}", small], check=True)
        done = cli.run("run", "--rm", IMAGE, "sh", "-c", "head -c 60M /dev/zero > /root/big && sync /root/big", timeout=180)
        assert done.returncode != 0
        subprocess.run(["mount", "-o", "remount,size=2g", small], check=True)
        works(cli)
    finally:
        for p in home_processes(small):
            os.kill(p.pid, signal.SIGKILL)
        wait_until(lambda: subprocess.run(["umount", small], stderr=subprocess.DEVNULL).returncode == 0,
                   what="the small file system to be free")


def test_unreadable_home(user_cli, tmp_path):
    """As an ordinary user: a home of someone else, one without rights, and one that is a file."""
    place = pathlib.Path(user_cli.home).parent / "bad"
    for make, says in ((lambda: place.mkdir(mode=0o000), "bad"), (lambda: place.write_text("x"), "bad")):
        make()
        if os.geteuid() == 0:
            st = user_cli.home.stat()
            os.chown(place, st.st_uid, st.st_gid)
        said = user_cli.fails("--home", place, "ls")
        assert says in said and "hint: " in said
        place.rmdir() if place.is_dir() else place.unlink()
    if os.geteuid() == 0:
        place.mkdir(mode=0o700)
        said = user_cli.fails("--home", place, "ls")
        assert "bad" in said
        place.rmdir()
    assert "hint: " in user_cli.fails("--home", "/proc/nothing", "ls")
    works(user_cli)


def test_corrupt_database(own):
    db = own.home / "boxlite.db"
    good = db.read_bytes()
    for damage in (b"this is not a database" * 100, good[:100] + os.urandom(len(good) - 100)):
        for extra in own.home.glob("boxlite.db-*"):
            extra.unlink()
        db.write_bytes(damage)
        said = own.fails("run", "--rm", IMAGE, "true")
        assert "boxlite.db" in said and "hint: " in said
        assert db.read_bytes() == damage  # never overwritten
    for extra in own.home.glob("boxlite.db-*"):
        extra.unlink()
    db.write_bytes(good)
    works(own)


def test_database_of_a_newer_version(own):
    if not shutil.which("sqlite3"):
        pytest.skip("sqlite3 is missing")
    db = str(own.home / "boxlite.db")
    version = subprocess.run(["sqlite3", db, "pragma user_version"], capture_output=True, text=True, check=True).stdout
    subprocess.run(["sqlite3", db, "pragma user_version = 9999"], check=True)
    said = own.fails("ls")
    assert "newer" in said
    subprocess.run(["sqlite3", db, f"pragma user_version = {version}"], check=True)
    works(own)


def test_damaged_root_image(own):
    root, = (own.home / "rootfs").glob("*.sqfs")
    good = root.read_bytes()
    for damage in (b"", good[: len(good) // 2], b"\0" * len(good)):
        root.chmod(0o644)
        root.write_bytes(damage)
        done = own.run("run", "--rm", IMAGE, "echo", "works", timeout=120)
        # found out and told, or found out and built anew from the image
        assert (done.returncode, done.stdout) == (0, "works\n") or (
            done.returncode == 125 and done.stderr.startswith("boxlite: ") and "hint: " in done.stderr), done.stderr
        assert own.boxes() == []
    root, = (own.home / "rootfs").glob("*.sqfs")
    root.chmod(0o644)
    root.write_bytes(good)
    works(own)


def test_missing_root_image_is_built_anew(own):
    root, = (own.home / "rootfs").glob("*.sqfs")
    root.unlink()
    works(own)


@pytest.mark.parametrize("engine", ["auto", "qemu"])
def test_missing_qemu(vm, engine):
    said = vm.fails("run", "--rm", "--engine", engine, IMAGE, "true", env={"BOXLITE_QEMU": "/no/such/qemu"})
    assert "qemu" in said and "hint: " in said
    assert vm.boxes() == []
    works(vm)


def test_killed_qemu(vm):
    p = vm.popen("run", "--name", "victim", IMAGE, "sh", "-c", "echo ready; sleep 600")
    assert p.stdout.readline() == b"ready\n"
    engine, = [q for q in box_processes(p.pid) if q.name.startswith("qemu")]
    os.kill(engine.pid, signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 125 and err.startswith(b"boxlite: ") and out == b""
    assert b"killed" in err or b"ended" in err
    assert vm.state("victim") == "stopped"
    works(vm)


def test_killed_qemu_while_it_starts(vm):
    p = vm.popen("run", "--rm", IMAGE, "true")
    engine = wait_until(lambda: [q for q in box_processes(p.pid) if q.name.startswith("qemu")], what="the engine")[0]
    os.kill(engine.pid, signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 125 and err.startswith(b"boxlite: ")
    assert vm.boxes() == []
    works(vm)


def test_killed_shim(vm):
    vm.ok("run", "-d", "--name", "orphan", IMAGE, "sleep", "600")
    shim, = [q for q in home_processes(vm.home) if q.name.startswith("boxlite-shim")]
    p = vm.popen("exec", "orphan", "sh", "-c", "echo ready; sleep 600")
    assert p.stdout.readline() == b"ready\n"
    os.kill(shim.pid, signal.SIGKILL)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 125 and err.startswith(b"boxlite: ")
    assert_nothing_left(vm.home)  # the engine dies with it
    assert vm.state("orphan") == "stopped"
    vm.fails("exec", "orphan", "true")
    vm.ok("start", "orphan")
    assert vm.ok("exec", "orphan", "echo", "back") == "back\n"
    vm.ok("rm", "-f", "orphan")
    works(vm)


def test_missing_passt(vm):
    said = vm.fails("run", "--rm", "--network", "user", IMAGE, "true", env={"BOXLITE_PASST": "/no/such/passt"})
    assert "passt" in said and "hint: " in said
    works(vm)


def test_box_folder_that_was_deleted(own):
    box = own.ok("create", "--name", "gone", IMAGE, "true").strip()
    shutil.rmtree(own.home / "boxes" / box)
    own.fails("start", "gone")
    own.ok("rm", "-f", "gone")
    assert own.boxes() == []
    works(own)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"cpus": 1000000}', b"\xff" * 100], ids=["empty", "cut", "wild", "bytes"])
def test_damaged_box_config(own, damage):
    box = own.ok("create", "--name", "hurt", IMAGE, "true").strip()
    (own.home / "boxes" / box / "config.json").write_bytes(damage)
    said = own.fails("start", "hurt")
    assert "hurt" in said or "config" in said
    own.ok("ls", "-a")
    own.ok("rm", "-f", "hurt")
    works(own)


def test_long_home_path(own, tmp_path):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    shutil.move(own.home, deep / "home")
    moved = Cli(deep / "home")
    try:
        works(moved)
        moved.ok("run", "-d", "--idle", "--name", "deep", IMAGE)
        assert moved.ok("exec", "deep", "echo", "far") == "far\n"
    finally:
        moved.remove_all()
        assert_nothing_left(moved.home)


def test_doctor_tells_of_a_home_that_cannot_be_opened(tmp_path):
    (tmp_path / "home").write_text("")
    cli = Cli(tmp_path / "home")
    done = cli.run("doctor")
    assert done.returncode == 1 and done.stdout.startswith("[FAIL] home: ") and "-> " in done.stdout
    rows = json.loads(cli.run("doctor", "--json").stdout)
    assert rows[0]["name"] == "home" and rows[0]["status"] == "failed" and rows[0]["advice"]
