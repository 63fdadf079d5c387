# SPDX-License-Identifier: Apache-2.0
"""A registry that is broken or hostile: each fault ends in a bounded time, with a line that says what was wrong, and leaves
nothing in the home that looks like an image. What another attempt can mend is mended."""
import json
import os
import time

import pytest

from fakeregistry import MANIFEST, Registry, Server, Handler, digest, layer, noise
from test_registry_pull import Home, basic, names, SECRET

BOUND = 25  # seconds, on a loaded machine; the time-outs below are one or two


@pytest.fixture
def cli(tmp_path):
    made = Home(tmp_path)
    made.settings(connect_timeout=2, stall_timeout=1, retries=1)
    return made


@pytest.fixture
def registry():
    with Registry() as r:
        yield r


@pytest.fixture
def image(registry):
    """Descriptor of the one big layer of "x"."""
    made = layer({"big": noise(600000)})
    registry.add("x", [made])
    return made[2]


def fails(cli, registry, *args):
    start = time.monotonic()
    text = cli.fails("pull", *(args or (f"{registry.host}/x",)))
    assert time.monotonic() - start < BOUND
    assert names(cli) == set()
    for blob in cli.blobs():
        assert digest((cli.home / "images/blobs/sha256" / blob[7:]).read_bytes()) == blob
    assert not os.path.exists(cli.home / "tmp") or os.listdir(cli.home / "tmp") == []
    return text


def on_blob(descriptor, answer, times=1000000):
    """A fault at a blob, so many times. answer(handler, data)."""
    left = [times]

    def fault(h):
        if not h.path.endswith(descriptor["digest"]) or left[0] <= 0:
            return False
        left[0] -= 1
        answer(h, h.server.registry.blobs[descriptor["digest"]])
        return True

    return fault


