# SPDX-License-Identifier: Apache-2.0
"""Clients that we did not write: the TypeScript SDK's, and the Codex CLI driven by a scripted model on loopback."""
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading

import pytest

from conftest import BUILD, MCP_SERVER

pytestmark = pytest.mark.vm
CLIENTS = BUILD / "artifacts" / "clients" / "node_modules"
HERE = pathlib.Path(__file__).resolve().parent


def need(path, what):
    if not shutil.which("node"):
        pytest.skip("node is missing")
    if not path.exists():
        pytest.skip(f"{what} is missing (tools/setup --clients installs it from the npm registry)")


def test_typescript_sdk_client(home, tmp_path):
    need(CLIENTS / "@modelcontextprotocol" / "sdk", "@modelcontextprotocol/sdk")
    script = tmp_path / "client.mjs"
    script.write_text((HERE / "sdk_client.mjs").read_text())
    (tmp_path / "node_modules").symlink_to(CLIENTS)
    done = subprocess.run(["node", str(script), MCP_SERVER], env={**os.environ, "BOXLITE_HOME": str(home)},
                          capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["tools"][:3] == ["execute_code", "run_command", "create_environment"]
    assert results["execute_code"]["stdout"] == "42\n" and results["execute_code"]["exit_code"] == 0
    assert results["execute_code"]["tests_passed"] is True
    assert results["create_environment"]["environment"] == "other"
    assert results["run_command"]["stdout"] == "from other\n"


class Model(http.server.BaseHTTPRequestHandler):
    """Answers POST /v1/responses with the next scripted item and records what it was asked."""
    script, asked = [], []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        item = self.script.pop(0) if self.script else message("nothing more to do")
        events = [{"type": "response.created", "response": {"id": "r"}},
                  {"type": "response.output_item.done", "item": item},
                  {"type": "response.completed", "response": {"id": "r", "usage": {
                      "input_tokens": 1, "input_tokens_details": None, "output_tokens": 1,
                      "output_tokens_details": None, "total_tokens": 2}}}]
        data = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def message(text):
    return {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": text}]}


def tool_call(number, tool, **arguments):
    return {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", "namespace": "mcp__boxlite",
            "name": tool, "arguments": json.dumps(arguments)}


@pytest.fixture
def model():
    Model.script, Model.asked = [], []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(timeout=10)


CONFIG = """\
model = "{model}"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "FAKE_MODEL_KEY"
[mcp_servers.boxlite]
command = "{server}"
args = []
startup_timeout_sec = 30
tool_timeout_sec = 600
required = true
default_tools_approval_mode = "{approval}"
[mcp_servers.boxlite.env]
BOXLITE_HOME = "{home}"
"""


def run_codex(tmp_path, home, model, approval, name="gpt-fake"):
    codex = CLIENTS / ".bin" / "codex"
    need(codex, "@openai/codex")
    codex_home = tmp_path / "codex"
    codex_home.mkdir()
    (codex_home / "config.toml").write_text(CONFIG.format(port=model.server_address[1], server=MCP_SERVER, home=home, model=name,
                                                          approval=approval))
    env = {**os.environ, "CODEX_HOME": str(codex_home), "FAKE_MODEL_KEY": "none"}
    done = subprocess.run([str(codex), "exec", "--json", "--skip-git-repo-check", "-C", str(tmp_path), "go"], env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [e["item"] for e in events if e["type"] == "item.completed" and e["item"]["type"] == "mcp_tool_call"]


def test_codex_calls_the_three_tools(home, tmp_path, model):
    Model.script = [
        tool_call(1, "execute_code", code="print(6*7)", language="python", test_command="python3 -m py_compile main.py"),
        tool_call(2, "create_environment", image="boxlite/base:bookworm", name="other"),
        tool_call(3, "run_command", command="echo from other; exit 5", environment="other"),
        message("done"),
    ]
    calls = run_codex(tmp_path, home, model, "approve")
    assert [(c["tool"], c["status"]) for c in calls] == [
        ("execute_code", "completed"), ("create_environment", "completed"), ("run_command", "completed")]
    first, second, third = (c["result"]["structured_content"] for c in calls)
    assert (first["stdout"], first["exit_code"], first["tests_passed"]) == ("42\n", 0, True)
    assert second["environment"] == "other"
    assert (third["stdout"], third["exit_code"]) == ("from other\n", 5)
    seen = json.dumps(Model.asked[-1])
    assert "from other" in seen  # the result reached the model


def test_codex_runs_code_unasked_because_annotations_allow_it(home, tmp_path, model):
    Model.script = [tool_call(1, "execute_code", code="print('unasked')", language="python"), message("done")]
    calls = run_codex(tmp_path, home, model, "auto")
    assert calls[0]["status"] == "completed" and calls[0]["result"]["structured_content"]["stdout"] == "unasked\n"


def test_codex_in_code_mode(home, tmp_path, model):
    """Today's default models get one tool that runs JavaScript, in which MCP tools are functions."""
    script = ("const r = await tools.mcp__boxlite__execute_code({code: 'print(6*7)', language: 'python'});\n"
              "text(`exit ${r.structuredContent.exit_code} stdout ${r.structuredContent.stdout}`);")
    Model.script = [{"type": "custom_tool_call", "id": "x1", "call_id": "c1", "name": "exec", "input": script},
                    message("done")]
    calls = run_codex(tmp_path, home, model, "auto", name="gpt-6-luna")
    assert [(c["tool"], c["status"]) for c in calls] == [("execute_code", "completed")]
    assert "exit 0 stdout 42" in json.dumps(Model.asked[-1])
    assert "mcp__boxlite: Run untrusted code" in json.dumps(Model.asked[0])
