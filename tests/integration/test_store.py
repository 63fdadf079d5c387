# SPDX-License-Identifier: Apache-2.0
"""The image store by the command line: names, archives, history, clearing, checks. No machine is needed."""
import contextlib
import io
import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
import time

import pytest

from conftest import wait_until
from ocilayout import Layout, entry, sha256, tar

BASE = tar([entry("etc"), entry("etc/base", b"base" * 3000)])
APP = tar([entry("app", b"app" * 5000)])
OTHER = tar([entry("other", os.urandom(20000))])
HISTORY = [{"created": "2024-02-03T04:05:06.789Z", "created_by": "ADD base", "comment": "first"},
           {"created": "2024-02-03T06:05:06+02:00", "created_by": "ENV A=" + "b" * 100, "empty_layer": True},
           {"created_by": "ADD app"}]


@pytest.fixture
def two(cli, tmp_path):
    """Two images that share a layer."""
    layout = Layout(tmp_path / "layout")
    cli.one = layout.image([BASE, APP], "test/one:1", history=HISTORY)
    cli.two = layout.image([BASE, OTHER], "test/two:1")
    cli.ok("image", "load", tmp_path / "layout")
    return cli


def database(cli, sql, *values):
    with contextlib.closing(sqlite3.connect(cli.home / "boxlite.db")) as db, db:
        db.execute(sql, values)


def names(cli, *args):
    return sorted(row["name"].replace("docker.io/", "") for row in cli.json("image", "ls", "--json", *args))


def blobs(cli):
    return sorted(os.listdir(cli.home / "images" / "blobs" / "sha256"))


def test_ls_shows_what_is_shared_and_filters(two):
    rows = two.json("image", "ls", "--json")
    shared = len((two.home / "images/blobs/sha256" / two.json("image", "inspect", two.one)[0]["layers"][0]["digest"][7:])
                 .read_bytes())
    assert [row["shared_size"] for row in rows] == [shared, shared]
    assert two.one in two.ok("image", "ls", "--digests")
    assert names(two, "--filter", "reference=test/o*") == ["test/one:1"]
    assert names(two, "--filter", "dangling=true") == []
    two.ok("image", "untag", "test/one:1")
    assert [r["digest"] for r in two.json("images", "--json", "-f", "dangling=true")] == [two.one]
    assert "no filter" in two.fails("image", "ls", "-f", "colour=red")


def test_tag_and_untag(two):
    two.ok("tag", "test/one:1", "other/name")
    two.ok("image", "tag", two.two[7:25], "test/one:1")  # takes it from the other
    rows = {r["name"]: r["digest"] for r in two.json("images", "--json")}
    assert rows == {"docker.io/other/name:latest": two.one, "docker.io/test/one:1": two.two,
                    "docker.io/test/two:1": two.two}
    index = json.loads((two.home / "images/index.json").read_text())
    assert {m["annotations"]["org.opencontainers.image.ref.name"] for m in index["manifests"]} == set(rows)
    two.ok("untag", "other/name")
    assert two.json("inspect", two.one)[0]["names"] == []
    for args in (("untag", "other/name"), ("tag", "no/such", "x"), ("tag", "test/two:1", "UPPER"),
                 ("tag", "test/two:1", f"x@{two.one}"), ("untag", two.one)):
        two.fails("image", *args)


def test_rm_by_name_id_and_digest(two):
    two.ok("tag", "test/one:1", "a:1")
    two.ok("tag", "test/one:1", "b:1")
    two.ok("image", "rm", "a:1")
    assert "library/b:1" in names(two)
    two.ok("image", "rm", two.one[7:19])  # all its names
    assert names(two) == ["test/two:1"]
    assert len(blobs(two)) == 4
    two.ok("rmi", two.two)
    assert names(two) == [] and blobs(two) == []


def test_rm_says_which_boxes_use_an_image(two):
    for i in range(2):
        (two.home / "boxes" / f"{i:016}").mkdir(parents=True)
        database(two, "INSERT INTO boxes VALUES (?, ?, 'test/one:1', ?, '{}', 1, 0)", f"{i:016}", f"user{i}", two.one)
    said = two.fails("image", "rm", "test/one:1")
    assert "user0" in said and "user1" in said and "--force" in said
    assert two.json("image", "prune", "--all", "--json")["removed"] == 1  # the other one
    assert names(two) == ["test/one:1"]
    two.ok("image", "rm", "-f", "test/one:1")
    assert names(two) == []


