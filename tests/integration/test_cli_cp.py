# SPDX-License-Identifier: Apache-2.0
"""boxlite cp: files and trees both ways, by Docker's rules."""
import io
import os
import stat
import tarfile

import pytest

from conftest import Cli

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def vm(home):  # these tests make no boxes
    return Cli(home)


def make_tree(top):
    """A tree with what trees have; returns {path: (mode, content | link)}."""
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "plain.txt").write_text("plain\n")
    (top / "sub" / "run.sh").write_text("#!/bin/sh\necho run\n")
    (top / "sub" / "run.sh").chmod(0o755)
    (top / "sub" / "deep" / "secret").write_bytes(os.urandom(100_000))
    (top / "sub" / "deep" / "secret").chmod(0o600)
    (top / "sub" / "link").symlink_to("deep/secret")
    (top / "dangling").symlink_to("/no/such/file")
    (top / ("long-" + "n" * 150)).write_text("name")
    (top / "odd ä\t'name").write_text("odd")
    os.utime(top / "plain.txt", (1_000_000_000, 1_000_000_000))
    return describe(top)


def describe(top):
    found = {}
    for path in sorted(top.rglob("*")):
        st = path.lstat()
        what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(top))] = (None if path.is_symlink() else stat.S_IMODE(st.st_mode), what)
    return found


def test_a_tree_there_and_back(vm, box, tmp_path):
    src = tmp_path / "src"
    src.mkdir()
    want = make_tree(src)
    vm.ok("cp", src, f"{box}:/root/there")
    assert vm.ok("exec", box, "/root/there/sub/run.sh") == "run\n"
    assert vm.ok("exec", box, "stat", "-c", "%u:%g %a %Y", "/root/there/plain.txt") == "0:0 644 1000000000\n"
    vm.ok("cp", f"{box}:/root/there", tmp_path / "back")
    assert describe(tmp_path / "back") == want
    st = (tmp_path / "back" / "plain.txt").stat()
    assert (st.st_uid, st.st_gid, int(st.st_mtime)) == (os.geteuid(), os.getegid(), 1_000_000_000)


def test_into_an_existing_folder(vm, box, tmp_path):
    (tmp_path / "f").write_text("one")
    vm.ok("cp", tmp_path / "f", f"{box}:/tmp")
    assert vm.ok("exec", box, "cat", "/tmp/f") == "one"
    vm.ok("cp", tmp_path / "f", f"{box}:/tmp/renamed")
    assert vm.ok("exec", box, "cat", "/tmp/renamed") == "one"
    (tmp_path / "out").mkdir()
    vm.ok("cp", f"{box}:/tmp/renamed", tmp_path / "out")
    assert (tmp_path / "out" / "renamed").read_text() == "one"
    vm.ok("cp", f"{box}:/tmp/renamed", tmp_path / "other")
    assert (tmp_path / "other").read_text() == "one"


def test_a_folder_into_an_existing_folder_goes_below_it(vm, box, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x").write_text("x")
    vm.ok("exec", box, "mkdir", "-p", "/root/have")
    vm.ok("cp", tmp_path / "d", f"{box}:/root/have")
    assert vm.ok("exec", box, "cat", "/root/have/d/x") == "x"


def test_overwriting(vm, box, tmp_path):
    (tmp_path / "f").write_text("long content")
    vm.ok("cp", tmp_path / "f", f"{box}:/root/over")
    (tmp_path / "f").write_text("short")
    vm.ok("cp", tmp_path / "f", f"{box}:/root/over")
    assert vm.ok("exec", box, "cat", "/root/over") == "short"


def test_ten_megabytes(vm, box, tmp_path):
    data = os.urandom(10 << 20)
    (tmp_path / "big").write_bytes(data)
    vm.ok("cp", tmp_path / "big", f"{box}:/root/big")
    vm.ok("cp", f"{box}:/root/big", tmp_path / "big2")
    assert (tmp_path / "big2").read_bytes() == data


def test_tar_streams(vm, box):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("from-tar/file")
        info.size = 3
        tar.addfile(info, io.BytesIO(b"tar"))
    vm.ok("cp", "-", f"{box}:/root", input=buffer.getvalue())
    assert vm.ok("exec", box, "cat", "/root/from-tar/file") == "tar"
    done = vm.raw("cp", f"{box}:/root/from-tar", "-")
    assert done.returncode == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        files = {m.name.rstrip("/"): m for m in tar.getmembers()}
        assert tar.extractfile(next(m for n, m in files.items() if n.endswith("file"))).read() == b"tar"


def test_what_is_not_there(vm, box, tmp_path):
    assert "/no/such" in vm.fails("cp", f"{box}:/no/such", tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert "missing" in vm.fails("cp", tmp_path / "missing", f"{box}:/tmp")
    (tmp_path / "f").write_text("x")
    vm.fails("cp", tmp_path / "f", f"{box}:/no/such/folder/f")


def test_a_name_with_a_colon(vm, box, tmp_path):
    (tmp_path / "a:b").write_text("colon")
    vm.ok("cp", tmp_path / "a:b", f"{box}:/root")
    assert vm.ok("exec", box, "cat", "/root/a:b") == "colon"
    vm.ok("cp", "./a:b", f"{box}:/root/second", cwd=tmp_path)
    assert vm.ok("exec", box, "cat", "/root/second") == "colon"


def test_links_in_the_box_do_not_lead_out(vm, box, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    vm.ok("exec", box, "sh", "-c", f"mkdir -p /root/evil && ln -sfn {victim} /root/evil/out && "
                                   "mkdir -p /root/evil2/out && echo bad > /root/evil2/out/file")
    (tmp_path / "here").mkdir()
    vm.ok("cp", f"{box}:/root/evil/.", tmp_path / "here")
    vm.run("cp", f"{box}:/root/evil2/.", tmp_path / "here")
    assert list(victim.iterdir()) == []
