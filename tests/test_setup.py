# SPDX-License-Identifier: Apache-2.0
"""Set-up: its scripts say clearly what is wrong, and change nothing when they cannot work."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*argv, **env):
    return subprocess.run([str(a) for a in argv], cwd=ROOT, env={**os.environ, **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


@pytest.fixture
def empty_apt(tmp_path):
    """An apt that knows no archive."""
    for name in ("lists/partial", "parts"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "sources.list").write_text("")
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::State::lists "{tmp_path}/lists";\n'
                      f'Dir::Cache "{tmp_path}";\n'
                      f'Dir::Etc::sourcelist "{tmp_path}/sources.list";\n'
                      f'Dir::Etc::sourceparts "{tmp_path}/parts";\n')
    return config


def test_base_image_without_an_archive(tmp_path, empty_apt):
    out = tmp_path / "base.tar"
    done = run("tools/make-base-image", out, APT_CONFIG=str(empty_apt))
    assert done.returncode == 1
    assert "apt knows no Debian bookworm archive" in done.stderr
    assert "hint: " in done.stderr
    assert not out.exists()


def test_kernel_build_without_an_archive(tmp_path, empty_apt):
    out = tmp_path / "vmlinux"
    done = run("tools/kernel-build", "--output", out, APT_CONFIG=str(empty_apt), TMPDIR=str(tmp_path))
    assert done.returncode == 1
    # The compiler's tools may be missing as well: either is told, with the command that helps.
    assert "hint: " in done.stderr
    assert "apt-get" in done.stderr
    assert not out.exists()
    assert not list(tmp_path.glob("boxlite-kernel.*"))


@pytest.mark.parametrize("argv", [[], ["--output"], ["--source", "/tmp"], ["--output", "x", "--nonsense", "y"]])
def test_kernel_build_usage(argv):
    done = run("tools/kernel-build", *argv)
    assert done.returncode == 1
    assert "usage: " in done.stderr


def test_kernel_build_source_that_is_not_there(tmp_path):
    done = run("tools/kernel-build", "--output", tmp_path / "x", "--source", tmp_path / "none")
    assert done.returncode == 1
    assert "no such source" in done.stderr


def test_setup_usage():
    done = run("tools/setup", "--nonsense")
    assert done.returncode == 1
    assert "usage: " in done.stderr


def test_every_package_is_listed_once_in_a_known_group():
    lines = [line.split() for line in (ROOT / "tools/packages.txt").read_text().splitlines()
             if line and not line.startswith("#")]
    names = [words[1] for words in lines]
    assert len(names) == len(set(names))
    assert {words[0] for words in lines} <= {"build", "run", "test"}
    assert names
