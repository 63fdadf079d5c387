# SPDX-License-Identifier: Apache-2.0
"""Images made by the tests themselves: tars entry by entry, and OCI image layouts of such layers."""
import gzip
import hashlib
import io
import json
import pathlib
import platform
import subprocess
import tarfile

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
MEDIA = "application/vnd.oci.image."


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def entry(name, data=None, **fields):
    """A tar entry with its data: a file if there is data, else a folder unless `type` says otherwise."""
    info = tarfile.TarInfo(name)
    info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
    info.mode = 0o755 if data is None else 0o644
    info.mtime = 1000
    for key, value in fields.items():
        setattr(info, key, value)
    info.size = len(data) if data is not None and info.type == tarfile.REGTYPE else 0
    return info, data


def tar(entries, form=tarfile.PAX_FORMAT):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form, encoding="utf-8", errors="surrogateescape") as out:
        for info, data in entries:
            out.addfile(info, io.BytesIO(data) if data and info.type == tarfile.REGTYPE else None)
    return buffer.getvalue()


def pack(data, how):
    if how == "gzip":
        return gzip.compress(data, 1, mtime=0), "layer.v1.tar+gzip"
    if how == "zstd":
        done = subprocess.run(["zstd", "-q", "-c", "-1"], input=data, stdout=subprocess.PIPE, check=True)
        return done.stdout, "layer.v1.tar+zstd"
    return data, "layer.v1.tar"


class Layout:
    """An OCI image layout in a folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "blobs" / "sha256").mkdir(parents=True)
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.manifests = []

    def put(self, data, media_type):
        (self.folder / "blobs" / "sha256" / sha256(data)[7:]).write_bytes(data)
        return {"mediaType": MEDIA + media_type, "digest": sha256(data), "size": len(data)}

    def image(self, layers, name=None, how="gzip", config=None, history=None):
        """layers: tars, or pairs of a tar and how it is packed. Returns the manifest's digest."""
        pairs = [layer if isinstance(layer, tuple) else (layer, how) for layer in layers]
        document = {"architecture": ARCHITECTURE, "os": "linux", "config": config or {},
                    "rootfs": {"type": "layers", "diff_ids": [sha256(data) for data, _ in pairs]}}
        if history:
            document["history"] = history
        manifest = {"schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json",
                    "config": self.put(json.dumps(document).encode(), "config.v1+json"),
                    "layers": [self.put(*pack(data, packing)) for data, packing in pairs]}
        top = self.put(json.dumps(manifest).encode(), "manifest.v1+json")
        if name:
            top["annotations"] = {"org.opencontainers.image.ref.name": name}
        self.manifests.append(top)
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": self.manifests}))
        return top["digest"]
