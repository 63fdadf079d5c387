# SPDX-License-Identifier: Apache-2.0
"""boxlite mcp install: the entry comes and goes, and nothing else of a file changes."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import BOXLITE, BUILD, MCP_SERVER

FILES = {
    "codex": (".codex/config.toml", ".codex/config.toml", None),
    "claude": (".claude.json", ".mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", ".vscode/mcp.json", "servers"),
    "opencode": (".config/opencode/opencode.json", "opencode.json", "mcp"),
}
JSON_CLIENTS = [c for c in FILES if c != "codex"]


class Install:
    def __init__(self, tmp_path):
        self.home, self.folder = tmp_path / "home", tmp_path / "project"
        self.home.mkdir()
        self.folder.mkdir()

    def __call__(self, *args, **env):
        clean = {k: v for k, v in os.environ.items() if k not in ("CODEX_HOME",)}
        return subprocess.run([BOXLITE, "mcp", "install", *args], cwd=self.folder, capture_output=True, text=True,
                              timeout=20, env={**clean, "HOME": str(self.home), **env})


@pytest.fixture
def install(tmp_path):
    return Install(tmp_path)


def command_of(entry):
    return entry["command"][0] if isinstance(entry["command"], list) else entry["command"]


@pytest.mark.parametrize("client", JSON_CLIENTS)
@pytest.mark.parametrize("project", [False, True])
def test_json_entry_comes_and_goes(install, client, project):
    flags = ["--project"] if project else []
    path = (install.folder if project else install.home) / FILES[client][project]
    path.parent.mkdir(parents=True, exist_ok=True)
    before = {"z": 1, "big": 12345678901234567890 // 10, FILES[client][2]: {"other": {"command": "x"}}, "a": [None, 1.5]}
    path.write_text(json.dumps(before))
    path.chmod(0o640)
    assert install(client, *flags, BOXLITE_HOME="/some/where").returncode == 0
    after = json.loads(path.read_text())
    entry = after[FILES[client][2]].pop("boxlite")
    assert os.path.samefile(command_of(entry), MCP_SERVER)
    assert {"BOXLITE_HOME": "/some/where"} in entry.values()
    assert after == before and list(after) == list(before) and path.stat().st_mode & 0o777 == 0o640
    assert "nothing to change" in install(client, *flags, BOXLITE_HOME="/some/where").stdout
    assert install(client, *flags, "--remove").returncode == 0
    assert json.loads(path.read_text()) == before
    assert "nothing to change" in install(client, *flags, "--remove").stdout
    assert sorted(os.listdir(path.parent)) == [path.name]  # nothing beside it


@pytest.mark.parametrize("client", list(FILES))
def test_files_that_are_not_there_are_made(install, client):
    assert install(client).returncode == 0
    assert "boxlite-mcp-server" in (install.home / FILES[client][0]).read_text()


COMMENTED = """{
    // my servers
    "mcpServers": {
        "other": {"command": "x", "n": 1.50e3}, // fast
        /* last */ "third": {"url": "http://a//b"}%s
    }%s
}
"""


@pytest.mark.parametrize("text", [COMMENTED % ("", ""), COMMENTED % (",", ","), "// top\n{}", '{"a": 1}', '{"mcpServers":{}}\n',
                                  '\ufeff{\r\n\t"mcpServers": {\r\n\t\t"a": {}\r\n\t}\r\n}\r\n'])
def test_comments_and_layout_stay(install, text):
    path = install.folder / ".mcp.json"
    path.write_bytes(text.encode())
    assert install("claude", "--project").returncode == 0
    after = path.read_bytes().decode()
    for line in text.splitlines():
        assert line.strip(" ,{}") in after
    assert '"boxlite": {' in after
    assert install("claude", "--project", "--remove").returncode == 0
    if "mcpServers" in text and "{}}" not in text:
        assert path.read_bytes().decode() == text  # to the byte
    assert "boxlite" not in path.read_text() and "nothing to change" in install("claude", "--project", "--remove").stdout


@pytest.mark.parametrize("text", ["// comment\n[]", "[]", '{"mcpServers": []}', '{"a":1,"a":2}', "{"])
def test_json_that_is_not_understood_stays(install, text):
    path = install.folder / ".mcp.json"
    path.write_text(text)
    done = install("claude", "--project")
    assert done.returncode == 125 and "hint: add the entry by hand" in done.stderr and path.read_text() == text


def test_another_entry_of_that_name_is_not_replaced(install):
    path = install.folder / ".mcp.json"
    text = '{"mcpServers": {"boxlite": {"command": "mine"}}}'
    path.write_text(text)
    assert install("claude", "--project").returncode == 125 and path.read_text() == text


def test_symlinks_to_dotfiles_stay(install):
    real = install.folder / "dotfiles.json"
    real.write_text("{}")
    (install.home / ".claude.json").symlink_to(real)
    assert install("claude").returncode == 0
    assert (install.home / ".claude.json").is_symlink() and "boxlite" in real.read_text()


CODEX = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y" # [mcp_servers.boxlite]\ntext = """\n[mcp_servers.boxlite]\n"""\n'


def test_codex_entry_comes_and_goes_and_the_rest_stays_to_the_byte(install):
    path = install.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(CODEX)
    assert install("codex").returncode == 0
    text = path.read_text()
    assert text.startswith(CODEX) and "\n[mcp_servers.boxlite]\ncommand = \"" in text
    assert "nothing to change" in install("codex").stdout
    path.write_text(text + "[profiles.a]\nmodel = 'y'\n")
    assert install("codex", "--remove").returncode == 0
    assert path.read_text() == CODEX + "\n[profiles.a]\nmodel = 'y'\n"


@pytest.mark.parametrize("text", ["mcp_servers = { boxlite = { command = 'a' } }\n", "mcp_servers.boxlite.command = 'a'\n",
                                  '[mcp_servers."boxlite"]\ncommand = "a"\n', "[ mcp_servers . boxlite ]\n",
                                  "[[mcp_servers.boxlite]]\n", "[mcp_servers.boxlite]\ncommand = 'mine'\n", 'a = """\n'])
def test_codex_forms_that_are_not_understood_stay(install, text):
    path = install.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    assert install("codex").returncode == 125 and path.read_text() == text


def test_print_changes_nothing(install):
    done = install("vscode", "--print", "--project")
    assert json.loads(done.stdout.split("\n", 1)[1])["servers"]["boxlite"]["type"] == "stdio"
    assert os.listdir(install.folder) == [] and "[mcp_servers.boxlite]" in install("codex", "--print").stdout


def test_unknown_client(install):
    done = install("emacs")
    assert done.returncode == 125 and "hint: one of: codex" in done.stderr


def test_the_codex_cli_reads_what_was_written(install):
    codex = BUILD / "artifacts" / "clients" / "node_modules" / ".bin" / "codex"
    if not codex.exists() or not shutil.which("node"):
        pytest.skip("@openai/codex is missing (tools/setup --clients installs it from the npm registry)")
    assert install("codex", BOXLITE_HOME="/some/where").returncode == 0
    done = subprocess.run([str(codex), "mcp", "get", "boxlite", "--json"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HOME": str(install.home), "CODEX_HOME": str(install.home / ".codex")})
    assert done.returncode == 0, done.stderr
    transport = json.loads(done.stdout)["transport"]
    assert os.path.samefile(transport["command"], MCP_SERVER) and transport["env"] == {"BOXLITE_HOME": "/some/where"}
