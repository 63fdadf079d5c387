# SPDX-License-Identifier: Apache-2.0
"""Files in and out of a box, also a hostile one."""
import asyncio
import io
import os
import tarfile

import pytest

from sdkhome import FAKE_IMAGE, fake_home, run, sdk, tar_of  # noqa: F401 (fixtures)


@pytest.fixture
def places(tmp_path):
    """A folder of the host and one of the box (which is this host with the fake shim)."""
    host, guest = tmp_path / "host", tmp_path / "guest"
    host.mkdir()
    guest.mkdir()
    return host, guest


def with_box(sdk, work):
    async def main():
        async with sdk.SimpleBox(image=FAKE_IMAGE) as box:
            await work(box)
    run(main())


def test_read_and_write(sdk, places):
    _host, guest = places

    async def work(box):
        data = os.urandom(1_234_567)
        await box.write_file(f"{guest}/a", data, mode=0o600)
        assert (guest / "a").read_bytes() == data and (guest / "a").stat().st_mode & 0o777 == 0o600
        assert await box.read_file(f"{guest}/a") == data
        await box.write_file(f"{guest}/a", "é")
        os.symlink("a", guest / "link")
        assert await box.read_file(f"{guest}/link") == "é".encode()
        await box.write_file(f"{guest}/empty", b"")
        assert await box.read_file(f"{guest}/empty") == b""
        with pytest.raises(sdk.NotFoundError) as caught:
            await box.read_file(f"{guest}/none")
        assert f"reading {box.name}:{guest}/none" in str(caught.value)
        with pytest.raises(sdk.InvalidArgumentError):
            await box.read_file(str(guest))
        with pytest.raises(sdk.ResourceExhaustedError):
            await box.read_file(f"{guest}/a", max_bytes=1)
        await box.write_file(f"{guest}/made/for/it", b"x")
        assert (guest / "made" / "for" / "it").read_bytes() == b"x"
        with pytest.raises(ValueError):
            await box.write_file("relative", b"x")
        os.symlink("loop", guest / "loop")
        with pytest.raises(sdk.InvalidArgumentError):
            await box.read_file(f"{guest}/loop")
    with_box(sdk, work)


def make_tree(top):
    top.mkdir()
    (top / "sub").mkdir(mode=0o750)
    (top / "sub" / "file").write_text("in sub")
    (top / "sub" / "file").chmod(0o640)
    (top / "big").write_bytes(b"0123456789" * 100_000)
    (top / "odd é \n name").write_text("odd")
    os.symlink("sub/file", top / "link")
    os.utime(top / "big", (1000, 1000))


def check_tree(top):
    assert (top / "sub" / "file").read_text() == "in sub" and (top / "sub" / "file").stat().st_mode & 0o777 == 0o640
    assert (top / "sub").stat().st_mode & 0o777 == 0o750
    assert (top / "big").stat().st_size == 1_000_000 and (top / "big").stat().st_mtime == 1000
    assert (top / "odd é \n name").read_text() == "odd"
    assert os.readlink(top / "link") == "sub/file"


def test_trees_go_where_docker_would_put_them(sdk, places):
    host, guest = places
    make_tree(host / "tree")

    async def work(box):
        await box.copy_in(host / "tree", str(guest))
        check_tree(guest / "tree")
        await box.copy_in(host / "tree", f"{guest}/fresh")
        check_tree(guest / "fresh")
        (guest / "flat").mkdir()
        await box.copy_in(f"{host}/tree/.", f"{guest}/flat")
        check_tree(guest / "flat")
        (guest / "flat2").mkdir()
        await box.copy_in(host / "tree", f"{guest}/flat2", include_parent=False)
        check_tree(guest / "flat2")
        await box.copy_out(f"{guest}/tree", host / "back")
        check_tree(host / "back")
        await box.copy_out(f"{guest}/fresh", str(host / "back"))
        check_tree(host / "back" / "fresh")
        await box.copy_out(f"{guest}/tree/.", host / "new")
        check_tree(host / "new")
        await box.copy_out(f"{guest}/tree/big", host / "one")
        assert (host / "one").stat().st_size == 1_000_000
    with_box(sdk, work)