def test_history(two):
    rows = two.json("history", "test/one:1", "--json")
    assert [r["created_by"] for r in rows] == ["ADD app", "ENV A=" + "b" * 100, "ADD base"]
    assert [bool(r["layer"]) for r in rows] == [True, False, True]
    assert rows[1]["created"] == "2024-02-03T04:05:06Z" == rows[2]["created"] and rows[0]["created"] == ""
    assert rows[2]["comment"] == "first" and rows[1]["size"] == 0 < rows[0]["size"]
    assert "bbb..." in two.ok("image", "history", "test/one:1")
    assert "b" * 100 in two.ok("image", "history", "--no-trunc", "test/one:1")
    assert len(two.json("history", "test/two:1", "--json")) == 2  # without a history: its layers
    inspected, = two.json("image", "inspect", "test/one:1")
    assert [layer["diff_id"] for layer in inspected["layers"]] == [sha256(BASE), sha256(APP)]
    assert inspected["platform"].startswith("linux/") and len(inspected["config"]["history"]) == 3


def test_the_whole_config_is_kept(cli, tmp_path):
    config = {"Entrypoint": ["/e"], "Cmd": ["c"], "Env": ["A=1"], "User": "u:g", "WorkingDir": "/w", "StopSignal": "SIGUSR1",
              "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/v": {}}, "Labels": {"l": "x"},
              "Healthcheck": {"Test": ["CMD", "true"], "Interval": 30000000000}}
    Layout(tmp_path / "layout").image([BASE], "test/config:1", config=config)
    cli.ok("load", tmp_path / "layout")
    assert cli.json("image", "inspect", "test/config:1")[0]["config"]["config"] == config


# ---- Archives


def members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive if m.isfile()}


@pytest.mark.parametrize("form", ["oci", "docker"])
def test_save_and_load_keep_everything(two, cli_other, tmp_path, form):
    archive = tmp_path / "saved.tar"
    two.ok("image", "save", "--format", form, "-o", archive, "test/one:1", "test/two:1")
    files = members(archive.read_bytes())
    assert {name.split("/")[-1] for name in files if name.startswith("blobs/")} == set(blobs(two))
    assert ("manifest.json" in files) == (form == "docker")
    assert two.raw("save", "--format", form, "test/one:1", "test/two:1").stdout == archive.read_bytes()
    cli_other.ok("load", input=archive.read_bytes())
    assert cli_other.json("images", "--json")[0].keys() == two.json("images", "--json")[0].keys()
    assert names(cli_other) == names(two) and blobs(cli_other) == blobs(two)
    for digest in (two.one, two.two):
        root = f"rootfs/{digest[7:]}.sqfs"
        assert (cli_other.home / root).read_bytes() == (two.home / root).read_bytes()


@pytest.fixture
def cli_other(cli):
    return type(cli)(cli.home.parent / "other-home")


def test_what_docker_reads_of_a_saved_archive(two, cli_other):
    """Without the layout around it, as an old Docker sees it."""
    files = members(two.raw("save", "test/one:1").stdout)
    image, = json.loads(files["manifest.json"])
    assert image["RepoTags"] == ["test/one:1"] and json.loads(files[image["Config"]])["os"] == "linux"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("manifest.json", image["Config"], *image["Layers"]):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            archive.addfile(info, io.BytesIO(files[name]))
    cli_other.ok("load", input=buffer.getvalue())
    assert names(cli_other) == ["test/one:1"]


def test_a_failed_save_keeps_the_old_file_and_leaves_no_other(two, tmp_path):
    target = tmp_path / "out" / "a.tar"
    target.parent.mkdir()
    target.write_text("old")
    layer = two.json("image", "inspect", "test/one:1")[0]["layers"][1]["digest"]
    (two.home / "images/blobs/sha256" / layer[7:]).write_bytes(b"x")
    said = two.fails("save", "-o", target, "test/one:1")
    assert layer in said and "verify" in said
    assert target.read_text() == "old" and os.listdir(target.parent) == ["a.tar"]
    two.fails("save", "no/such")
    two.fails("save", "-o", tmp_path / "no" / "folder", "test/two:1")


