# SPDX-License-Identifier: Apache-2.0
"""Real trees through other people's tools and ours: tar, umoci and skopeo make images, unsquashfs unpacks the root that
BoxLite built, and both trees must be equal: names as bytes, modes, owners, links, devices, contents, attributes."""
import hashlib
import os
import shutil
import stat
import subprocess

import pytest


def need(*programs):
    for program in programs:
        if not shutil.which(program) and not os.access(f"/usr/sbin/{program}", os.X_OK):
            pytest.skip(f"{program} is missing")


@pytest.fixture(autouse=True)
def requirements():
    if os.geteuid() != 0:
        pytest.skip("unpacking owners and devices needs root")
    need("unsquashfs", "tar")


def attributes(path):
    # A host's own labels (SELinux) are no part of the image.
    return {name: os.getxattr(path, name, follow_symlinks=False)
            for name in os.listxattr(path, follow_symlinks=False) if name != "security.selinux"}


def tree(top, times=True, digest=lambda data: hashlib.sha256(data).digest()):
    """Everything below a folder, by its path in bytes."""
    found, links = {}, {}
    top = os.fsencode(top)
    for folder, folders, files in os.walk(top):
        for path in [folder] + [os.path.join(folder, n) for n in files + [d for d in folders if os.path.islink(
                os.path.join(folder, d))]]:
            st = os.lstat(path)
            rest = b""
            if stat.S_ISREG(st.st_mode):
                with open(path, "rb") as f:
                    rest = digest(f.read())
            elif stat.S_ISLNK(st.st_mode):
                rest = os.readlink(path)
            name = os.path.relpath(path, top)
            if not stat.S_ISDIR(st.st_mode):
                links.setdefault((st.st_dev, st.st_ino), []).append(name)
            found[name] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_rdev, rest, attributes(path),
                           int(st.st_mtime) if times else 0)
    return found, sorted(sorted(names) for names in links.values() if len(names) > 1)


def equal(a, b, **kw):
    (one, links_one), (two, links_two) = tree(a, **kw), tree(b, **kw)
    assert sorted(one) == sorted(two)
    for name in one:
        assert one[name] == two[name], name
    assert links_one == links_two


