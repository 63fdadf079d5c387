# SPDX-License-Identifier: Apache-2.0
"""Images by the command line, from small archives that the tests make; no machine is needed."""
import gzip
import hashlib
import io
import json
import tarfile

import pytest


def rootfs(files, links=()):
    """A tar of a root file system."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))
        for name, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()


SMALL = rootfs({"bin": None, "bin/sh": b"#!", "etc": None, "etc/passwd": b"root:x:0:0::/:/bin/sh\n"})


def test_import_ls_inspect_rm(cli, tmp_path):
    (tmp_path / "r.tar").write_bytes(SMALL)
    digest = cli.ok("image", "import", tmp_path / "r.tar", "my/image:1", "--cmd", "/bin/sh", "--cmd", "-l", "--entrypoint",
                    "/bin/env", "-e", "A=b c", "-w", "/etc", "-u", "1000:100", "-l", "x=y").strip()
    assert digest.startswith("sha256:") and len(digest) == 71
    row, = cli.json("image", "ls", "--json")
    assert row["name"].endswith("my/image:1") and row["digest"] == digest and row["size"] > 0
    assert row["platform"].startswith("linux/")
    assert cli.ok("image", "ls", "-q").strip() == digest[7:19]
    text = json.dumps(cli.json("image", "inspect", "my/image:1"))
    for part in ("/bin/env", "-l", "A=b c", "/etc", "1000:100", digest):
        assert part in text
    assert cli.json("inspect", digest[7:19]) == cli.json("image", "inspect", "my/image:1")
    assert cli.ok("image", "rm", "my/image:1") == "my/image:1\n"
    assert cli.json("images", "--json") == []
    assert "my/image:1" in cli.fails("image", "rm", "my/image:1")
    cli.ok("image", "rm", "-f", "my/image:1")


def test_import_from_standard_input_and_compressed(cli):
    assert cli.ok("import", "-", "in:1", input=SMALL).startswith("sha256:")
    assert cli.ok("import", "-", "in:2", input=gzip.compress(SMALL)).startswith("sha256:")
    assert len(cli.json("images", "--json")) == 2


def test_import_replaces_a_name(cli):
    first = cli.ok("import", "-", "x:1", input=SMALL)
    second = cli.ok("import", "-", "x:1", input=rootfs({"other": b"x"}))
    assert first != second
    row, = [r for r in cli.json("images", "--json") if r["name"].endswith("x:1")]
    assert row["digest"] == second.strip()


@pytest.mark.parametrize("name", ["", "UPPER/x", "a b", "a:b:c", "../x", "x@y", "a" * 300])
def test_bad_names(cli, name):
    cli.fails("image", "import", "-", name, input=SMALL)


@pytest.mark.parametrize("data", [b"", b"garbage" * 1000, SMALL[:700], gzip.compress(SMALL)[:-20]],
                         ids=["empty", "garbage", "cut", "cut-gzip"])
def test_bad_archives(cli, data):
    cli.fails("image", "import", "-", "bad:1", input=data)
    assert cli.json("images", "--json") == []


def test_hostile_archives(cli, tmp_path):
    for data in (rootfs({"../escape": b"x"}), rootfs({"d/../../escape": b"x"})):
        done = cli.run("image", "import", "-", "evil:1", input=data)
        assert done.returncode == 125
        assert "escape" in done.stderr
    assert not (tmp_path / "escape").exists() and not (cli.home / "escape").exists()
    assert cli.json("images", "--json") == []


def test_a_file_that_is_not_there(cli):
    assert "/no/such.tar" in cli.fails("image", "import", "/no/such.tar", "x:1")
    assert "/no/such" in cli.fails("image", "load", "/no/such")
    assert "/no/such" in cli.fails("kernel", "import", "/no/such")


def oci_layout(folder, name):
    """A minimal OCI image layout; returns the manifest's digest."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(data):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    layer = gzip.compress(SMALL, mtime=0)
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/sh"]},
              "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(SMALL).hexdigest()]}}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **put(json.dumps(config).encode())},
                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **put(layer)}]}
    entry = {"mediaType": manifest["mediaType"], **put(json.dumps(manifest).encode())}
    if name:
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return entry["digest"]


def test_load_an_oci_layout(cli, tmp_path):
    digest = oci_layout(tmp_path / "layout", "lay/out:1")
    assert digest in cli.ok("image", "load", tmp_path / "layout")
    assert cli.ok("load", "-q", "-i", tmp_path / "layout").strip() == digest
    assert any(r["name"].endswith("lay/out:1") for r in cli.json("images", "--json"))


def test_load_gives_a_name_to_an_image_without_one(cli, tmp_path):
    digest = oci_layout(tmp_path / "layout", None)
    cli.ok("image", "load", tmp_path / "layout", "--name", "given:2")
    row, = cli.json("images", "--json")
    assert row["name"].endswith("given:2") and row["digest"] == digest


def test_load_checks_digests(cli, tmp_path):
    oci_layout(tmp_path / "layout", "x:1")
    for blob in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        data = bytearray(blob.read_bytes())
        if data[:2] == b"\x1f\x8b":
            data[-1] ^= 1
            blob.write_bytes(data)
    cli.fails("image", "load", tmp_path / "layout")
    assert cli.json("images", "--json") == []


def test_the_image_store_is_an_oci_layout(cli):
    digest = cli.ok("import", "-", "x:1", input=SMALL).strip()
    blob = cli.home / "images" / "blobs" / "sha256" / digest[7:]
    assert hashlib.sha256(blob.read_bytes()).hexdigest() == digest[7:]


def test_bad_kernels(cli, tmp_path):
    for data in (b"", b"x" * 10000, b"\x7fELF" + bytes(200)):
        (tmp_path / "k").write_bytes(data)
        cli.fails("kernel", "import", tmp_path / "k")
    assert cli.json("kernel", "ls", "--json") == []
    assert "nope" in cli.fails("kernel", "rm", "nope")
