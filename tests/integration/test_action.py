# SPDX-License-Identifier: Apache-2.0
"""The CI action: its scripts, called as a runner calls them, in a clean folder."""
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, IMAGE, ROOT, Cli

ACTION = ROOT / "action"
CACHED = "localhost:1/action/base:1"  # nobody listens there: the image must come from the restored cache


class Runner:
    """One job: folders and files as GitHub's runner makes them, the environment grown by each step."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {"HOME": str(folder / "home"), "RUNNER_TEMP": str(folder / "temp"), "GITHUB_WORKSPACE": str(folder / "work"),
                    "PATH": os.environ["PATH"], "GITHUB_ACTION_PATH": str(ROOT), "CI": "true"}
        for name in ("home", "temp", "work"):
            (folder / name).mkdir()
        for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_ENV"):
            self.env[name] = str(folder / name)
            (folder / name).touch()

    def step(self, script, *args, status=0, **inputs):
        """(outputs, text) of a step."""
        output = self.folder / "GITHUB_OUTPUT"
        output.write_text("")
        done = subprocess.run([ACTION / f"{script}.sh", *map(str, args)], cwd=self.folder / "work", text=True, timeout=300,
                              env={**self.env, **{k: str(v) for k, v in inputs.items()}},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == status, done.stdout
        for line in (self.folder / "GITHUB_ENV").read_text().splitlines():
            name, value = line.split("=", 1)
            self.env[name] = value
        for line in (self.folder / "GITHUB_PATH").read_text().splitlines():
            if line not in self.env["PATH"]:
                self.env["PATH"] = f"{line}:{self.env['PATH']}"
        return dict(line.split("=", 1) for line in output.read_text().splitlines()), done.stdout


@pytest.fixture
def runner(tmp_path):
    made = Runner(tmp_path)
    made.env["PATH"] = f"{BUILD / 'bin'}:{made.env['PATH']}"
    return made


def test_the_device_is_opened_or_missed(runner, tmp_path):
    assert runner.step("kvm", tmp_path / "none")[0] == {"acceleration": "none"}
    device = tmp_path / "kvm"
    device.write_text("")
    device.chmod(0)
    assert runner.step("kvm", device)[0] == {"acceleration": "kvm"}
    assert os.geteuid() or device.stat().st_mode & 0o666 in (0, 0o666)


def test_it_installs_a_wheel(runner, tmp_path):
    if not shutil.which("patchelf") or not (BUILD / "python" / "_native.abi3.so").exists():
        pytest.skip("no wheel can be made: patchelf or the Python extension is missing")
    wheel = subprocess.run([ROOT / "tools/wheel", BUILD, tmp_path], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
    runner.env["PATH"] = os.environ["PATH"]
    _outputs, text = runner.step("install", INPUT_PACKAGE=wheel)
    assert "libboxlite:" in text
    where = subprocess.run(["sh", "-c", "command -v boxlite"], env=runner.env, text=True, stdout=subprocess.PIPE).stdout
    assert where.startswith(str(runner.folder / "temp"))
    runner.step("install", INPUT_PACKAGE="/none.whl", status=1)


@pytest.fixture
def prepared(runner, own):
    """A job whose cache was restored: kernel and image are there."""
    own.ok("image", "tag", IMAGE, CACHED)
    runner.step("key", INPUT_IMAGE=CACHED)
    runner.env["BOXLITE_HOME"] = str(own.home)  # the restored one
    (runner.folder / "GITHUB_ENV").write_text("")
    return runner


@pytest.mark.vm
def test_a_job(prepared, own):
    """From the key to the end of the command, also one that fails."""
    runner = prepared
    key, _text = runner.step("key", INPUT_IMAGE=CACHED)
    (runner.folder / "GITHUB_ENV").write_text("")
    runner.env["BOXLITE_HOME"] = str(own.home)
    assert key["path"].endswith("/home/.boxlite")
    outputs, text = runner.step("prepare", INPUT_IMAGE=CACHED, KEY_PREFIX=key["prefix"])
    assert "could not be checked" in text and outputs["key"].startswith(key["prefix"])
    assert outputs["digest"].split(":")[1] in outputs["key"]
    work = runner.folder / "work"
    (work / "main.py").write_text("print(6*7)\n")
    outputs, text = runner.step(
        "run", INPUT_IMAGE=CACHED, INPUT_MEMORY="512m", INPUT_CPUS=1, INPUT_ENV="NAME=va lue\nOTHER=$(id)", INPUT_TIMEOUT=0,
        INPUT_OUTPUTS="reports\nnone.txt",
        INPUT_RUN="python3 main.py\necho \"$NAME $OTHER\" >&2\nmkdir reports\necho x > reports/y\nrm main.py\nexit 3", status=3)
    assert outputs["exit-code"] == "3" and "42\n" in text and "va lue $(id)\n" in text
    assert "::error title=BoxLite::the command ended with exit code 3" in text and "there is no none.txt" in text
    folder = runner.folder / "temp" / "boxlite-output"
    assert outputs["folder"] == str(folder) and (folder / "reports" / "y").read_text() == "x\n"
    assert (folder / "output.txt").read_text().startswith("42\n") or "42\n" in (folder / "output.txt").read_text()
    assert sorted(os.listdir(work)) == ["main.py"], "the checkout is never touched"
    assert Cli(own.home).boxes() == []


def test_a_missing_image_fails(prepared):
    text = prepared.step("prepare", INPUT_IMAGE="localhost:1/none:1", KEY_PREFIX="x-", status=1)[1]
    assert "::error title=BoxLite::there is no image localhost:1/none:1" in text


def test_codex_is_configured(runner):
    runner.env["BOXLITE_HOME"] = str(runner.folder / "boxlite")
    runner.step("codex")
    text = (runner.folder / "home" / ".codex" / "config.toml").read_text()
    assert "[mcp_servers.boxlite]" in text and "boxlite-mcp-server" in text


def test_the_scripts_are_clean():
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is missing")
    subprocess.run(["shellcheck", "-x", *sorted(map(str, ACTION.glob("*.sh")))], check=True)


def test_the_description_fits_the_scripts():
    """Every step calls a script that is there; inputs come as variables, never pasted into a command."""
    text = (ROOT / "action.yml").read_text()
    called = re.findall(r"run: '\"\$GITHUB_ACTION_PATH/action/([a-z]+\.sh)\"'", text)
    assert sorted(called) == sorted(p.name for p in ACTION.glob("*.sh") if p.name != "common.sh")
    assert len(re.findall(r"^\s+run: ['\"|]", text, re.M)) == len(called)
    declared = set(re.findall(r"^  ([a-z-]+):\n    description", text.split("\noutputs:")[0], re.M))
    used = set(re.findall(r"inputs\.([a-z-]+)", text))
    assert used == declared
    for path in (ROOT / "examples/workflows").glob("*.yml"):
        given = re.search(r"uses: boxlite/boxlite@v0\n\s+with:\n((?:\s{10,}.*\n?)+)", path.read_text()).group(1)
        assert set(re.findall(r"^ {10}([a-z-]+):", given, re.M)) <= declared
    try:
        import yaml
    except ImportError:
        return
    for path in (ROOT / "action.yml", *(ROOT / "examples/workflows").glob("*.yml")):
        assert yaml.safe_load(path.read_text())
