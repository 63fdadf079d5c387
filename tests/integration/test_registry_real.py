# SPDX-License-Identifier: Apache-2.0
"""Debian's docker-registry with TLS of an own authority: Basic authentication, a token server of the tests, and push, pull and
other people's tools on both sides. Images are made by umoci and skopeo."""
import base64
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.parse

import pytest

from conftest import IMAGE, wait_until
from fakeregistry import Handler, Registry, Server, layer, noise
from test_oci_trees import equal
from test_registry_pull import SECRET, Home

TOKEN_NAME = "tests"


@pytest.fixture(scope="module", autouse=True)
def programs():
    for program in ("docker-registry", "openssl", "skopeo", "umoci", "unsquashfs"):
        if not shutil.which(program):
            pytest.skip(f"{program} is missing")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """A folder with ca.pem, and cert.pem and key.pem for loopback."""
    path = tmp_path_factory.mktemp("authority")

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=path, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=tests")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "csr.pem", "-subj", "/CN=localhost")
    (path / "ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    openssl("x509", "-req", "-in", "csr.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "cert.pem",
            "-days", "2", "-extfile", "ext")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Docker:
    """docker-registry, with the access log that it writes."""

    def __init__(self, path, authority, auth):
        self.host = f"127.0.0.1:{free_port()}"
        self.path = path
        config = {"version": 0.1, "log": {"level": "info", "fields": {}}, "auth": auth,
                  "storage": {"filesystem": {"rootdirectory": str(path / "data")}},
                  "http": {"addr": self.host, "secret": "x", "tls": {"certificate": f"{authority}/cert.pem",
                                                                     "key": f"{authority}/key.pem"}}}
        (path / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        self.log = open(path / "log", "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", path / "config.yml"], stdout=self.log, stderr=self.log)
        port = int(self.host.split(":")[1])

        def answers():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0

        wait_until(answers, what="docker-registry")

    def requests(self, what):
        return [line for line in (self.path / "log").read_text(errors="replace").splitlines() if what in line]

    def close(self):
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


@pytest.fixture(scope="module")
def registry(tmp_path_factory, authority):
    crypt = pytest.importorskip("crypt")
    path = tmp_path_factory.mktemp("registry")
    (path / "users").write_text("me:" + crypt.crypt(SECRET, "$2y$05$abcdefghijklmnopqrstuu") + "\n")
    made = Docker(path, authority, {"htpasswd": {"realm": "tests", "path": str(path / "users")}})
    yield made
    made.close()


@pytest.fixture
def cli(tmp_path, registry, authority):
    made = Home(tmp_path)
    made.settings(registries={registry.host: {"ca": f"{authority}/ca.pem"}})
    return made


@pytest.fixture
def logged_in(cli, registry):
    cli.ok("login", "-u", "me", "--password-stdin", registry.host, input=SECRET.encode())
    return cli


def skopeo(cli, authority, *args):
    certs = cli.path / "certs"
    certs.mkdir(exist_ok=True)
    shutil.copy(authority / "ca.pem", certs / "ca.crt")
    argv = ["skopeo", "--insecure-policy", *args]
    at = 3 if args[0] in ("copy", "inspect") else len(argv)
    option = {"copy": ["--dest-cert-dir", str(certs), "--src-cert-dir", str(certs)], "inspect": ["--cert-dir", str(certs)]}
    argv[at:at] = option[args[0]]
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=cli.env).stdout


def umoci_image(path, steps):
    """An OCI layout made by umoci: each step is a function that changes the tree."""
    subprocess.run(["umoci", "init", "--layout", path], check=True)
    subprocess.run(["umoci", "new", "--image", f"{path}:latest"], check=True)
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    for i, step in enumerate(steps):
        bundle = path.parent / f"bundle{i}"
        subprocess.run(["umoci", "unpack", *rootless, "--image", f"{path}:latest", bundle], check=True, capture_output=True)
        step(bundle / "rootfs")
        subprocess.run(["umoci", "repack", "--image", f"{path}:latest", bundle], check=True, capture_output=True)


def first_step(root):
    (root / "bin").mkdir()
    (root / "bin/tool").write_bytes(noise(200000))
    (root / "gone").mkdir()
    (root / "gone/file").write_text("x")
    os.symlink("tool", root / "bin/link")


def second_step(root):
    shutil.rmtree(root / "gone")
    os.link(root / "bin/tool", root / "bin/hard")
    os.chmod(root / "bin/tool", 0o4755)


