# SPDX-License-Identifier: Apache-2.0
"""The source archive and the Debian packages: the archive builds without network, lintian finds nothing, and the packages are
installed into a root of their own, used, and removed again. This machine's packages are left alone.
"""
import os
import shutil
import subprocess

import pytest

from conftest import ROOT

TOOLS = ("dh", "dh_python3", "dpkg-buildpackage", "git", "xz", "unshare")


def run(argv, **kw):
    return subprocess.run(list(map(str, argv)), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kw)


@pytest.fixture(scope="module")
def debs(tmp_path_factory):
    """All packages, built from the source archive in a name space that has no network."""
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        pytest.skip(f"{missing[0]} is missing (packages debhelper, dh-python, dpkg-dev)")
    if run(["git", "-C", ROOT, "rev-parse", "HEAD"]).returncode:
        pytest.skip("this is no git checkout: there is nothing to archive")
    if run(["unshare", "-rn", "true"]).returncode:
        pytest.skip("user name spaces are not allowed here")
    folder = tmp_path_factory.mktemp("debs")
    done = run(["unshare", "-rn", ROOT / "tools/deb", folder], timeout=900)
    assert done.returncode == 0, done.stdout
    return sorted(p for p in folder.glob("*.deb") if "dbgsym" not in p.name)


def test_lintian_finds_nothing(debs):
    if not shutil.which("lintian"):
        pytest.skip("lintian is missing")
    changes = next(debs[0].parent.glob("*.changes"))
    done = run(["lintian", "--allow-root", "--fail-on", "error,warning", changes])
    assert done.returncode == 0 and "E:" not in done.stdout and "W:" not in done.stdout, done.stdout


def test_the_packages_are_those_that_are_promised(debs):
    assert [p.name.split("_")[0] for p in debs] == ["boxlite", "libboxlite-dev", "libboxlite0", "python3-boxlite"]


def dpkg(root, tools, *args):
    """Maintainer scripts run outside the root: what they call of Python's packaging is played by `tools`."""
    done = run(["unshare", "-r", "dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless", "--force-architecture",
                f"--log={root}/dpkg.log", *args], env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stdout


def test_they_are_installed_used_and_removed(debs, tmp_path):
    root = tmp_path / "root"
    admin = root / "var/lib/dpkg"
    for name in ("info", "updates", "triggers", "parts"):
        (admin / name).mkdir(parents=True)
    for name in ("status", "available", "diversions", "statoverride"):
        (admin / name).touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("py3compile", "py3clean"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/called\n')
        (tools / name).chmod(0o755)
    dpkg(root, tools, "-i", *debs)
    triplet = next((root / "usr/lib").glob("*/libboxlite.so.0")).parent
    env = {**os.environ, "LD_LIBRARY_PATH": str(triplet), "BOXLITE_HOME": str(tmp_path / "home"),
           "PKG_CONFIG_PATH": str(triplet / "pkgconfig"), "PKG_CONFIG_SYSROOT_DIR": str(root)}
    assert "libboxlite:" in run([root / "usr/bin/boxlite", "version"], env=env).stdout
    assert "--http" in run([root / "usr/bin/boxlite-mcp-server", "--help"], env=env).stdout
    flags = run(["pkg-config", "--cflags", "--libs", "boxlite"], env={**env, "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
                                                                     "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}).stdout.split()
    example = root / "usr/share/doc/libboxlite-dev/examples/hello.c"
    assert run(["cc", "-o", tmp_path / "hello", example, *flags]).returncode == 0
    done = run([tmp_path / "hello"], env=env)
    assert done.returncode == 125 and 'no kernel "default"' in done.stdout
    done = run(["/usr/bin/python3", "-c", "import boxlite; print(boxlite.__file__, boxlite.__version__)"],
               env={**env, "PYTHONPATH": str(root / "usr/lib/python3/dist-packages")}, cwd=tmp_path)
    assert str(root) in done.stdout, done.stdout
    for page in ("man1/boxlite.1.gz", "man1/boxlite-mcp-server.1.gz", "man3/libboxlite.3.gz", "man7/boxlite-home.7.gz"):
        assert (root / "usr/share/man" / page).exists(), page
    shutil.rmtree(root / "usr/lib/python3/dist-packages/boxlite/__pycache__", ignore_errors=True)
    dpkg(root, tools, "-P", "boxlite", "libboxlite-dev", "libboxlite0", "python3-boxlite")
    left = [str(p.relative_to(root)) for p in root.rglob("*") if not p.is_dir() and "var/lib/dpkg" not in str(p)]
    assert left == ["dpkg.log"]
    called = (tmp_path / "called").read_text()
    assert "py3compile -p python3-boxlite" in called and "py3clean -p python3-boxlite" in called