def half(h, data):
    """Promises all and sends half."""
    h.send_response(200)
    h.send_header("Content-Length", str(len(data)))
    h.end_headers()
    h.wfile.write(data[:len(data) // 2])
    h.cut()


# ---- Blobs


def test_other_bytes(cli, registry, image):
    registry.faults.append(on_blob(image, lambda h, data: h.send(200, data[:-1] + bytes([data[-1] ^ 1]))))
    assert "other bytes than the digest says" in fails(cli, registry)
    assert cli.partial() == []


@pytest.mark.parametrize("change", [lambda d: d + b"x", lambda d: d[:-1]])
def test_other_length(cli, registry, image, change):
    registry.faults.append(on_blob(image, lambda h, data: h.send(200, change(data))))
    assert "the manifest says" in fails(cli, registry)
    assert cli.partial() == []


def test_endless_blob_without_a_length(cli, registry, image):
    def endless(h, data):
        h.send_response(200)
        h.send_header("Connection", "close")
        h.end_headers()
        h.close_connection = True
        while not h.server.registry.over.is_set():
            h.wfile.write(bytes(65536))

    registry.faults.append(on_blob(image, endless))
    assert "longer than the manifest says" in fails(cli, registry)


def test_a_cut_is_mended_by_asking_for_the_rest(cli, registry, image):
    registry.faults.append(on_blob(image, half, times=1))
    cli.ok("pull", f"{registry.host}/x")
    assert [r.headers.get("Range") for r in registry.requests(image["digest"])] == [None, f"bytes={image['size'] // 2}-"]


def test_a_cut_is_mended_also_by_a_registry_that_cannot_begin_in_the_middle(cli, registry, image):
    registry.faults.append(on_blob(image, half, times=1))
    registry.faults.append(on_blob(image, lambda h, data: h.send(200, data)))
    cli.ok("pull", f"{registry.host}/x")
    assert len(registry.requests(image["digest"])) == 2


@pytest.mark.parametrize("answer", [
    lambda h, data: h.send(206, data[7:], Content_Range=f"bytes 7-{len(data) - 1}/{len(data)}"),
    lambda h, data: h.send(206, data[7:]),
    lambda h, data: h.fail(416)])
def test_other_ranges_than_were_asked_for(cli, registry, image, answer):
    registry.faults.append(on_blob(image, half, times=1))
    registry.faults.append(on_blob(image, answer, times=1))
    cli.settings(connect_timeout=2, stall_timeout=1, retries=3)
    cli.ok("pull", f"{registry.host}/x")


def test_what_always_cuts_is_given_up_and_gone_on_with_later(cli, registry, image):
    registry.faults.append(on_blob(image, lambda h, data: half(h, data) if "Range" not in h.headers else h.cut()))
    fails(cli, registry)
    had = cli.partial()[0].stat().st_size
    assert had == image["size"] // 2
    registry.faults.clear()
    registry.log.clear()
    cli.ok("pull", f"{registry.host}/x")
    assert [r.headers["Range"] for r in registry.requests(image["digest"])] == [f"bytes={had}-"]
    assert cli.partial() == []


def test_a_left_over_that_is_wrong_is_fetched_anew(cli, registry, image):
    (cli.home / "images/partial").mkdir(parents=True)
    (cli.home / "images/partial" / image["digest"][7:]).write_bytes(b"wrong" * 1000)
    cli.ok("pull", f"{registry.host}/x")
    assert [r.headers.get("Range") for r in registry.requests(image["digest"])] == ["bytes=5000-", None]


def test_a_stall(cli, registry, image):
    def stall(h, data):
        h.send_response(200)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        h.wfile.write(data[:1000])
        h.wfile.flush()
        h.server.registry.over.wait(60)
        h.cut()

    registry.faults.append(on_blob(image, stall))
    assert "too slow" in fails(cli, registry)
    assert 2 <= len(registry.requests(image["digest"])) <= 3


# ---- Statuses


def status(code, **headers):
    return lambda h: h.fail(code, "SOME_CODE", **headers) or True


@pytest.mark.parametrize("code, what, requests", [
    (400, "HTTP 400", 1), (401, "other credentials", 1), (403, "denies this", 1), (404, "does not have it", 1),
    (429, "too many requests", 2), (500, "the registry failed", 2), (503, "the registry failed", 2),
    (301, "HTTP 301", 1), (204, "manifest", 1)])
def test_statuses(cli, registry, code, what, requests):
    registry.faults.append(status(code))
    text = fails(cli, registry)
    assert what in text and (code in (204,) or "some_code" in text or code == 301)
    assert len(registry.log) == requests


def test_what_fails_once_is_mended(cli, registry, image):
    failed = set()

    def once(h):
        if h.path in failed:
            return False
        failed.add(h.path)
        return status(503)(h)

    registry.faults.append(once)
    cli.ok("pull", f"{registry.host}/x")


def test_retry_after(cli, registry, image):
    times = []

    def busy(h):
        times.append(time.monotonic())
        return len(times) == 1 and status(429, Retry_After="2")(h)

    registry.faults.append(busy)
    cli.ok("pull", f"{registry.host}/x")
    assert times[1] - times[0] >= 2
    registry.faults[:] = [status(429, Retry_After="7200")]
    start = time.monotonic()
    assert "7200 s" in cli.fails("pull", f"{registry.host}/x")
    assert time.monotonic() - start < 10


def test_an_answer_to_401_that_is_refused_too(cli, registry):
    registry.faults.append(lambda h: h.fail(401, WWW_Authenticate='Basic realm="r"') or True)
    cli.docker_config(auths={registry.host: {"auth": basic().split()[1]}})
    text = fails(cli, registry)
    assert "other credentials" in text and SECRET not in text
    assert len(registry.log) == 2


@pytest.mark.parametrize("challenge, what", [
    ("Negotiate", "not known here"), ('Bearer realm="gopher://x/"', "none of http or https"),
    ('Bearer realm="http://u:p@127.0.0.1/"', "user in it"), ('Bearer realm="', "not known here"), ("", "other credentials")])
def test_challenges_that_make_no_sense(cli, registry, challenge, what):
    registry.faults.append(lambda h: h.fail(401, **({"WWW_Authenticate": challenge} if challenge else {})) or True)
    assert what in fails(cli, registry)


@pytest.mark.parametrize("answer, what", [
    (lambda h: h.send(200, b"{}"), "gave no token"), (lambda h: h.send(200, b"x" * 10), "token"),
    (lambda h: h.send(200, b'{"token": "a b"}'), "gave no token"), (lambda h: h.send(403), "refused anonymous access"),
    (lambda h: h.send(200, b"x" * 1000000), "longer than"), (lambda h: h.send(302, Location="/other"), "HTTP 302")])
def test_token_servers_that_make_no_sense(cli, registry, answer, what):
    registry.faults.append(lambda h: h.path.startswith("/token") and (answer(h) or True))
    registry.faults.append(lambda h: h.fail(401, WWW_Authenticate=f'Bearer realm="http://{registry.host}/token"') or True)
    assert what in fails(cli, registry)


# ---- Redirects


def test_redirects_without_end(cli, registry):
    registry.faults.append(lambda h: h.send(302, Location=h.path + "x") or True)
    assert "more than 5 redirects" in fails(cli, registry)
    assert len(registry.log) == 6


@pytest.mark.parametrize("where", ["file:///etc/passwd", "ftp://127.0.0.1/x", "http://u:p@127.0.0.1/x", "http://[", ""])
def test_redirects_to_nowhere(cli, registry, where):
    registry.faults.append(lambda h: h.send(302, Location=where) or True)
    fails(cli, registry)
    assert len(registry.log) <= 6


# ---- Answers


def test_a_manifest_that_is_too_long(cli, registry):
    registry.put("x", "latest", b" " * (5 << 20))
    assert "longer than 4096 KiB" in fails(cli, registry)


@pytest.mark.parametrize("document", [
    b"", b"{", b"[]", b"null", b'{"schemaVersion": 2}', b'{"schemaVersion": 2, "config": {}, "layers": []}', b"[" * 100000,
    b'{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":[],'
    b'"config":{"mediaType":"x","digest":"sha256:../../../../etc/passwd","size":1}}',
    b'{"schemaVersion":2,"mediaType":"text/html","layers":[]}'])
def test_manifests_that_are_none(cli, registry, document):
    registry.put("x", "latest", document)
    assert "manifest" in fails(cli, registry) or "document" in fails(cli, registry)


def test_a_manifest_that_is_not_the_one_asked_for(cli, registry, image):
    other = registry.put("x", "other", {"schemaVersion": 2})
    registry.manifests["x", other["digest"]] = registry.manifests["x", "latest"]
    assert "another manifest than" in fails(cli, registry, f"{registry.host}/x@{other['digest']}")
    registry.faults.append(lambda h: "/manifests/" in h.path and (
        h.send(200, registry.manifests["x", "latest"][1], Docker_Content_Digest=other["digest"]) or True))
    assert "not the one that the registry says" in fails(cli, registry)


def test_headers_that_are_too_many(cli, registry):
    def flood(h):
        h.send_response(200)
        for i in range(4000):
            h.send_header(f"X-{i}", "y" * 100)
        h.end_headers()
        return True

    registry.faults.append(flood)
    assert "headers" in fails(cli, registry)


class Drip(Handler):
    """An answer that comes a byte at a time and never ends."""

    def do_GET(self):
        self.server.registry.log.append(self.path)
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-")
            while not self.server.registry.over.wait(0.2):
                self.wfile.write(b"x")
                self.wfile.flush()
        except OSError:
            pass
        self.close_connection = True


def test_an_answer_that_comes_byte_by_byte(cli):
    with Server(handler=Drip) as server:
        assert "too slow" in fails(cli, server)


class Silent(Handler):
    def handle(self):
        self.server.registry.over.wait(60)


def test_no_answer_at_all(cli):
    with Server(handler=Silent) as server:
        fails(cli, server)


class Garbage(Handler):
    def handle(self):
        self.request.recv(1000)
        self.request.sendall(bytes(range(256)) * 100)


def test_something_that_is_no_registry(cli):
    with Server(handler=Garbage) as server:
        fails(cli, server)


def test_nobody_there(cli):
    with Registry() as gone:
        pass
    start = time.monotonic()
    text = cli.fails("pull", f"{gone.host}/x")
    assert "Failed to connect" in text and "hint: " in text and time.monotonic() - start < 10


def test_a_config_that_lies_about_its_layers(cli, registry):
    registry.add("x", [layer({"a": b"1"}), layer({"b": b"2"})])
    document = registry.manifests["x", "latest"][1]
    changed = json.loads(document)
    changed["layers"].reverse()
    registry.put("x", "latest", changed, MANIFEST)
    assert "not what the image's config says" in fails(cli, registry)
    changed["layers"].pop()
    registry.put("x", "latest", changed, MANIFEST)
    assert "1 layers but 2 diff_ids" in fails(cli, registry)
    assert cli.blobs() == set()  # what would only be wrong again is not kept