def test_skopeo_reads_what_save_writes_and_the_store(two, tmp_path):
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is missing")

    def skopeo(*args):
        return subprocess.run(["skopeo", *map(str, args)], check=True, capture_output=True, text=True, timeout=120).stdout

    two.ok("save", "--format", "oci", "-o", tmp_path / "o.tar", "test/one:1")
    two.ok("save", "-o", tmp_path / "d.tar", "test/one:1")
    for source in (f"oci-archive:{tmp_path}/o.tar", f"docker-archive:{tmp_path}/d.tar",
                   f"docker-archive:{tmp_path}/d.tar:docker.io/test/one:1",
                   f"oci:{two.home}/images:docker.io/test/one:1"):
        assert len(json.loads(skopeo("inspect", source))["Layers"]) == 2
        copy = tmp_path / "copy"
        skopeo("copy", "-q", source, f"oci:{copy}:x")
        assert (copy / "index.json").exists()
        shutil.rmtree(copy)


def test_load_says_what_is_wrong_without_a_path(cli):
    assert "standard input" in cli.fails("image", "load", input=b"")


@pytest.mark.parametrize("part", [1, 2, 3])
def test_a_killed_load_leaves_a_store_that_works(two, cli_other, part):
    archive = two.raw("save", "test/one:1", "test/two:1").stdout
    with cli_other.popen("load", "-q", "-") as process:
        process.stdin.write(archive[:len(archive) * part // 4])
        process.stdin.flush()
        # Whatever it has read of that lies in tmp/ then.
        wait_until(lambda: list((cli_other.home / "tmp").glob("load.*")), what="it to begin")
        process.kill()
    assert names(cli_other) == []
    assert os.listdir(cli_other.home / "tmp") == []  # swept by the command above
    cli_other.ok("load", input=archive)
    assert names(cli_other) == names(two)
    cli_other.ok("image", "verify")


# ---- Clearing


def test_prune_by_name_age_and_size(two):
    two.ok("untag", "test/two:1")
    assert two.json("image", "prune", "--until", "1h", "--json") == {"removed": 0, "freed": 0}
    freed = two.json("image", "prune", "--json")
    assert freed["removed"] == 1 and freed["freed"] > 4096
    assert names(two) == ["test/one:1"] and len(blobs(two)) == 4
    assert two.json("image", "prune", "--all", "--until", "1h", "--json")["removed"] == 0
    assert two.json("image", "prune", "--all", "--keep-size", "1G", "--json")["removed"] == 0
    assert two.json("image", "prune", "--all", "--keep-size", "1", "--json")["removed"] == 1
    assert names(two) == [] and blobs(two) == [] and os.listdir(two.home / "rootfs") == []


def age(cli, digest, seconds):
    """Makes an image's last use so long ago."""
    then = time.time() - seconds
    os.utime(cli.home / "rootfs" / f"{digest[7:]}.sqfs", (then, then))
    database(cli, "UPDATE images SET created = ? WHERE digest = ?", int(then), digest)


def test_prune_takes_the_least_recently_used_first(two):
    age(two, two.one, 7200)
    age(two, two.two, 3600 * 50)
    size = sum(r["size"] for r in two.json("images", "--json"))
    assert two.json("image", "prune", "--all", "--keep-size", size - 2000, "--json")["removed"] == 1
    assert names(two) == ["test/one:1"]
    assert two.json("image", "prune", "--all", "--until", "3h", "--json")["removed"] == 0
    assert two.json("image", "prune", "--all", "--until", "1h", "--json")["removed"] == 1


def test_prune_clears_what_crashes_left(two):
    stray = two.home / "images/blobs/sha256" / ("a" * 64)
    stray.write_bytes(b"x" * 1000)
    (two.home / "rootfs" / ("b" * 64 + ".sqfs")).write_bytes(b"y" * 1000)
    assert two.json("image", "prune", "--json") == {"removed": 0, "freed": 2000}
    assert not stray.exists() and names(two) == ["test/one:1", "test/two:1"]


def test_the_homes_limit_evicts_the_least_recently_used(two, tmp_path):
    age(two, two.two, 7200)
    size = sum(r["size"] for r in two.json("images", "--json"))
    (two.home / "settings.json").write_text(json.dumps({"images": {"limit": str(size)}}))
    layout = Layout(tmp_path / "third")
    layout.image([tar([entry("third", os.urandom(3000))])], "test/third:1")
    two.ok("load", tmp_path / "third")
    assert names(two) == ["test/one:1", "test/third:1"]
    (two.home / "settings.json").write_text('{"images": {"limit": "1k"}}')
    two.ok("import", "-", "huge:1", input=BASE)  # the new one stays, whatever it takes
    assert names(two) == ["library/huge:1"]


@pytest.mark.parametrize("text, said", [
    ('{"images": {"limt": "1G"}}', "images.limt"), ('{"images": {"limit": 5}}', "images.limit"),
    ('{"images": {"limit": "much"}}', "images.limit"), ('{"image": {}}', "image"), ("[]", "object"), ("{", "settings.json"),
    ('{"images": 1}', "images")])
def test_bad_settings_are_told(cli, text, said):
    cli.ok("images")
    (cli.home / "settings.json").write_text(text)
    message = cli.fails("images")
    assert said in message and "settings.json" in message


def test_an_image_that_unpacks_to_more_than_is_allowed(cli):
    cli.ok("images")
    (cli.home / "settings.json").write_text('{"images": {"unpacked": "10M"}}')
    big = tar([entry("zeros", bytes(11 << 20))])
    assert "larger than" in cli.fails("import", "-", "x:1", input=big)
    assert names(cli) == [] and os.listdir(cli.home / "tmp") == []
    cli.ok("import", "-", "x:1", input=tar([entry("zeros", bytes(9 << 20))]))


# ---- Checks


def blob_of(cli, name, layer):
    return cli.home / "images/blobs/sha256" / cli.json("image", "inspect", name)[0]["layers"][layer]["digest"][7:]


def flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_verify_finds_and_repairs_a_damaged_blob(two, tmp_path):
    assert sorted(two.ok("image", "verify").splitlines()) == ["test/one:1: ok", "test/two:1: ok"]
    blob = blob_of(two, "test/one:1", 1)
    flip(blob)
    done = two.run("image", "verify")
    assert done.returncode == 125 and "test/two:1: ok" in done.stdout
    assert blob.name in done.stderr and "damaged" in done.stderr and "--repair" in done.stderr
    assert blob.exists()
    assert "bring the image in again" in two.fails("image", "verify", "--repair", "test/one:1")
    assert not blob.exists()
    assert "missing" in two.fails("image", "verify", "test/one:1")
    two.ok("load", tmp_path / "layout")
    assert two.ok("image", "verify", "test/one:1") == "test/one:1: ok\n"


def test_verify_finds_and_repairs_a_damaged_root(two):
    root = two.home / "rootfs" / f"{two.one[7:]}.sqfs"
    whole = root.read_bytes()
    for at in (300, 100):  # its data; its head's end
        flip(root, at)
        assert "root image" in two.fails("image", "verify", "test/one:1")
        two.ok("image", "verify", "--repair", "test/one:1")
        assert root.read_bytes() == whole
    root.write_bytes(b"no squashfs")
    two.ok("image", "verify", "--repair", "test/one:1")
    assert root.read_bytes() == whole
    root.unlink()
    two.ok("image", "verify", "test/one:1")  # it is built when it is used


def test_verify_finds_other_sizes_and_documents(two):
    path = blob_of(two, "test/two:1", 0)
    with open(path, "ab") as f:
        f.write(b"x")
    assert "size" in two.fails("image", "verify", "test/two:1")
    flip(two.home / "images/blobs/sha256" / two.one[7:])
    assert two.one in two.fails("image", "verify", "test/one:1")
    two.fails("image", "verify", "no/such:1")
