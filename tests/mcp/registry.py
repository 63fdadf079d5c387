# SPDX-License-Identifier: Apache-2.0
"""registry: an OCI registry on loopback with one image, whose layer may be held back."""
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import threading


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    def __init__(self, files):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o755
                tar.addfile(entry, io.BytesIO(content))
        self.layer = gzip.compress(raw.getvalue(), mtime=0)
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": [digest(raw.getvalue())]}}).encode()
        kind = "application/vnd.oci.image."
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
            "config": {"mediaType": kind + "config.v1+json", "digest": digest(config), "size": len(config)},
            "layers": [{"mediaType": kind + "layer.v1.tar+gzip", "digest": digest(self.layer), "size": len(self.layer)}],
        }).encode()
        self.blobs = {digest(config): config, digest(self.layer): self.layer, digest(self.manifest): self.manifest}
        self.go = threading.Event()
        self.go.set()
        self.asked = []
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                registry.asked.append(self.path)
                what = self.path.rsplit("/", 1)[-1]
                manifest = "/manifests/" in self.path and "absent" not in self.path
                data = registry.manifest if manifest else registry.blobs.get(what) or (b"{}" if self.path == "/v2/" else None)
                if data is registry.layer:
                    registry.go.wait(60)
                self.send_response(200 if data is not None else 404)
                self.send_header("Content-Type", kind + "manifest.v1+json" if manifest else "application/octet-stream")
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data or b"")

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.go.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(timeout=10)
