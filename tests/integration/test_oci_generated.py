# SPDX-License-Identifier: Apache-2.0
"""Images of random layers, unpacked by umoci and built by BoxLite: the trees must be the same, as root and as an ordinary user.

A failure names its seed: layergen.history(random.Random(seed), …) makes the layers again.
"""
import io
import os
import pathlib
import pwd
import random
import shutil
import subprocess
import tarfile
import tempfile

import pytest

from conftest import Cli
from layergen import history
from ocilayout import Layout, entry, tar
from test_oci_trees import need, tree

UNTOLD = 1.2e9  # times that the layers say are smaller; a folder that none of them has gets the current time from umoci


def pick(seed, plain=False):
    """Layers and packing of image number `seed`."""
    rng = random.Random(seed)
    layers = history(rng, 1 + seed % 8 if seed else 150, size=25 if seed else 4, plain=plain)
    return [(layer, rng.choice(["gzip", "zstd", "plain"])) for layer in layers]


def umoci(layout, name, target, *options, prefix=()):
    subprocess.run([*prefix, "umoci", "unpack", *options, "--image", f"{layout}:{name}", target], check=True,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return target / "rootfs"


def unpack_ours(cli, digest, target):
    subprocess.run(["unsquashfs", "-q", "-n", "-d", target, cli.home / "rootfs" / f"{digest[7:]}.sqfs"], check=True,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    return target


@pytest.mark.parametrize("seed", range(20))
def test_root_unpacks_the_same_tree(cli, tmp_path, seed):
    if os.geteuid() != 0:
        pytest.skip("unpacking owners and devices needs root")
    need("umoci", "unsquashfs", "zstd")
    layers = pick(seed)
    digest = Layout(tmp_path / "layout").image(layers, "v")
    Layout(tmp_path / "gzip").image([layer for layer, _ in layers], "v")  # umoci knows no zstd
    cli.ok("load", tmp_path / "layout")
    theirs, their_links = tree(umoci(tmp_path / "gzip", "v", tmp_path / "theirs"))
    ours, our_links = tree(unpack_ours(cli, digest, tmp_path / "ours"))
    compare(theirs, ours, seed)
    assert their_links == our_links


def compare(theirs, ours, seed):
    assert sorted(theirs) == sorted(ours)
    for name, what in theirs.items():
        if what[-1] > UNTOLD:
            # A folder made because something is in it, or that got something through a symlink. On umoci's disk the former
            # inherits group and set-group-id bit.
            assert int(what[0], 8) & ~0o2000 == int(ours[name][0], 8) & ~0o2000, (seed, name)
        else:
            assert what == ours[name], (seed, name)


# ---- As an ordinary user


@pytest.fixture
def ordinary():
    """The command line as an ordinary user, and a folder of theirs."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="boxlite-user-"))
    prefix = []
    if os.geteuid() == 0:
        need("setpriv")
        user = pwd.getpwnam("nobody")
        prefix = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
        os.chown(path, user.pw_uid, user.pw_gid)
    cli = Cli(path / "home", env={"HOME": str(path)}, prefix=prefix)
    if cli.run("version").returncode != 0:
        pytest.skip("the programs cannot be run by an ordinary user")
    cli.path = path
    yield cli
    shutil.rmtree(path)


def listing(image):
    """The tree of a squashfs as tree() gives it, but for device numbers, by another program's eyes and without rights."""
    out = subprocess.run(["sqfs2tar", "-r", ".", image], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120).stdout
    found, groups, kinds = {}, {}, {b"5": 0o40000, b"2": 0o120000, b"6": 0o10000}
    with tarfile.open(fileobj=io.BytesIO(out), encoding="utf-8", errors="surrogateescape") as archive:
        for m in archive:
            name = os.path.normpath(os.fsencode(m.name))
            if m.islnk():
                target = os.path.normpath(os.fsencode(m.linkname))
                groups.setdefault(target, [target]).append(name)
                found[name] = found[target]
                continue
            data = archive.extractfile(m).read() if m.isfile() else os.fsencode(m.linkname) if m.issym() else b""
            attributes = {k[13:]: os.fsencode(v) for k, v in m.pax_headers.items() if k.startswith("SCHILY.xattr.")}
            found[name] = (oct(kinds.get(m.type, 0o100000) | m.mode), m.uid, m.gid, data, attributes, int(m.mtime))
    return found, sorted(sorted(names) for names in groups.values())


def test_listing_sees_what_is_there(ordinary):
    layer = tar([entry("d", uid=5), entry("d/f", b"data", mode=0o4755, mtime=77), entry("d/g", b"", type=tarfile.LNKTYPE, linkname="d/f"),
                 entry("s", type=tarfile.SYMTYPE, linkname="d/f", mode=0o777)])
    digest = ordinary.ok("import", "-", "x:1", input=layer).strip()
    need("sqfs2tar")
    found, links = listing(ordinary.home / "rootfs" / f"{digest[7:]}.sqfs")
    assert links == [[b"d/f", b"d/g"]] and found[b"d/f"] == found[b"d/g"] == ("0o104755", 0, 0, b"data", {}, 77)
    assert found[b"s"][3] == b"d/f" and found[b"d"][1] == 5 and set(found) == {b".", b"d", b"d/f", b"d/g", b"s"}


@pytest.mark.parametrize("seed", range(20, 40))
def test_a_user_unpacks_the_same_tree(ordinary, seed):
    need("umoci", "sqfs2tar", "zstd")
    layers = pick(seed, plain=True)
    digest = Layout(ordinary.path / "layout").image(layers, "v")
    Layout(ordinary.path / "gzip").image([layer for layer, _ in layers], "v")
    ordinary.ok("load", ordinary.path / "layout")
    ours, our_links = listing(ordinary.home / "rootfs" / f"{digest[7:]}.sqfs")
    theirs, their_links = tree(umoci(ordinary.path / "gzip", "v", ordinary.path / "theirs", "--rootless", prefix=ordinary.prefix),
                               digest=bytes)
    # Owners cannot be a user's: umoci notes them in an attribute.
    plain = {name: (mode, rest, {k: v for k, v in attributes.items() if k.startswith("user.") and k != "user.rootlesscontainers"}, when)
             for name, (mode, _, _, _, rest, attributes, when) in theirs.items()}
    compare(plain, {name: (mode, rest, attributes, when) for name, (mode, _, _, rest, attributes, when) in ours.items()}, seed)
    assert their_links == our_links


def test_the_same_layers_are_the_same_bytes_for_everybody(cli, ordinary, tmp_path):
    need("zstd")
    layers = [*pick(3), (tar([]), "gzip")]
    digest = Layout(ordinary.path / "layout").image(layers, "v")
    roots = []
    for who in (cli, ordinary, ordinary):
        who.ok("load", ordinary.path / "layout")
        root = who.home / "rootfs" / f"{digest[7:]}.sqfs"
        roots.append(root.read_bytes())
        who.ok("image", "rm", digest)
    assert roots[0] == roots[1] == roots[2]
    # How the layers are packed has no say either.
    other = Layout(tmp_path / "other").image([(layer, "plain") for layer, _ in layers], "v")
    cli.ok("load", tmp_path / "other")
    assert (cli.home / "rootfs" / f"{other[7:]}.sqfs").read_bytes() == roots[0]