def test_options_of_copies(sdk, places):
    host, guest = places
    (host / "a").write_text("new")
    os.symlink("a", host / "link")

    async def work(box):
        (guest / "a").write_text("old")
        with pytest.raises(sdk.AlreadyExistsError):
            await box.copy_in(host / "a", str(guest), overwrite=False)
        assert (guest / "a").read_text() == "old"
        await box.copy_in(host / "link", f"{guest}/copied", follow_symlinks=True)
        assert (guest / "copied").read_text() == "new" and not (guest / "copied").is_symlink()
        (host / "a").write_text("kept")
        with pytest.raises(sdk.AlreadyExistsError):
            await box.copy_out(f"{guest}/a", host / "a", overwrite=False)
        assert (host / "a").read_text() == "kept"
        (host / "folder").mkdir()
        with pytest.raises(sdk.InvalidArgumentError):
            await box.copy_in(host / "folder", str(guest), recursive=False)
        for call in (box.copy_in(host / "none", str(guest)), box.copy_in(host / "a", f"{guest}/none/x"),
                     box.copy_in(host / "a", f"{guest}/none/"), box.copy_out(f"{guest}/none", host),
                     box.copy_out(f"{guest}/a", f"{host}/none/"), box.copy_out(f"{guest}/a", f"{host}/none/x"),
                     box.copy_in("", str(guest)), box.copy_out(f"{guest}/..", host)):
            with pytest.raises(sdk.BoxliteError):
                await call
    with_box(sdk, work)


def test_copies_leave_the_loop_free(sdk, places):
    host, guest = places
    (host / "big").write_bytes(bytes(20_000_000))

    async def work(box):
        copying = asyncio.ensure_future(box.copy_in(host / "big", str(guest)))
        turns = 0
        while not copying.done():
            turns += 1
            await box.exec("true")
        await copying
        assert turns > 2 and (guest / "big").stat().st_size == 20_000_000
    with_box(sdk, work)


class HostileBox:
    """Answers every question with one archive."""
    name = "evil"

    def __init__(self, box, archive):
        self.box, self.archive = box, archive

    async def _tar(self, _function, _path):
        return await self.box.box.exec("cat", [str(self.archive)], stdin=False)


HOSTILE = {
    "a name that climbs": [({"name": "top/../../evil"}, b"x")],
    "an absolute name": [({"name": "/tmp/evil"}, b"x")],
    "a name that was not asked for": [({"name": "other"}, b"x")],
    "a folder that is a link": [({"name": "top", "type": tarfile.DIRTYPE, "mode": 0o755}, b""),
                                ({"name": "top/l", "type": tarfile.SYMTYPE, "linkname": "/tmp"}, b""),
                                ({"name": "top/l/evil"}, b"x")],
    "a top that is a link": [({"name": "top", "type": tarfile.SYMTYPE, "linkname": "/tmp"}, b""), ({"name": "top/evil"}, b"x")],
    "a hard link": [({"name": "top", "type": tarfile.DIRTYPE, "mode": 0o755}, b""),
                    ({"name": "top/h", "type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, b"")],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_hostile_box_sends_stays_below_the_target(sdk, places, what):
    from boxlite import _files
    host, guest = places
    (guest / "evil.tar").write_bytes(tar_of(*HOSTILE[what]))

    async def work(box):
        (host / "target").mkdir()
        with pytest.raises(sdk.IntegrityError):
            await _files.copy_out(HostileBox(box, guest / "evil.tar"), "/x/top", host / "target", sdk.CopyOptions())
        assert not os.path.exists("/tmp/evil") and not (host / "evil").exists()
        assert not any((host / "target").glob("evil"))
    with_box(sdk, work)


def test_devices_and_powers_are_left_out(sdk, places):
    from boxlite import _files
    host, guest = places
    (guest / "evil.tar").write_bytes(tar_of(
        ({"name": "top", "type": tarfile.DIRTYPE, "mode": 0o7777}, b""),
        ({"name": "top/dev", "type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, b""),
        ({"name": "top/fifo", "type": tarfile.FIFOTYPE}, b""),
        ({"name": "top/suid", "mode": 0o6755}, b"x")))

    async def work(box):
        await _files.copy_out(HostileBox(box, guest / "evil.tar"), "/x/top", host / "got", sdk.CopyOptions())
        assert sorted(os.listdir(host / "got")) == ["suid"]
        assert (host / "got" / "suid").stat().st_mode & 0o7777 == 0o755
        assert (host / "got").stat().st_mode & 0o7777 == 0o777
    with_box(sdk, work)


@pytest.mark.parametrize("data", [b"", b"garbage" * 200, tar_of(({"name": "top"}, b"x" * 2000))[:1100]])
def test_a_damaged_archive_is_an_error(sdk, places, data):
    from boxlite import _files
    host, guest = places
    (guest / "evil.tar").write_bytes(data)

    async def work(box):
        with pytest.raises(sdk.BoxliteError):
            await _files.copy_out(HostileBox(box, guest / "evil.tar"), "/x/top", host / "got", sdk.CopyOptions())
    with_box(sdk, work)
