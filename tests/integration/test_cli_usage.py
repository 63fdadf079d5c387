# SPDX-License-Identifier: Apache-2.0
"""The command line where no machine is needed: help, mistakes, empty homes. Wrong usage is found before any work."""
import os
import subprocess

import pytest

from conftest import BOXLITE

MISTAKES = [
    (["runn", "x"], "unknown command 'runn'", "did you mean 'boxlite run'?"),
    (["insepct", "x"], "unknown command 'insepct'", "did you mean 'boxlite inspect'?"),
    (["image", "lst"], "unknown command 'image lst'", "did you mean 'boxlite image ls'?"),
    (["kernel", "improt"], "unknown command 'kernel improt'", "did you mean 'boxlite kernel import'?"),
    (["xyzzyxyzzy"], "unknown command 'xyzzyxyzzy'", "boxlite --help"),
    (["--hom", "x", "ls"], "unknown option --hom", "did you mean --home?"),
    (["run", "--memry", "1G", "x"], "run: unknown option --memry", "did you mean --memory?"),
    (["run", "-z", "x"], "run: unknown option -z", "boxlite help run"),
    (["run"], "run: an operand is missing", "IMAGE"),
    (["exec", "box"], "exec: an operand is missing", "BOX COMMAND"),
    (["ls", "x"], "ls: too many operands", "boxlite ls"),
    (["run", "-e"], "run: -e needs a value", ""),
    (["run", "--memory", "512", "x"], "'512' is not between 128M and 4T", "did you mean 512M?"),
    (["run", "--memory", "lots", "x"], "'lots' is not a size", "512M"),
    (["run", "--memory", "1K", "x"], "'1K' is not between", ""),
    (["run", "--cpus", "0", "x"], "'0' is not a whole number from 1 to 64", ""),
    (["run", "--cpus", "1.5", "x"], "'1.5' is not a whole number", ""),
    (["run", "--network", "host", "x"], "'host' is none of: none user", ""),
    (["run", "--engine", "xen", "x"], "'xen' is none of: auto", ""),
    (["run", "--timeout", "soon", "x"], "'soon' is not a time", "1h30m"),
    (["run", "--timeout", "99999999999", "x"], "'99999999999' is more than 87600h", ""),
    (["run", "--timeout", "99999999999999999999", "x"], "is more than 87600h", ""),
    (["run", "--rm=perhaps", "x"], "--rm is a switch", ""),
    (["run", "-e", "=value", "x"], "'=value' is not NAME=VALUE", ""),
    (["run", "-l", "=value", "x"], 'boxlite: label: "" is not a valid label name', ""),
    (["run", "--env-file", "/nonexistent", "x"], "/nonexistent: No such file", ""),
    (["run", "-d", "--idle", "x", "sh"], "--idle and a command exclude each other", ""),
    (["ls", "--format", "yaml"], "'yaml' is none of: table json", ""),
    (["kill", "-s", "NOPE", "x"], "unknown signal 'NOPE'", "TERM"),
    (["logs", "--tail", "some", "x"], "--tail: 'some' is neither", ""),
    (["cp", "a", "b"], "one side must be BOX:PATH", "BOX:PATH"),
    (["cp", "a:/x", "b:/x"], "one side must be BOX:PATH", ""),
    (["cp", "a:", "b"], "the path in the box is missing", ""),
    (["start", "-a", "a", "b"], "--attach takes one box", ""),
    (["image", "load", "-i", "a", "b"], "give one path", "usage"),
    (["help", "nope"], "unknown command 'nope'", "boxlite help"),
]


