# SPDX-License-Identifier: Apache-2.0
"""Streamable HTTP, without any VM: who may ask, and what is answered with which status."""
import http.client
import json
import os
import re
import signal
import subprocess

import pytest

from conftest import MCP_SERVER

META = "io.modelcontextprotocol/"
MODERN = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


class HttpServer:
    def __init__(self, tmp_path, *flags, address="127.0.0.1:0", **env):
        self.process = subprocess.Popen([MCP_SERVER, "--http", address, *flags], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, "BOXLITE_HOME": str(tmp_path / "home"), **env})
        line = self.process.stderr.readline().decode()
        self.url = re.search(r"http://\S+", line).group(0)
        self.port = int(re.search(r":(\d+)/mcp", line).group(1))

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def raw(self, method="POST", path="/mcp", body=b"", connection=None, **headers):
        c = connection or self.connect()
        headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        c.request(method, path, body, {k: v for k, v in headers.items() if v is not None})
        answer = c.getresponse()
        data = answer.read()
        return answer.status, (json.loads(data) if data else None), answer.headers

    def post(self, method, params=None, id=1, **headers):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if id is not None:
            message["id"] = id
        return self.raw(body=json.dumps(message).encode(), **headers)

    def modern(self, method, params=None, **headers):
        headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method, **headers}
        return self.post(method, {**(params or {}), "_meta": MODERN}, **headers)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=10)


@pytest.fixture
def server(tmp_path):
    s = HttpServer(tmp_path)
    yield s
    s.process.kill()
    s.process.wait(timeout=10)


def test_initialize_list_call_and_end(server):
    status, answer, headers = server.post("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                                         "clientInfo": {"name": "t", "version": "1"}})
    assert status == 200 and answer["result"]["protocolVersion"] == "2025-11-25" and headers["Content-Type"] == "application/json"
    session = headers["Mcp-Session-Id"]
    assert re.fullmatch("[0-9a-f]{32}", session)
    assert server.post("notifications/initialized", id=None, Mcp_Session_Id=session)[:2] == (202, None)
    status, answer, headers = server.post("tools/list", Mcp_Session_Id=session, MCP_Protocol_Version="2025-06-18")
    assert status == 200 and len(answer["result"]["tools"]) == 11 and "Mcp-Session-Id" not in headers
    status, answer, _ = server.post("tools/call", {"name": "execute_code", "arguments": {}})
    assert status == 200 and answer["result"]["isError"] is True
    assert server.raw("DELETE", Mcp_Session_Id=session)[0] == 200
    assert server.end() == 0


def test_stateless_requests_and_their_headers(server):
    status, answer, _ = server.modern("server/discover")
    assert status == 200 and answer["result"]["resultType"] == "complete"
    call = {"name": "execute_code", "arguments": {}}
    assert server.modern("tools/call", call, Mcp_Name="execute_code")[1]["result"]["isError"] is True
    for headers in ({}, {"Mcp_Name": "run_command"}):
        status, answer, _ = server.modern("tools/call", call, **headers)
        assert status == 400 and answer["error"]["code"] == -32020 and answer["id"] == 1
    for headers in ({"MCP_Protocol_Version": None}, {"MCP_Protocol_Version": "2025-11-25"}, {"Mcp_Method": "ping"},
                    {"Mcp_Method": None}):
        status, answer, _ = server.modern("tools/list", **headers)
        assert status == 400 and answer["error"]["code"] == -32020, headers
    status, answer, _ = server.modern("no/such")
    assert status == 404 and answer["error"]["code"] == -32601
    status, answer, _ = server.post("tools/list", {"_meta": {**MODERN, META + "protocolVersion": "1900-01-01"}},
                                    MCP_Protocol_Version="1900-01-01", Mcp_Method="tools/list")
    assert status == 400 and answer["error"]["code"] == -32022 and "2026-07-28" in answer["error"]["data"]["supported"]


@pytest.mark.parametrize("headers, status", [
    ({"Host": "evil.example"}, 403), ({"Host": "127.0.0.1.evil.example"}, 403), ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403), ({"Origin": "http://localhost:6274"}, 200), ({"Host": "localhost:1"}, 200),
    ({"Content_Type": "text/plain"}, 415), ({"Content_Type": None}, 415), ({"MCP_Protocol_Version": "1999-01-01"}, 400),
])
def test_who_and_what_is_let_in(server, headers, status):
    assert server.post("ping", **headers)[0] == status
    assert server.post("ping")[1]["result"] == {}


@pytest.mark.parametrize("method, path, status", [("GET", "/mcp", 405), ("PUT", "/mcp", 405), ("OPTIONS", "/mcp", 405),
                                                  ("POST", "/other", 404), ("POST", "/mcp/../x", 404)])
def test_other_methods_and_paths(server, method, path, status):
    assert server.raw(method, path)[0] == status


@pytest.mark.parametrize("body, code", [(b"", -32700), (b"{", -32700), (b"\xff", -32700), (b"[]", -32600),
                                        (b"[" * 4000, -32700), (b'{"id":1}', -32600)])
def test_bad_bodies(server, body, code):
    status, answer, _ = server.raw(body=body)
    assert status == 400 and answer["error"]["code"] == code
    assert server.post("ping")[0] == 200


def test_a_body_over_16_mib_is_refused(server):
    assert server.raw(body=b" " * ((16 << 20) + 1))[0] == 413
    assert server.post("ping")[0] == 200


def test_one_connection_serves_many_requests_and_many_clients_at_once(server):
    connections = [server.connect() for _ in range(20)]
    for round in range(3):
        for c in connections:
            body = json.dumps({"jsonrpc": "2.0", "id": round, "method": "ping"}).encode()
            assert server.raw(body=body, connection=c)[1] == {"jsonrpc": "2.0", "id": round, "result": {}}
    for c in connections:
        c.close()


def test_the_token_is_asked_for(tmp_path):
    s = HttpServer(tmp_path, BOXLITE_MCP_HTTP_TOKEN="s3cret")
    try:
        status, _, headers = s.post("ping")
        assert status == 401 and headers["WWW-Authenticate"] == "Bearer"
        assert s.post("ping", Authorization="Bearer wrong")[0] == 401
        assert s.post("ping", Authorization="Bearer s3cret")[0] == 200
    finally:
        s.process.kill()
        s.process.wait(timeout=10)


@pytest.mark.parametrize("address, says", [("0.0.0.0:0", b"--http-token"), ("8080", b"not ADDR:PORT"),
                                           ("256.0.0.1:1", b"no such address")])
def test_bad_addresses(tmp_path, address, says):
    done = subprocess.run([MCP_SERVER, "--http", address, *(["--http-token", "x"] if b"token" not in says else [])],
                          capture_output=True, timeout=10, env={**os.environ, "BOXLITE_HOME": str(tmp_path)})
    assert done.returncode == 125 and says in done.stderr


def test_a_port_that_is_taken(server, tmp_path):
    done = subprocess.run([MCP_SERVER, "--http", f"127.0.0.1:{server.port}"], capture_output=True, timeout=10)
    assert done.returncode == 125 and b"in use" in done.stderr


def test_requests_that_are_cut_off_do_no_harm(server):
    for part in (b"POST /mcp HTTP/1.1\r\n", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 100\r\n\r\n{", b"nonsense\r\n\r\n", b"\0" * 5000):
        c = server.connect()
        c.connect()
        c.sock.sendall(part)
        c.close()
        assert server.post("ping")[0] == 200
