# SPDX-License-Identifier: Apache-2.0
"""Help, manual and completions say the same: each command and option of one is in the others."""
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BOXLITE, MCP_SERVER, ROOT

MAN = ROOT / "man"


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, timeout=60, check=True).stdout


def commands():
    text = run(BOXLITE, "--help").split("\nOptions:")[0]
    return re.findall(r"^  ([a-z]+(?: [a-z]+)?) {2,}\S", text, re.M)


def options(text):
    return re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", text, re.M)


def manual_sections():
    """Command -> its part of boxlite(1)."""
    text = (MAN / "boxlite.1.scd").read_text()
    parts = re.split(r"^## boxlite ((?:image |kernel |mcp )?[a-z]+)(?=[ \n])", text, flags=re.M)
    return {name: re.split(r"^# ", body, flags=re.M)[0] for name, body in zip(parts[1::2], parts[2::2])}


def complete(*words):
    return [line.split("\t")[0] for line in run(BOXLITE, "--home", "/nonexistent", "__complete", *words).splitlines()]


def test_there_are_the_commands_that_users_know():
    assert set(commands()) >= {
        "run", "create", "start", "exec", "stop", "kill", "rm", "ls", "inspect", "logs", "cp", "pause", "unpause",
        "pull", "push", "login", "logout", "image import", "image load", "image ls", "image rm", "image inspect", "image save", "image tag", "image untag",
        "image history", "image prune", "image verify",
        "kernel import", "kernel ls", "kernel rm", "kernel build", "setup", "doctor", "info", "version", "help"}


def test_manual_has_each_command_and_no_other():
    assert set(manual_sections()) == set(commands())


@pytest.mark.parametrize("command", commands())
def test_manual_and_completion_have_each_option(command):
    text = run(BOXLITE, "help", *command.split())
    own, common = text.split("\nOptions of every command:")
    shown = options(own)
    assert len(shown) == len(set(shown))
    assert re.findall(r"^(?:\*-\w\*, )?\*(--[a-z-]+)\*", manual_sections()[command], re.M) == shown
    assert complete(*command.split(), "--") == shown + options(common.split("\nExamples:")[0])
    assert "\nExamples:\n  " in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_manual_has_the_global_options():
    text = (MAN / "boxlite.1.scd").read_text()
    for option in options(run(BOXLITE, "--help").split("\nOptions:")[1]):
        assert f"*{option}*" in text


def test_manual_of_the_mcp_server_has_each_option():
    if not pathlib.Path(MCP_SERVER).exists():
        pytest.skip("boxlite-mcp-server is not built")
    text = (MAN / "boxlite-mcp-server.1.scd").read_text()
    shown = set(re.findall(r"^  (--[a-z-]+)", run(MCP_SERVER, "--help"), re.M))
    assert shown == set(re.findall(r"^\*(--[a-z-]+)\*", text, re.M))


def test_manual_of_the_library_names_only_what_the_header_has():
    header = (ROOT / "include" / "boxlite.h").read_text()
    for name in re.findall(r"\b(?:boxlite_[a-z_]+|BOXLITE_[A-Z_]+[A-Z])\b", (MAN / "libboxlite.3.scd").read_text()):
        assert name in header, name
    text = (MAN / "libboxlite.3.scd").read_text()
    for section in ("HANDLES", "OWNERSHIP", "THREADS", "EVENT LOOP", "ERRORS", "SIGNALS", "FORK", "SECURITY"):
        assert f"\n# {section}\n" in text


def test_program_in_the_manual_of_the_library_compiles(tmp_path):
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    code = (MAN / "libboxlite.3.scd").read_text().split("```\n")[3]
    assert "boxlite_runtime_new" in code
    source = tmp_path / "p.c"
    source.write_text("#include <boxlite.h>\n#include <stdio.h>\nint main(void)\n{\n" + code + "return 0;\n}\n")
    done = subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT / 'include'}", source],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted(p.name for p in MAN.glob("*.scd")))
def test_page_is_sound(page):
    if not shutil.which("scdoc"):
        pytest.skip("scdoc is missing")
    done = subprocess.run(["scdoc"], input=(MAN / page).read_bytes(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b".TH" in done.stdout


# ---- Completion


def test_completion_of_commands():
    assert complete("ru") == ["run"]
    assert set(complete("")) >= {c.split()[0] for c in commands()}
    assert set(complete("image", "")) == {"import", "load", "save", "ls", "inspect", "history", "tag", "untag",
                                             "rm", "prune", "verify"}
    assert complete("help", "doc") == ["doctor"]
    assert complete("nope", "") == [] == complete("image", "ls", "x", "")


def test_completion_of_values():
    assert complete("run", "--network", "") == ["none", "user"]
    assert complete("run", "--network=u") == ["--network=user"]
    assert complete("run", "--engine", "qemu-") == ["qemu-kvm", "qemu-tcg"]
    assert complete("run", "--env-file", "") == [":files"]
    assert complete("run", "-it", "--") == complete("run", "--")
    assert complete("kernel", "import", "") == [":files"]


def test_completion_makes_no_home(tmp_path):
    home = tmp_path / "home"
    run(BOXLITE, "--home", str(home), "__complete", "start", "")
    assert not home.exists()


def bash(line, words, cwd):
    """What bash would offer for a line, as it splits it."""
    script = ('source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _boxlite; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script, "bash", str(ROOT / "completions" / "boxlite.bash"), line, *words],
                          capture_output=True, text=True, timeout=60, cwd=cwd, check=True,
                          env={"PATH": f"{pathlib.Path(BOXLITE).parent}:/usr/bin:/bin", "BOXLITE_HOME": "/nonexistent"})
    return done.stdout.split()


def test_bash_completion(tmp_path):
    (tmp_path / "some file").touch()
    (tmp_path / "kernel.deb").touch()
    assert bash("boxlite ru", ["boxlite", "ru"], tmp_path) == ["run"]
    assert bash("boxlite image l", ["boxlite", "image", "l"], tmp_path) == ["load", "ls"]
    assert bash("boxlite run --network ", ["boxlite", "run", "--network", ""], tmp_path) == ["none", "user"]
    assert bash("boxlite run --network=u", ["boxlite", "run", "--network", "=", "u"], tmp_path) == ["user"]
    assert bash("boxlite kernel import k", ["boxlite", "kernel", "import", "k"], tmp_path) == ["kernel.deb"]
    assert "--memory" in bash("boxlite run --", ["boxlite", "run", "--"], tmp_path)


@pytest.mark.parametrize("shell, script", [("bash", "boxlite.bash"), ("zsh", "_boxlite"), ("fish", "boxlite.fish")])
def test_completion_scripts_are_sound(shell, script):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is missing")
    subprocess.run([shell, "-n", str(ROOT / "completions" / script)], check=True, timeout=60)
    assert "__complete" in (ROOT / "completions" / script).read_text()


def test_tables_of_the_mcp_page_are_what_the_server_says():
    if not pathlib.Path(MCP_SERVER).exists():
        pytest.skip("boxlite-mcp-server is not built")
    done = subprocess.run([ROOT / "tools" / "mcp-docs", "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