@pytest.mark.parametrize("args, message, hint", MISTAKES, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_a_mistake_is_told_in_a_line_and_nothing_is_made(cli, args, message, hint):
    said = cli.fails(*args)
    assert message in said.splitlines()[0]
    assert hint in said
    assert not cli.home.exists()


def test_no_command_shows_help_and_fails(cli):
    done = cli.run()
    assert done.returncode == 125 and "Usage: boxlite" in done.stderr and not done.stdout


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"]])
def test_help_is_on_standard_output(cli, args):
    assert "Boxes:" in cli.ok(*args)


def test_help_of_a_group(cli):
    assert "image import" in cli.ok("image", "--help") == cli.ok("help", "image")
    done = cli.run("image")
    assert done.returncode == 125 and "image import" in done.stderr


def test_help_wins_over_missing_operands(cli):
    assert cli.ok("run", "--help") == cli.ok("help", "run") == cli.ok("--help", "run")
    assert not cli.home.exists()


def test_version(cli):
    assert cli.ok("--version") == cli.ok("version")
    assert cli.json("version", "--json")["version"] == "0.1.0"
    assert not cli.home.exists()


def test_global_options_before_and_behind_the_command(cli, tmp_path):
    other = tmp_path / "other"
    cli.ok("--home", other, "ls")
    assert (other / "boxlite.db").exists()
    third = tmp_path / "third"
    cli.ok("ls", f"--home={third}")
    assert (third / "boxlite.db").exists()
    assert not cli.home.exists()


def test_home_is_private_and_default_below_home(tmp_path):
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run([BOXLITE, "ls"], env=env, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert (tmp_path / ".boxlite").stat().st_mode & 0o777 == 0o700


def test_lists_of_an_empty_home(cli):
    assert cli.ok("ls", "-a").split() == ["ID", "NAME", "IMAGE", "STATE", "ENGINE", "CREATED"]
    assert cli.json("ls", "-a", "--json") == [] == cli.json("ps", "-a", "--format", "json")
    assert cli.ok("ls", "-aq") == ""
    assert cli.json("image", "ls", "--json") == [] == cli.json("images", "--json")
    assert cli.json("kernel", "ls", "--json") == []


def test_info_of_an_empty_home(cli):
    info = cli.json("info", "--json")
    assert (info["boxes"], info["running"], info["images"], info["kernels"]) == (0, 0, 0, 0)
    assert info["home"] == str(cli.home) and info["version"] == "0.1.0"
    assert 0 < info["disk_use"] < 1 << 20
    assert "Home:" in cli.ok("info")


@pytest.mark.parametrize("command", [["start"], ["stop"], ["kill"], ["rm"], ["pause"], ["unpause"], ["wait"], ["logs"],
                                     ["attach"], ["inspect", "--type", "box"]], ids=lambda c: c[0])
def test_a_box_that_is_not_there(cli, command):
    assert "nobody" in cli.fails(*command, "nobody")


def test_exec_and_cp_of_a_box_that_is_not_there(cli, tmp_path):
    assert "nobody" in cli.fails("exec", "nobody", "true")
    (tmp_path / "f").write_text("x")
    assert "nobody" in cli.fails("cp", tmp_path / "f", "nobody:/")
    assert "nobody" in cli.fails("cp", "nobody:/f", tmp_path)


def test_rm_force_is_idempotent(cli):
    assert cli.ok("rm", "-f", "nobody", "nobody") == ""
    assert cli.ok("image", "rm", "-f", "no/image") == ""


def test_one_bad_name_does_not_hinder_the_others(cli):
    done = cli.run("rm", "one", "two")
    assert done.returncode == 125
    assert "one" in done.stderr and "two" in done.stderr


def test_inspect_of_nothing(cli):
    done = cli.run("inspect", "nothing")
    assert done.returncode == 125 and "no box and no image 'nothing'" in done.stderr
    assert done.stdout.strip() == "[]"


def test_control_characters_in_names_do_not_reach_the_terminal(cli):
    done = cli.run("inspect", "a\x1b[2Jb")
    assert "\x1b" not in done.stderr


def test_a_full_standard_output_is_an_error(cli):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(cli.argv("--help"), stdout=full, stderr=subprocess.PIPE, env=cli.environ(), timeout=60)
    assert done.returncode == 125 and b"No space left" in done.stderr


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_closed_standard_descriptors_do_no_harm(cli, closed):
    script = f'exec "$@" {closed}>&-' if closed else 'exec "$@" 0<&-'
    done = subprocess.run(["sh", "-c", script, "sh", *cli.argv("ls", "-a")], env=cli.environ(), capture_output=True,
                          timeout=60)
    assert done.returncode == 0
    assert b"ID" not in (cli.home / "boxlite.db").read_bytes()[:16]


def test_doctor_judges_each_check(cli):
    done = cli.run("doctor", "--json")
    checks = __import__("json").loads(done.stdout)
    assert len(checks) >= 5
    for check in checks:
        assert check["status"] in ("ok", "warning", "failed") and check["name"] and check["detail"]
        assert check["status"] == "ok" or check["advice"], check
    failed = any(c["status"] == "failed" for c in checks)
    assert done.returncode == (1 if failed else 0)
    assert any("kernel" in c["name"].lower() and c["status"] != "ok" for c in checks)  # this home has none
    text = cli.run("doctor").stdout
    assert all(c["detail"] in text for c in checks if "space" not in c["name"].lower() and "ms" not in c["detail"])
