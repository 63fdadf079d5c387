# SPDX-License-Identifier: Apache-2.0
"""A registry of the tests: the reading half of the OCI distribution protocol in memory, on loopback, with a place where a test
puts its fault. Also a forward proxy, and images made of nothing but bytes."""
import base64
import gzip
import hashlib
import http.server
import io
import json
import platform
import tarfile
import threading
import urllib.request
from collections import namedtuple

OCI = "application/vnd.oci.image."
MANIFEST, INDEX, CONFIG = OCI + "manifest.v1+json", OCI + "index.v1+json", OCI + "config.v1+json"

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

Request = namedtuple("Request", "method path headers")


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def layer(files, pack=gzip.compress, media_type="layer.v1.tar+gzip"):
    """(blob, diff id, descriptor)"""
    tar = tar_of(files)
    blob = pack(tar)
    return blob, digest(tar), {"mediaType": OCI + media_type, "digest": digest(blob), "size": len(blob)}


def noise(size, seed=b"x"):
    """Bytes that no packing makes smaller."""
    return hashlib.shake_256(seed).digest(size)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *args):
        pass

    def send(self, status, data=b"", **headers):
        self.send_response(status)
        headers.setdefault("Content_Length", len(data))
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_ranged(self, data, **headers):
        start = 0
        if self.headers.get("Range"):
            start = int(self.headers["Range"].split("=")[1].rstrip("-"))
            headers["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.send(206 if start else 200, data[start:], **headers)

    def fail(self, status, code="", **headers):
        self.send(status, json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode(), **headers)

    def cut(self):
        """Ends the connection, whatever was promised."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)

    def do_GET(self):
        registry = self.server.registry
        with registry.lock:
            registry.log.append(Request(self.command, self.path, dict(self.headers)))
        try:
            if not any(fault(self) for fault in registry.faults):
                registry.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_HEAD = do_POST = do_PUT = do_GET


class Server:
    """An HTTP server in threads of this process."""

    def __init__(self, handler=Handler, context=None):
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.http.registry = self
        self.over = threading.Event()  # for handlers that keep a client waiting
        self.log, self.lock = [], threading.Lock()
        if context:
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        self.host = f"127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.over.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


class Registry(Server):
    """faults: functions of the handler that answer themselves (True) or leave it to the registry (False)."""

    def __init__(self, **kw):
        self.blobs, self.manifests, self.faults = {}, {}, []
        super().__init__(**kw)

    def answer(self, h):
        parts = h.path.split("?")[0].split("/")
        if h.path == "/v2/":
            return h.send(200, b"{}")
        if parts[-2] == "blobs" and parts[-1] in self.blobs:
            return h.send_ranged(self.blobs[parts[-1]])
        if parts[-2] == "manifests" and ("/".join(parts[2:-2]), parts[-1]) in self.manifests:
            media_type, data = self.manifests["/".join(parts[2:-2]), parts[-1]]
            return h.send(200, data, Content_Type=media_type, Docker_Content_Digest=digest(data))
        return h.fail(404, "NOT_FOUND")

    def put(self, name, tag, document, media_type=MANIFEST):
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.manifests[name, tag] = self.manifests[name, digest(data)] = media_type, data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def add(self, name, layers, tag="latest", architecture=ARCH, config=None):
        """An image of layers as layer() gives them: the descriptor of its manifest."""
        for blob, _, descriptor in layers:
            self.blobs[descriptor["digest"]] = blob
        data = json.dumps({"os": "linux", "architecture": architecture, "config": config or {},
                           "rootfs": {"type": "layers", "diff_ids": [diff for _, diff, _ in layers]}}).encode()
        self.blobs[digest(data)] = data
        return self.put(name, tag, {
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": [d for _, _, d in layers],
            "config": {"mediaType": CONFIG, "digest": digest(data), "size": len(data)}})

    def requests(self, what):
        with self.lock:
            return [r for r in self.log if what in r.path]


class ProxyHandler(Handler):
    def do_GET(self):
        proxy = self.server.registry
        with proxy.lock:
            proxy.log.append(Request(self.command, self.path, dict(self.headers)))
        if self.headers.get("Proxy-Authorization") != "Basic " + base64.b64encode(b"user:pass word").decode():
            return self.send(407, Proxy_Authenticate='Basic realm="x"')
        path = "/" + self.path.split("/", 3)[3]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{proxy.target}{path}", timeout=20) as answer:
                return self.send(answer.status, answer.read())
        except urllib.error.HTTPError as e:
            return self.send(e.code)


class Proxy(Server):
    def __init__(self, target):
        self.target = target
        super().__init__(handler=ProxyHandler)
