# SPDX-License-Identifier: Apache-2.0
"""Pulling from a registry that is well: what is fetched and what is not, choice of platform, names, credentials, mirrors,
proxies, several processes at once, and what a pull that is ended leaves behind. The registry is fakeregistry.py."""
import base64
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import urllib.parse

import pytest

from conftest import Cli, wait_until
from fakeregistry import ARCH, INDEX, Proxy, Registry, digest, layer, noise

SECRET = "s3cr3t-of-the-test"


class Home(Cli):
    """The command line on an empty home, with the user's own home beside it."""

    def __init__(self, path):
        super().__init__(path / "home", env={"HOME": str(path), "NO_PROXY": "", "no_proxy": ""})
        for name in ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "HTTPS_PROXY",
                     "https_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
            self.env.pop(name, None)
        self.path = path
        self.home.mkdir(mode=0o700)

    def fails(self, *args, status=125, **kw):
        """The message and the hint, without the lines of progress before them."""
        done = self.run(*args, **kw)
        assert done.returncode == status, f"{args}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
        at = done.stderr.index("boxlite: ")
        assert done.stderr.count("\n", at) <= 2
        return done.stderr[at:]

    def settings(self, **settings):
        (self.home / "registries.json").write_text(json.dumps(settings))

    def docker_config(self, **config):
        (self.path / ".docker").mkdir(exist_ok=True)
        (self.path / ".docker/config.json").write_text(json.dumps(config))

    def blobs(self):
        return {"sha256:" + p.name for p in (self.home / "images/blobs/sha256").glob("*")}

    def partial(self):
        return sorted((self.home / "images/partial").glob("*"))


@pytest.fixture
def cli(tmp_path):
    return Home(tmp_path)


@pytest.fixture
def registry():
    with Registry() as r:
        yield r


def names(cli):
    return {(i["name"], i["digest"]) for i in cli.json("image", "ls", "--json")}


# ---- What comes


def test_an_image_comes_whole_and_what_is_here_is_not_fetched_again(cli, registry):
    shared, own = layer({"a": noise(300000)}), layer({"b": b"b"})
    first = registry.add("one/image", [shared], config={"Env": ["A=1"], "Labels": {"x": "y"}})
    second = registry.add("two", [shared, own])
    assert cli.ok("pull", f"{registry.host}/one/image").split() == [f"{registry.host}/one/image:latest", first["digest"]]
    assert first["digest"] in cli.blobs() and shared[2]["digest"] in cli.blobs()
    registry.log.clear()
    assert cli.ok("pull", "-q", f"{registry.host}/two").split() == [second["digest"]]
    assert {r.path.split("/")[-1] for r in registry.requests("/blobs/")} == {
        own[2]["digest"], json.loads(registry.manifests["two", "latest"][1])["config"]["digest"]}
    registry.log.clear()
    cli.ok("pull", f"{registry.host}/two")
    assert [r.path for r in registry.log] == ["/v2/two/manifests/latest"]
    assert names(cli) == {(f"{registry.host}/one/image:latest", first["digest"]), (f"{registry.host}/two:latest", second["digest"])}
    assert not cli.partial()