def test_an_image_of_other_tools_goes_there_and_back(logged_in, registry, authority, tmp_path):
    umoci_image(tmp_path / "layout", [first_step, second_step])
    logged_in.ok("image", "load", tmp_path / "layout", "--name", f"{registry.host}/a/tool:1")
    digest = logged_in.json("image", "ls", "--json")[0]["digest"]
    assert logged_in.ok("push", "-q", f"{registry.host}/a/tool:1").strip() == digest
    assert json.loads(skopeo(logged_in, authority, "inspect", f"docker://{registry.host}/a/tool:1"))["Digest"] == digest
    skopeo(logged_in, authority, "copy", f"docker://{registry.host}/a/tool:1", f"oci:{tmp_path}/copied:latest")
    (tmp_path / "other").mkdir()
    other = Home(tmp_path / "other")
    other.settings(registries={registry.host: {"ca": f"{authority}/ca.pem"}})
    shutil.copytree(logged_in.path / ".docker", other.path / ".docker")
    assert other.ok("pull", "-q", f"{registry.host}/a/tool:1").strip() == digest
    if os.geteuid() == 0:
        root = other.home / "rootfs" / (digest[7:] + ".sqfs")
        subprocess.run(["unsquashfs", "-q", "-n", "-d", tmp_path / "ours", root], check=True, capture_output=True)
        subprocess.run(["umoci", "unpack", "--image", f"{tmp_path}/copied:latest", tmp_path / "theirs"], check=True,
                       capture_output=True)
        equal(tmp_path / "ours", tmp_path / "theirs/rootfs")


def test_what_the_registry_has_is_not_sent_again(logged_in, registry):
    with Registry() as source:
        shared = layer({"a": noise(1000, b"shared")})
        source.add("one", [shared])
        source.add("two", [shared, layer({"b": noise(1000, b"own")})])
        for name in ("one", "two"):
            logged_in.ok("pull", f"{source.host}/{name}")
        logged_in.ok("push", f"{source.host}/one", f"{registry.host}/share/one:1")
        before = len(registry.requests('"PUT'))
        events = [json.loads(line) for line in
                  logged_in.ok("push", "--json", f"{source.host}/two", f"{registry.host}/share/one:2").splitlines()]
    ends = {(e["event"], e["state"]) for e in events if e.get("state") in ("done", "present")}
    assert ends == {("layer", "present"), ("layer", "done"), ("config", "done"), ("manifest", "done")}
    wait_until(lambda: len(registry.requests('"PUT')) - before == 3, what="the registry's log")


def test_a_layer_is_mounted_from_another_repository(logged_in, registry):
    with Registry() as source:
        source.add("m", [layer({"a": noise(1000, b"mounted")})])
        logged_in.ok("pull", f"{source.host}/m")
        name = f"{source.host}/m"
        logged_in.ok("push", name, f"{registry.host}/mount/one:1")
        logged_in.ok("image", "tag", name, f"{registry.host}/mount/one:1")
        logged_in.ok("push", name, f"{registry.host}/mount/two:1")
    assert wait_until(lambda: registry.requests("mount=sha256"), what="the registry's log")
    assert not registry.requests("PUT /v2/mount/two/blobs")


def test_credentials_are_needed_and_never_shown(cli, registry):
    with Registry() as source:
        source.add("s", [layer({"a": b"1"})])
        cli.ok("pull", f"{source.host}/s")
        done = cli.run("--debug", "push", f"{source.host}/s", f"{registry.host}/s:1")
        assert done.returncode == 125 and f"boxlite login {registry.host}" in done.stderr
        assert "other credentials" in cli.fails("login", "-u", "me", "--password-stdin", registry.host, input=b"n0pe")
        cli.ok("login", "-u", "me", "--password-stdin", registry.host, input=SECRET.encode())
        done = cli.run("--debug", "push", f"{source.host}/s", f"{registry.host}/s:1")
    secret = base64.b64encode(b"me:" + SECRET.encode()).decode()
    assert done.returncode == 0 and "registry: PUT" in done.stderr
    assert SECRET not in done.stderr and secret not in done.stderr


def test_an_authority_must_be_known(logged_in, registry, authority):
    logged_in.settings()
    text = logged_in.fails("pull", f"{registry.host}/a/tool:1")
    assert "certificate" in text and "registries.json" in text
    assert "does not have it" in logged_in.fails("pull", "--ca-file", authority / "ca.pem", f"{registry.host}/none:1")
    assert "ca.pem" in logged_in.fails("pull", "--ca-file", "/nonexistent/ca.pem", f"{registry.host}/none:1")
    assert "HTTP 400" in logged_in.fails("pull", "--plain-http", f"{registry.host}/none:1")


