# SPDX-License-Identifier: Apache-2.0
"""boxlite commit: what a box has changed as a layer of a new image, seen by tar and in a box of that image."""
import io
import tarfile

import pytest

from conftest import IMAGE

pytestmark = pytest.mark.vm

CHANGE = r"""
set -e
rm /etc/motd
mkdir -p /srv/sub
printf data > '/srv/sub/a file'
ln '/srv/sub/a file' /srv/sub/link
ln -s 'sub/a file' /srv/symbolic
chmod 4755 '/srv/sub/a file'
chown 1234:5678 /srv/symbolic -h
useradd -u 4321 worker
usermod -aG audio worker
rm -r /usr/share/doc; mkdir /usr/share/doc; touch /usr/share/doc/new
rm /etc/hostname.not 2>/dev/null || :
mv /etc/issue /etc/issue.moved
find /srv /usr/share/doc /etc/issue.moved -exec touch -h -d @1000000000 {} +
"""


def layer_of(cli, digest):
    layer = cli.json("image", "inspect", digest)[0]["layers"][-1]["digest"]
    data = (cli.home / "images/blobs/sha256" / layer[7:]).read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name.removeprefix("./").rstrip("/"): m for m in archive}


def test_commit_of_a_running_and_of_a_stopped_box(vm):
    vm.ok("run", "-d", "--name", "committed", IMAGE, "sleep", "1000")
    vm.ok("exec", "committed", "sh", "-c", CHANGE)
    options = ("-m", "set up", "-e", "MADE=yes", "-w", "/made/here", "-l", "by=test", "-u", "worker:games",
               "--entrypoint", "sh", "--entrypoint", "-c", "--cmd", "id -Gn")
    try:
        first = vm.ok("commit", *options, "committed", "test/made:1").strip()
        assert vm.ok("commit", *options, "committed", "test/made:2").strip() == first
        vm.ok("stop", "-t", "1", "committed")
        assert vm.ok("commit", *options, "committed", "test/made:3").strip() == first
        assert vm.state("committed") == "stopped"

        entries = layer_of(vm, first)
        assert "etc/.wh.motd" in entries and "etc/.wh.issue" in entries
        assert {"usr/share/doc/.wh..wh..opq", "usr/share/doc/new", "etc/issue.moved"} <= entries.keys()
        one, two = entries["srv/sub/a file"], entries["srv/sub/link"]
        assert one.mode == 0o4755 and one.size == 4 and two.islnk() and two.linkname.endswith("srv/sub/a file")
        assert (entries["srv/symbolic"].uid, entries["srv/symbolic"].gid) == (1234, 5678)
        assert one.mtime == 1000000000
        assert not [n for n in entries if n.split("/")[0] in ("dev", "proc", "sys") or n in (
            "etc/hosts", "etc/hostname", "etc/resolv.conf")]  # what BoxLite puts there
        assert vm.json("history", "test/made:1", "--json")[0]["comment"] == "set up"

        # Entrypoint, environment, user, and a working directory that the image does not have, by the image's config.
        out = vm.ok("run", "--name", "made", "test/made:1",
                    "id -un; id -gn; pwd; echo $MADE; cd /srv; cat 'sub/a file'; stat -c %h sub/link; ls /usr/share/doc; "
                    "test ! -e /etc/motd && echo gone; head -c 6 /etc/issue.moved")
        assert out == "worker\ngames\n/made/here\nyes\ndata2\nnew\ngone\nDebian"
        assert vm.json("inspect", "made")[0]["labels"] == ["by=test"]
        vm.ok("image", "verify", first)
    finally:
        vm.ok("rm", "-f", "committed")
        vm.ok("image", "rm", "-f", "test/made:1", "test/made:2", "test/made:3")


def test_what_cannot_be_committed(vm):
    vm.fails("commit", "no-such-box", "x:1")
    vm.ok("create", "--name", "fresh", IMAGE)
    assert "Bad" in vm.fails("commit", "fresh", "Bad:Name:1")
    assert vm.state("fresh") == "created"
