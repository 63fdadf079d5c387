# SPDX-License-Identifier: Apache-2.0
"""Calls over HTTP: progress as a stream of events, and clients that go away. A shim without a VM runs the commands."""
import json
import signal

import pytest

from conftest import BUILD, _read, assert_nothing_left, processes, wait_until
from test_http import MODERN, HttpServer

FAKE = str(BUILD / "tests" / "fakeshim")
EVENTS = "application/json, text/event-stream"


@pytest.fixture(scope="module")
def server(home, tmp_path_factory):
    s = HttpServer(tmp_path_factory.mktemp("http"), BOXLITE_HOME=str(home), BOXLITE_LIBEXEC=FAKE)
    yield s
    assert s.end() == 0
    assert_nothing_left(home)


def call(server, command, modern, token=None, id=1, **headers):
    """The connection, with the request sent."""
    params = {"name": "run_command", "arguments": {"command": command}, "_meta": dict(MODERN) if modern else {}}
    headers = {"Content-Type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
    if modern:
        headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "run_command"}
    if token:
        params["_meta"]["progressToken"] = token
    connection = server.connect()
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}), headers)
    return connection


def sleepers(seconds):
    return [p for p in processes() if p.name == "sleep" and seconds.encode() in _read(f"/proc/{p.pid}/cmdline").split(b"\0")]


def events(response):
    data = response.read().decode()
    assert data.endswith("\n\n")
    lines = [event.split("\n") for event in data.split("\n\n")[:-1]]
    assert all(name == "event: message" and text.startswith("data: ") for name, text in lines)
    return [json.loads(text.removeprefix("data: ")) for _, text in lines]


@pytest.mark.parametrize("modern", [False, True])
def test_progress_is_a_stream_that_the_answer_ends(server, modern):
    response = call(server, "sleep 2.6; echo done", modern, token="t", Accept=EVENTS).getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    *told, answer = events(response)
    assert len(told) >= 2 and all(m["method"] == "notifications/progress" for m in told)
    assert [m["params"]["progress"] for m in told] == list(range(1, len(told) + 1))
    assert answer["id"] == 1 and answer["result"]["structuredContent"]["stdout"] == "done\n"


@pytest.mark.parametrize("token, accept", [("t", "application/json"), (None, EVENTS)])
def test_who_does_not_ask_for_it_gets_plain_json(server, token, accept):
    response = call(server, "sleep 1.2; echo done", True, token=token, Accept=accept).getresponse()
    assert response.headers["Content-Type"] == "application/json"
    assert json.loads(response.read())["result"]["structuredContent"]["stdout"] == "done\n"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_client_of_the_stateless_era_that_goes_away_cancels(server, streaming):
    connection = call(server, "sleep 7001", True, token="t" if streaming else None, Accept=EVENTS)
    wait_until(lambda: sleepers("7001"))
    if streaming:
        assert connection.getresponse().readline() == b"event: message\n"
    connection.close()
    wait_until(lambda: not sleepers("7001"))
    assert server.modern("tools/list")[0] == 200


def test_a_client_of_the_other_era_does_not(server):
    connection = call(server, "until [ -e /tmp/boxlite-test-go ]; do sleep 0.1; done; rm /tmp/boxlite-test-go", False,
                      Accept=EVENTS)
    wait_until(lambda: sleepers("0.1"))
    connection.close()
    assert server.post("ping")[1]["result"] == {}
    assert server.modern("tools/call", {"name": "run_command", "arguments": {"command": "touch /tmp/boxlite-test-go; sleep 0.5"}},
                         Mcp_Name="run_command")[0] == 200
    wait_until(lambda: not sleepers("0.1"))  # it went on until it was done


def test_many_clients_that_go_away_at_once_leave_nothing(server):
    connections = [call(server, "sleep 7002", True, token="t", id=i, Accept=EVENTS) for i in range(30)]
    wait_until(lambda: len(sleepers("7002")) == 30)
    for connection in connections:
        connection.close()
    wait_until(lambda: not sleepers("7002"))
    assert server.modern("tools/list")[0] == 200


def test_it_ends_with_streams_open(home, tmp_path):
    server = HttpServer(tmp_path, BOXLITE_HOME=str(home), BOXLITE_LIBEXEC=FAKE)
    connections = [call(server, "sleep 7003", modern, token="t", Accept=EVENTS) for modern in (True, False)]
    wait_until(lambda: len(sleepers("7003")) == 2)
    assert connections[0].getresponse().readline() == b"event: message\n"
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=20) == 0
    wait_until(lambda: not sleepers("7003"))