def test_no_redirect_from_https_to_http(tmp_path, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    cli = Home(tmp_path)
    with Registry() as plain, Registry(context=context) as secure:
        plain.add("x", [layer({"a": b"1"})])
        cli.settings(registries={secure.host: {"ca": f"{authority}/ca.pem"}})
        secure.faults.append(lambda h: h.send(307, Location=f"http://{plain.host}{h.path}") or True)
        assert "from https to http" in cli.fails("pull", f"{secure.host}/x")
        secure.faults[:] = [lambda h: h.fail(401, WWW_Authenticate=f'Bearer realm="http://{plain.host}/token"') or True]
        assert "without TLS" in cli.fails("pull", f"{secure.host}/x")
        assert plain.log == []


# ---- Tokens that docker-registry checks


def encoded(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=")


class TokenHandler(Handler):
    """Gives tokens to one user, for whatever is asked for."""

    def do_GET(self):
        server = self.server.registry
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        server.log.append((self.path, self.headers.get("Authorization")))
        if self.headers.get("Authorization") != "Basic " + base64.b64encode(b"me:" + SECRET.encode()).decode():
            return self.fail(401)
        access = [{"type": kind, "name": name, "actions": actions.split(",")}
                  for kind, name, actions in (s.split(":") for s in query.get("scope", []))]
        now = int(time.time())
        der = subprocess.run(["openssl", "x509", "-in", server.authority / "cert.pem", "-outform", "DER"], check=True,
                             capture_output=True).stdout
        head = encoded({"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]})
        body = encoded({"iss": TOKEN_NAME, "sub": "me", "aud": TOKEN_NAME, "exp": now + 60, "nbf": now - 60, "iat": now,
                        "jti": str(len(server.log)), "access": access})
        sign = subprocess.run(["openssl", "dgst", "-sha256", "-sign", server.authority / "key.pem"], check=True,
                              input=head + b"." + body, capture_output=True).stdout
        return self.send(200, json.dumps({"access_token": b".".join([head, body, encoded(sign)]).decode()}).encode())


def test_tokens_for_push_and_pull(tmp_path, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    (tmp_path / "registry").mkdir()
    cli = Home(tmp_path)
    with Server(handler=TokenHandler, context=context) as tokens, Registry() as source:
        tokens.authority = authority
        registry = Docker(tmp_path / "registry", authority, {"token": {
            "realm": f"https://{tokens.host}/token", "service": TOKEN_NAME, "issuer": TOKEN_NAME,
            "rootcertbundle": f"{authority}/ca.pem"}})
        try:
            cli.settings(registries={registry.host: {"ca": f"{authority}/ca.pem"}})
            source.add("t", [layer({"a": noise(1000)}), layer({"b": b"2"})])
            cli.ok("pull", f"{source.host}/t")
            assert "refused" in cli.fails("login", "-u", "me", "--password-stdin", registry.host, input=b"n0pe")
            cli.ok("login", "-u", "me", "--password-stdin", registry.host, input=SECRET.encode())
            digest = cli.ok("push", "-q", f"{source.host}/t", f"{registry.host}/ns/t:1").strip()
            assert any("scope=repository%3ans%2ft%3a" in path.lower() and "push" in path for path, _ in tokens.log)
            cli.ok("image", "rm", f"{source.host}/t")
            assert cli.ok("pull", "-q", f"{registry.host}/ns/t:1").strip() == digest
        finally:
            registry.close()


@pytest.mark.vm
def test_a_pulled_image_runs(own, authority, tmp_path):
    """From one home to the registry, and from there into a box of another name."""
    (tmp_path / "registry").mkdir()
    registry = Docker(tmp_path / "registry", authority, {})
    env = {"HOME": str(tmp_path), "BOXLITE_REGISTRIES": str(tmp_path / "registries.json")}
    (tmp_path / "registries.json").write_text(json.dumps({"registries": {registry.host: {"ca": f"{authority}/ca.pem"}}}))
    try:
        own.ok("push", IMAGE, f"{registry.host}/base:1", env=env)
        own.ok("image", "rm", IMAGE)
        assert own.ok("run", "-q", "--rm", f"{registry.host}/base:1", "cat", "/etc/hostname", env=env, timeout=300)
    finally:
        registry.close()