@pytest.mark.parametrize("kind", ["zstd", "plain", "docker"])
def test_layers_of_every_packing(cli, registry, kind):
    if kind == "zstd":
        made = layer({"a": b"z" * 5000}, lambda t: subprocess.run(["zstd", "-q"], input=t, capture_output=True, check=True).stdout,
                     "layer.v1.tar+zstd")
    elif kind == "plain":
        made = layer({"a": b"p"}, bytes, "layer.v1.tar")
    else:
        made = layer({"a": b"d"})
        made[2]["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip"
    registry.add("x", [made])
    cli.ok("pull", f"{registry.host}/x")


def test_equal_layers_in_one_image_are_fetched_once(cli, registry):
    one = layer({"a": noise(1000)})
    registry.add("x", [one, one, one])
    cli.ok("pull", f"{registry.host}/x")
    assert len(registry.requests(one[2]["digest"])) == 1


def test_events_for_programs(cli, registry):
    made = registry.add("x", [layer({"a": b"1"}), layer({"b": b"2"})])
    events = [json.loads(line) for line in cli.ok("pull", "--json", f"{registry.host}/x").splitlines()]
    assert events[-1] == {"event": "end", "name": f"{registry.host}/x:latest", "digest": made["digest"]}
    ends = [e["event"] for e in events[:-1] if e["state"] == "done"]
    assert sorted(ends) == ["config", "layer", "layer", "manifest", "root"]
    assert all(e["done"] == e["total"] for e in events[:-1] if e["state"] == "done")
    done = cli.run("pull", "--json", f"{registry.host}/none")
    assert done.returncode == 125 and json.loads(done.stdout)["code"] == "NOT_FOUND"
    assert "exclude each other" in cli.fails("pull", "-q", "--json", "x")
    assert cli.run("pull", "-q", f"{registry.host}/x").stderr == ""


def test_an_absent_image_is_fetched_for_a_box_as_asked(cli, registry, home):
    made = registry.add("x", [layer({"bin/sh": b"#!"})], config={"Cmd": ["sh"]})
    shutil.copytree(home / "kernels", cli.home / "kernels")
    name = f"{registry.host}/x"
    assert "no image" in cli.fails("create", "--pull", "never", name)
    assert registry.log == []
    box = cli.ok("create", "-q", name).strip()
    assert cli.json("inspect", box)[0]["image"] == name
    count = len(registry.log)
    cli.ok("create", name)
    assert len(registry.log) == count
    cli.ok("create", "--pull", "always", name)
    assert registry.log[-1].path == "/v2/x/manifests/latest" and len(registry.log) == count + 1
    assert made["digest"] in cli.blobs()


def test_a_terminal_sees_bars(cli, registry):
    registry.add("x", [layer({"a": noise(3000000)}), layer({"b": noise(1000)})])
    leader, follower = pty.openpty()
    p = cli.popen("pull", f"{registry.host}/x", stdout=follower, stderr=follower, env={"TERM": "xterm"})
    os.close(follower)
    seen = b""
    try:
        while part := os.read(leader, 65536):
            seen += part
    except OSError:  # the other side has gone
        pass
    os.close(leader)
    assert p.wait(60) == 0
    text = seen.decode()
    assert re.search(r"layer [0-9a-f]{12} +\[=* *\] .* of ", text) and "2 of 2 layers" in text
    last = text.split("\x1b[J")[-1]  # the block is erased before the end is told
    assert re.fullmatch(re.escape(registry.host) + r"/x:latest sha256:[0-9a-f]{64}\r\n", last)
    assert len(text) < 100000


# ---- Which one


def index_of(registry, name, entries, tag="latest"):
    return registry.put(name, tag, {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}, INDEX)


def platform(descriptor, os_name, architecture, variant=None):
    made = {"os": os_name, "architecture": architecture}
    return {**descriptor, "platform": {**made, "variant": variant} if variant else made}


def test_the_platform_of_this_machine_is_chosen(cli, registry):
    other = registry.add("x", [layer({"a": b"other"})], tag="other", architecture="s390x")
    mine = registry.add("x", [layer({"a": b"mine"})], tag="mine")
    fast = registry.add("x", [layer({"a": b"fast"})], tag="fast")
    attestation = registry.put("x", "attestation", {"schemaVersion": 2, "config": {}, "layers": []})
    index = index_of(registry, "x", [platform(attestation, "unknown", "unknown"), platform(other, "linux", "s390x"),
                                     platform(mine, "linux", ARCH), platform(fast, "linux", ARCH, "v9")])
    assert cli.ok("pull", "-q", f"{registry.host}/x").strip() == mine["digest"]
    assert cli.ok("pull", "-q", "--platform", f"linux/{ARCH}/v9", f"{registry.host}/x").strip() == fast["digest"]
    assert cli.ok("pull", "-q", "--platform", f"linux/{ARCH}/v1", f"{registry.host}/x").strip() == mine["digest"]
    assert cli.ok("pull", "-q", f"{registry.host}/x@{index['digest']}").strip() == mine["digest"]
    for by in (index["digest"], mine["digest"]):
        assert cli.json("image", "inspect", f"{registry.host}/x@{by}")[0]["digest"] == mine["digest"]
    assert "boxes of this host run linux" in cli.fails("pull", "--platform", "linux/s390x", f"{registry.host}/x")
    assert not any(other["digest"] in r.path for r in registry.log)


def test_an_image_that_does_not_fit_this_machine_is_told_before_anything_is_fetched(cli, registry):
    other = registry.add("x", [layer({"a": b"other"})], architecture="s390x")
    index_of(registry, "list", [platform(other, "linux", "s390x")])
    registry.put("old", "latest", {"schemaVersion": 1, "name": "old"}, "application/vnd.docker.distribution.manifest.v1+json")
    foreign = layer({"a": b"f"})
    foreign[2]["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
    registry.add("foreign", [foreign])
    assert f"not made for linux/{ARCH}, but for linux/s390x" in cli.fails("pull", f"{registry.host}/list")
    assert "linux/s390x" in cli.fails("pull", f"{registry.host}/x")
    assert "push it again with a newer tool" in cli.fails("pull", f"{registry.host}/old")
    assert "foreign layer" in cli.fails("pull", f"{registry.host}/foreign")
    assert not [r for r in registry.requests("/blobs/") if r.path.endswith((foreign[2]["digest"],))]
    assert names(cli) == set() and cli.blobs() == set()


def test_an_image_too_large_for_the_disk_is_told_before_it_is_fetched(cli, registry):
    made = layer({"a": b"x"})
    made[2]["size"] = 900 << 30
    registry.add("x", [made])
    assert "space" in cli.fails("pull", f"{registry.host}/x").lower()
    assert registry.requests(made[2]["digest"]) == []


def test_names_without_a_host_are_searched(cli, registry):
    made = registry.add("tool", [layer({"a": b"1"})])
    with Registry() as empty:
        cli.settings(search=[empty.host, registry.host])
        assert cli.ok("pull", "tool").split() == [f"{registry.host}/tool:latest", made["digest"]]
        assert [r.path for r in empty.log] == ["/v2/tool/manifests/latest"]


def test_settings_that_are_wrong_are_told_with_their_place(cli, registry):
    for settings, what in (({"serach": []}, '"serach" is no setting'), ({"registries": {"a b": {}}}, "a b"),
                           ({"registries": {"a.b": {"ca_file": "x"}}}, "ca_file"), ({"retries": 1000}, "retries"),
                           ({"registries": {"a.b": {"mirrors": ["http://u:p@h/"]}}}, "without a user")):
        cli.settings(**settings)
        assert what in cli.fails("pull", f"{registry.host}/x")
    cli.settings(registries={registry.host: {"blocked": True}})
    assert "blocked" in cli.fails("pull", f"{registry.host}/x")
    assert registry.log == []


# ---- Mirrors and proxies


def test_mirrors_come_first_and_may_fail(cli, registry):
    made = registry.add("x", [layer({"a": b"1"})])
    with Registry() as mirror, Registry() as broken:
        mirror.faults.append(lambda h: h.fail(404) or True)
        broken.faults.append(lambda h: h.fail(403) or True)
        cli.settings(registries={registry.host: {"mirrors": [f"http://{broken.host}", f"http://{mirror.host}/prefix"]}})
        assert cli.ok("pull", "-q", f"{registry.host}/x").strip() == made["digest"]
        assert mirror.log[0].path == "/v2/prefix/x/manifests/latest" and len(broken.log) == 1
        count = len(registry.log)
        mirror.faults.clear()
        new = mirror.add("prefix/x", [layer({"a": b"2"})])
        assert cli.ok("pull", "-q", f"{registry.host}/x").strip() == new["digest"]
        assert len(registry.log) == count
        assert names(cli) >= {(f"{registry.host}/x:latest", new["digest"])}


def test_what_a_mirror_lacks_comes_from_the_registry(cli, registry):
    kept, lost = layer({"a": noise(1000)}), layer({"b": noise(2000)})
    made = registry.add("x", [kept, lost])
    with Registry() as mirror:
        mirror.add("x", [kept, lost])
        del mirror.blobs[lost[2]["digest"]]
        cli.settings(registries={registry.host: {"mirrors": [f"http://{mirror.host}"]}})
        assert cli.ok("pull", "-q", f"{registry.host}/x").strip() == made["digest"]
    assert [r.path for r in registry.log] == [f"/v2/x/blobs/{lost[2]['digest']}"]


def test_proxies_with_a_password(cli, registry):
    made = registry.add("x", [layer({"a": noise(1000)})])
    with Proxy(registry.host) as proxy:
        url = f"http://user:pass%20word@{proxy.host}"
        cli.settings(registries={"registry.test:99": {"plain_http": True, "proxy": url}})
        assert cli.ok("pull", "-q", "registry.test:99/x").strip() == made["digest"]
        assert proxy.log[0].path == "http://registry.test:99/v2/x/manifests/latest"
        cli.settings(registries={"registry.test:99": {"plain_http": True}})
        assert cli.ok("pull", "-q", "registry.test:99/x", env={"http_proxy": url}).strip() == made["digest"]
        count = len(proxy.log)
        cli.ok("pull", f"{registry.host}/x", env={"http_proxy": url})  # loopback is never asked of a proxy
        assert len(proxy.log) == count
        cli.settings(registries={"registry.test:99": {"plain_http": True}}, retries=0)
        text = cli.fails("pull", "registry.test:99/y", env={"http_proxy": url, "no_proxy": "registry.test"})
        assert "registry.test" in text and "word" not in text
        assert len(proxy.log) == count


# ---- Credentials


def basic(user=b"me", secret=SECRET.encode()):
    return "Basic " + base64.b64encode(user + b":" + secret).decode()


def want_basic(h):
    if h.headers.get("Authorization") == basic():
        return False
    h.fail(401, "UNAUTHORIZED", WWW_Authenticate='Basic realm="test, \\"quoted\\""')
    return True


def everything_said(cli, *args, **kw):
    done = cli.run("--debug", *args, **kw)
    return done.returncode, done.stdout + done.stderr


def test_credentials_of_docker_and_podman(cli, registry, tmp_path):
    made = registry.add("ns/x", [layer({"a": b"1"})])
    registry.faults.append(want_basic)
    ref, auth = f"{registry.host}/ns/x", basic().split()[1]
    code, text = everything_said(cli, "pull", ref)
    assert code == 125 and f"boxlite login {registry.host}" in text
    cli.docker_config(auths={registry.host: {"auth": auth}})
    code, text = everything_said(cli, "pull", ref)
    assert code == 0 and SECRET not in text and auth not in text
    cli.docker_config(auths={registry.host: {"auth": "bm90OnRoaXM="}})
    code, text = everything_said(cli, "pull", ref)
    assert code == 125 and "other credentials" in text
    podman = tmp_path / "auth.json"
    podman.write_text(json.dumps({"auths": {registry.host: {"auth": "bm90OnRoaXM="}, f"{registry.host}/ns": {"auth": auth}}}))
    assert cli.ok("pull", "-q", ref, env={"REGISTRY_AUTH_FILE": str(podman)}).strip() == made["digest"]
    assert cli.ok("pull", "-q", "--auth-file", podman, ref).strip() == made["digest"]
    podman.write_text('{"auths": {"%s": {"auth": "!!"}}}' % registry.host)
    assert "damaged" in cli.fails("pull", "--auth-file", podman, ref)


def helper(path, name, body):
    program = path / f"docker-credential-{name}"
    program.write_text("#!/bin/sh\n" + body)
    program.chmod(0o755)


def test_credential_helpers(cli, registry, tmp_path):
    made = registry.add("x", [layer({"a": b"1"})])
    registry.faults.append(want_basic)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    helper(tmp_path, "good", f'read server; [ "$1 $server" = "get {registry.host}" ] || exit 1\n'
           f'echo \'{{"ServerURL": "x", "Username": "me", "Secret": "{SECRET}"}}\'\n')
    helper(tmp_path, "none", "echo credentials not found in native keychain; exit 1\n")
    helper(tmp_path, "broken", f"echo {SECRET}; exit 1\n")
    helper(tmp_path, "long", "head -c 1000000 /dev/zero\n")
    cli.docker_config(credsStore="broken", credHelpers={registry.host: "good"})
    assert cli.ok("pull", "-q", f"{registry.host}/x", env=env).strip() == made["digest"]
    cli.docker_config(credsStore="none", auths={registry.host: {"auth": basic().split()[1]}})
    assert cli.ok("pull", "-q", f"{registry.host}/x", env=env).strip() == made["digest"]
    for name in ("broken", "long", "not-there", "../good"):
        cli.docker_config(credsStore=name)
        code, text = everything_said(cli, "pull", f"{registry.host}/x", env=env)
        assert code == 125 and "credential" in text and SECRET not in text


def test_login_and_logout(cli, registry):
    registry.faults.append(want_basic)
    config = cli.path / ".docker/config.json"
    args = ("login", "-u", "me", "--password-stdin", registry.host)
    code, text = everything_said(cli, *args, input=b"an0ther\n")
    assert code == 125 and "an0ther" not in text and not config.exists()
    cli.docker_config(auths={"other.test": {"auth": "bm90OnRoaXM="}}, psFormat="kept")
    assert cli.ok(*args, input=SECRET.encode() + b"\n") == f"logged in to {registry.host}\n"
    kept = json.loads(config.read_text())
    assert kept["auths"][registry.host] == {"auth": basic().split()[1]} and kept["psFormat"] == "kept"
    assert config.stat().st_mode & 0o777 == 0o600
    registry.add("x", [layer({"a": b"1"})])
    cli.ok("pull", f"{registry.host}/x")
    cli.ok("logout", registry.host)
    assert json.loads(config.read_text())["auths"] == {"other.test": {"auth": "bm90OnRoaXM="}}
    assert "not logged in" in cli.fails("logout", registry.host)
    assert "standard input has no secret" in cli.fails(*args)
    assert "no registry" in cli.fails("login", "-u", "me", "--password-stdin", "a b", input=b"x")


def test_login_with_a_helper(cli, registry, tmp_path):
    registry.faults.append(want_basic)
    helper(tmp_path, "store", f'echo "$1 $*" >> {tmp_path}/calls; cat >> {tmp_path}/calls\n')
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    cli.docker_config(credsStore="store")
    cli.ok("login", "-u", "me", "--password-stdin", registry.host, input=SECRET.encode(), env=env)
    cli.ok("logout", registry.host, env=env)
    calls = (tmp_path / "calls").read_text()
    assert calls.startswith("store store\n") and SECRET in calls and "erase erase\n" in calls
    assert SECRET not in (cli.path / ".docker/config.json").read_text()


def token_server(registry, lifetime=1000):
    """A registry that wants tokens, and the server of tokens beside it: each is good for so many requests."""
    state = {"given": 0, "left": 0, "asked": []}

    def fault(h):
        if h.path.startswith("/token"):
            state["asked"].append((h.path, h.headers.get("Authorization")))
            with registry.lock:
                state["given"] += 1
                state["left"] = lifetime
            h.send(200, json.dumps({"token": f"t{state['given']}", "expires_in": 60}).encode())
            return True
        with registry.lock:
            good = h.headers.get("Authorization") == f"Bearer t{state['given']}" and state["left"] > 0
            state["left"] -= good
        if not good:
            h.fail(401, "UNAUTHORIZED", WWW_Authenticate=f'Bearer realm="http://{registry.host}/token",service="s v",'
                   'scope="repository:x:pull repository:y:pull"')
        return not good

    registry.faults.append(fault)
    return state


def test_tokens_anonymous_and_with_a_password(cli, registry):
    registry.add("x", [layer({"a": b"1"})])
    state = token_server(registry)
    cli.ok("pull", f"{registry.host}/x")
    path, authorization = state["asked"][0]
    assert authorization is None
    assert urllib.parse.parse_qs(path.split("?")[1]) == {"service": ["s v"], "scope": ["repository:x:pull", "repository:y:pull"]}
    cli.docker_config(auths={registry.host: {"auth": basic().split()[1]}})
    cli.ok("pull", f"{registry.host}/x")
    path, authorization = state["asked"][1]
    assert "account=me" in path and authorization == basic()


def test_a_token_that_ends_in_mid_pull_is_renewed(cli, registry):
    registry.add("x", [layer({f"f{i}": noise(1000, bytes([i]))}) for i in range(8)])
    state = token_server(registry, lifetime=3)
    cli.ok("pull", f"{registry.host}/x")
    assert 3 <= state["given"] <= 10


def test_credentials_do_not_follow_a_redirect_to_another_host(cli, registry):
    made = layer({"a": noise(5000)})
    registry.add("x", [made])
    registry.faults.append(want_basic)
    cli.docker_config(auths={registry.host: {"auth": basic().split()[1]}})
    with Registry() as storage:
        storage.blobs = registry.blobs
        registry.faults.append(lambda h: "/blobs/" in h.path and (
            h.send(307, Location=f"http://{storage.host}{h.path}?signature={SECRET}") or True))
        code, text = everything_said(cli, "pull", f"{registry.host}/x")
        assert code == 0 and SECRET not in text
        assert len(storage.log) == 2
        assert not [r for r in storage.log if "authorization" in {n.lower() for n in r.headers}]


# ---- Several processes, and ends


def slow(h, event, size=200000):
    """Half of a blob, and the rest when the test says so."""
    data = h.server.registry.blobs[h.path.split("/")[-1]]
    if len(data) < size or h.headers.get("Range"):
        return False
    h.send_response(200)
    h.send_header("Content-Length", len(data))
    h.end_headers()
    h.wfile.write(data[:len(data) // 2])
    h.wfile.flush()
    if not event.wait(30) or h.server.registry.over.is_set():
        h.cut()
        return True
    h.wfile.write(data[len(data) // 2:])
    return True


@pytest.fixture
def held(registry):
    """An image whose second layer stands still in the middle until `held` is set."""
    event = threading.Event()
    registry.add("x", [layer({"a": b"1"}), layer({"big": noise(400000)})])
    registry.faults.append(lambda h: "/blobs/" in h.path and slow(h, event))
    yield event
    event.set()


def half_there(cli):
    try:
        return any(p.stat().st_size >= 150000 for p in cli.partial())
    except FileNotFoundError:  # it got its name in the store
        return False


def test_two_processes_share_the_work(cli, registry, held):
    pulls = [cli.popen("pull", "-q", f"{registry.host}/x", stdout=subprocess.PIPE) for _ in range(2)]
    wait_until(lambda: half_there(cli) and len(registry.requests("/manifests/")) == 2, what="both to be under way")
    held.set()
    for p in pulls:
        assert p.wait(60) == 0
        p.stdout.close()
    blobs = [r.path for r in registry.requests("/blobs/")]
    assert len(blobs) == len(set(blobs)) == 3


def test_interrupting_leaves_nothing(cli, registry, held):
    p = cli.popen("pull", f"{registry.host}/x", stderr=subprocess.DEVNULL)
    wait_until(lambda: half_there(cli), what="half of the layer")
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130
    assert cli.partial() == [] and cli.blobs() == set() and names(cli) == set()
    assert os.listdir(cli.home / "tmp") == [] if (cli.home / "tmp").exists() else True


def test_killing_shows_nothing_half_and_the_next_pull_goes_on(cli, registry, held):
    p = cli.popen("pull", f"{registry.host}/x", stderr=subprocess.DEVNULL)
    wait_until(lambda: half_there(cli), what="half of the layer")
    p.kill()
    p.wait(10)
    for blob in cli.blobs():
        assert digest((cli.home / "images/blobs/sha256" / blob[7:]).read_bytes()) == blob
    assert names(cli) == set()
    had = cli.partial()[0].stat().st_size
    held.set()
    registry.log.clear()
    cli.ok("pull", f"{registry.host}/x")
    assert [r.headers["Range"] for r in registry.log if "Range" in r.headers] == [f"bytes={had}-"]
    assert cli.partial() == []


def test_images_can_be_removed_while_another_comes(cli, registry, held):
    registry.add("y", [layer({"a": b"y"})])
    cli.ok("pull", f"{registry.host}/y")
    p = cli.popen("pull", f"{registry.host}/x", stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_until(lambda: half_there(cli), what="half of the layer")
    cli.ok("image", "rm", f"{registry.host}/y", timeout=20)
    held.set()
    assert p.wait(60) == 0
    cli.ok("image", "verify", f"{registry.host}/x")


def test_old_left_overs_go(cli, registry):
    registry.add("x", [layer({"a": b"1"})])
    cli.ok("pull", f"{registry.host}/x")
    old, new = cli.home / "images/partial" / ("0" * 64), cli.home / "images/partial" / ("1" * 64)
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    cli.ok("image", "ls")
    assert cli.partial() == [new]
