# SPDX-License-Identifier: Apache-2.0
"""Images from registries, for environments; a shim without a VM runs them, so this is quick."""
import pytest

from conftest import BUILD, MCP_SERVER, Cli, wait_until
from mcpclient import Server
from registry import Registry

FAKE = str(BUILD / "tests" / "fakeshim")


@pytest.fixture
def registry():
    r = Registry({"bin/tool": b"#!/bin/sh\n", "etc/name": b"pulled\n"})
    yield r
    r.close()


@pytest.fixture
def start(home):
    servers = []

    def start(*flags, **env):
        s = Server([MCP_SERVER, *flags], {"BOXLITE_HOME": str(home), "BOXLITE_LIBEXEC": FAKE, **env})
        servers.append(s)
        s.initialize()
        return s
    yield start
    for s in servers:
        s.kill()


def forget(home, name):
    Cli(home).run("image", "rm", "-f", name)


def test_an_absent_image_is_pulled_with_progress(home, start, registry):
    name = f"{registry.name}/tools/one:1"
    s = start("--allow-pull", "127.0.0.1:*/tools/*")
    registry.go.clear()
    id = s.start("tools/call", {"name": "create_environment", "arguments": {"image": name, "name": "one"},
                                "_meta": {"progressToken": 7}})
    said = ""
    while "pulling" not in said:
        said = s.line()["params"]["message"]
    assert name in said
    listed = s.call("list_environments")["structuredContent"]["environments"]
    assert [e["state"] for e in listed] == ["pulling its image"]
    registry.go.set()
    message = s.line()
    while "method" in message:
        message = s.line()
    assert message["id"] == id and message["result"]["structuredContent"]["ready"] is True, message
    assert s.call("run_command", command="echo in", environment="one")["structuredContent"]["stdout"] == "in\n"
    asked = len(registry.asked)
    assert s.call("create_environment", image=name, name="two")["structuredContent"]["ready"] is True
    assert len(registry.asked) == asked  # it is here now
    s.kill()
    forget(home, name)


def test_a_long_pull_returns_and_goes_on(home, start, registry):
    name = f"{registry.name}/tools/two:1"
    s = start("--allow-pull", "127.0.0.1:*", "--yield-after", "1")
    registry.go.clear()
    result = s.call("create_environment", image=name, name="late")
    assert not result["isError"] and result["structuredContent"]["ready"] is False
    assert "wait" in result["content"][0]["text"]
    v = s.call("run_command", command="echo waited", environment="late")["structuredContent"]
    assert v["running"] is True
    registry.go.set()
    v = s.call("read_output", process=v["process"], wait_seconds=50)["structuredContent"]
    assert (v["content"], v["exit_code"]) == ("waited\n", 0)
    s.kill()
    forget(home, name)


def test_cancelling_ends_the_pull_and_the_environment(start, registry):
    s = start("--allow-pull", "127.0.0.1:*")
    registry.go.clear()
    id = s.start("tools/call", {"name": "create_environment", "arguments": {"image": f"{registry.name}/a:1", "name": "x"}})
    wait_until(lambda: any("blobs" in path for path in registry.asked))
    s.send({"method": "notifications/cancelled", "params": {"requestId": id}})
    assert s.call("list_environments")["structuredContent"]["environments"] == []
    assert s.close()[0] == 0


def test_what_may_not_be_pulled_names_the_rule(start, registry):
    s = start()
    v = s.call("create_environment", image=f"{registry.name}/a:1")["structuredContent"]
    assert v["code"] == "NOT_FOUND" and "--allow-pull docker.io/*" in v["hint"]
    assert registry.asked == []
    assert s.call("list_environments")["structuredContent"]["environments"] == []