@pytest.fixture
def odd_tree(tmp_path):
    """A tree with one of everything."""
    top = tmp_path / "tree"
    (top / "dev").mkdir(parents=True)
    os.mknod(top / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(top / "dev/disk", stat.S_IFBLK | 0o660, os.makedev(259, 70000))
    os.mkfifo(top / "dev/fifo")
    base = os.fsencode(top)
    for name in (b"nfc-\xc3\xa9", b"nfd-e\xcc\x81", b"latin-\xe9", b"new\nline", b" ", b"back\\slash", b"n" * 255):
        os.mkdir(base + b"/" + name)
        with open(base + b"/" + name + b"/" + name, "wb") as f:
            f.write(name)
        os.symlink(name, base + b"/" + name + b"/link")
    os.symlink("x" * 300, top / "long-link")
    (top / "suid").write_bytes(b"#!")
    os.chmod(top / "suid", 0o6755)
    os.setxattr(top / "suid", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
    (top / "secret").write_bytes(b"s" * 100000)
    os.chmod(top / "secret", 0)
    os.setxattr(top / "secret", "user.note", b"a\0b")
    os.link(top / "secret", top / "dev/secret-too")
    os.link(top / "long-link", top / "link-to-the-link")
    (top / "owned").mkdir()
    os.chown(top / "owned", 12345, 4000000000)
    for size in (0, 1, 4096, 131071, 131072, 131073, 3000000):
        (top / f"size-{size}").write_bytes(os.urandom(size))
        (top / f"zeros-{size}").write_bytes(bytes(size))
    with open(top / "sparse", "wb") as f:
        f.truncate(50_000_000)
        f.seek(20_000_000)
        f.write(b"island")
    many = top / "many"
    many.mkdir()
    for i in range(3000):
        (many / f"file-{i:05}").touch()
    for path in (top / "suid", top / "owned", top / "many"):
        os.utime(path, (1, 1))
    return top


def root_of(cli, digest, tmp_path):
    out = tmp_path / f"root-{digest[7:19]}"
    image = cli.home / "rootfs" / f"{digest[7:]}.sqfs"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", out, image], check=True, stdout=subprocess.DEVNULL)
    return out


@pytest.mark.parametrize("form", ["gnu", "pax"])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_import_of_a_tar_made_by_tar(cli, odd_tree, tmp_path, form, locale):
    tar = tmp_path / "root.tar"
    attrs = ["--xattrs", "--xattrs-include=*"] if form == "pax" else []
    subprocess.run(["tar", f"--format={form}", *attrs, "-S", "-C", odd_tree, "-cf", tar, "."], check=True)
    digest = cli.ok("image", "import", tar, "tree:1", env={"LC_ALL": locale}).strip()
    if form == "gnu":  # which has no attributes
        os.removexattr(odd_tree / "suid", "security.capability")
        os.removexattr(odd_tree / "secret", "user.note")
    equal(odd_tree, root_of(cli, digest, tmp_path))


@pytest.mark.parametrize("form", ["oldgnu", "gnu", "pax --sparse-version=0.0", "pax --sparse-version=0.1", "pax --sparse-version=1.0"])
def test_every_form_of_sparse_files(cli, tmp_path, form):
    top = tmp_path / "tree"
    top.mkdir()
    for name, size, parts in (("holes", 9_000_000, range(0, 8_000_000, 300_000)), ("tail", 5_000_001, [0]),
                              ("none", 400_000, []), ("end", 1_000_000, [999_990])):
        with open(top / name, "wb") as f:
            f.truncate(size)
            for at in parts:  # more than one header of the old form takes
                f.seek(at)
                f.write(b"part %d" % at)
            f.truncate(size)
    (top / ("long-" * 40)).write_bytes(b"x")
    subprocess.run(f"tar --format={form} -S -C {top} -cf {tmp_path}/t.tar .", shell=True, check=True)
    digest = cli.ok("image", "import", tmp_path / "t.tar", "tree:1").strip()
    equal(top, root_of(cli, digest, tmp_path))


def change(root):
    """What a later layer does to the tree."""
    shutil.rmtree(root / "many")
    (root / "many").symlink_to("owned")
    (root / "suid").unlink()
    (root / "suid").mkdir()
    (root / "suid/inside").write_bytes(b"1")
    (root / "dev/secret-too").unlink()
    (root / "size-1").write_bytes(b"other")
    (root / "size-4096").unlink()
    os.chmod(root / "dev", 0o700)
    shutil.rmtree(os.fsencode(root) + b"/latin-\xe9")
    os.mkdir(os.fsencode(root) + b"/latin-\xe9")


@pytest.fixture
def layered(odd_tree, tmp_path):
    """An OCI layout of two layers by umoci, and the tree that umoci makes of it."""
    need("umoci")
    layout = tmp_path / "layout"

    def umoci(*args):
        subprocess.run(["umoci", *map(str, args)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    umoci("init", "--layout", layout)
    umoci("new", "--image", f"{layout}:v")
    for number, step in enumerate((lambda root: subprocess.run(["cp", "-a", f"{odd_tree}/.", root], check=True), change)):
        bundle = tmp_path / f"bundle{number}"
        umoci("unpack", "--image", f"{layout}:v", bundle)
        step(bundle / "rootfs")
        umoci("repack", "--image", f"{layout}:v", bundle)
    umoci("unpack", "--image", f"{layout}:v", tmp_path / "seen")
    umoci("gc", "--layout", layout)
    return layout, tmp_path / "seen/rootfs"


def test_layers_make_the_tree_that_umoci_makes(cli, layered, tmp_path):
    layout, seen = layered
    digest = cli.ok("image", "load", "-q", layout).strip()
    # umoci rounds the times of folders it had to make.
    equal(seen, root_of(cli, digest, tmp_path), times=False)


def test_a_docker_archive_by_skopeo_makes_it_too(cli, layered, tmp_path):
    need("skopeo")
    layout, seen = layered
    archive = tmp_path / "docker.tar"
    subprocess.run(["skopeo", "copy", "-q", f"oci:{layout}:v", f"docker-archive:{archive}:my/name:7"], check=True)
    cli.ok("image", "load", archive)
    digest = cli.json("image", "inspect", "my/name:7")[0]["digest"]
    equal(seen, root_of(cli, digest, tmp_path), times=False)


def test_other_tools_read_our_store(cli, odd_tree, tmp_path):
    need("skopeo", "umoci")
    tar = tmp_path / "root.tar"
    subprocess.run(["tar", "--format=pax", "--xattrs", "--xattrs-include=*", "-C", odd_tree, "-cf", tar, "."], check=True)
    cli.ok("image", "import", tar, "localhost/x:1")
    # umoci takes no full reference as a tag: skopeo gives it another.
    subprocess.run(["skopeo", "copy", "-q", f"oci:{cli.home}/images:localhost/x:1", f"oci:{tmp_path}/copy:v"], check=True)
    subprocess.run(["umoci", "unpack", "--image", f"{tmp_path}/copy:v", tmp_path / "unpacked"], check=True,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    equal(odd_tree, tmp_path / "unpacked/rootfs", times=False)
