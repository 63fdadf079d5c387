# SPDX-License-Identifier: Apache-2.0
"""The wheel: built from this build, installed into an empty environment without network, and used with no checkout in reach."""
import base64
import hashlib
import importlib.metadata
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from conftest import BUILD, ROOT
from test_tutorial import EXAMPLE


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not shutil.which("patchelf"):
        pytest.skip("patchelf is missing")
    target = tmp_path_factory.mktemp("wheel")
    done = subprocess.run([ROOT / "tools/wheel", BUILD, target], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return pathlib.Path(done.stdout.strip())


def cffi_wheel(folder):
    """What cffi the system has, as the wheel that an index would give."""
    import _cffi_backend
    module, version = pathlib.Path(_cffi_backend.__file__), importlib.metadata.version("cffi")
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}-cp{sys.version_info[0]}{sys.version_info[1]}-linux_{os.uname().machine}"
    info = f"cffi-{version}.dist-info"
    with zipfile.ZipFile(folder / f"cffi-{version}-{tag}.whl", "w") as made:
        made.write(module, module.name)
        made.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: cffi\nVersion: {version}\n")
        made.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n")
        made.writestr(f"{info}/RECORD", "")


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """bin/ of a new environment with nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("venv")
    cffi_wheel(wheel.parent)
    done = subprocess.run([sys.executable, "-m", "venv", folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        pytest.skip(f"no virtual environment can be made (package python3-venv): {done.stdout[-200:]}")
    done = subprocess.run([folder / "bin/pip", "install", "--no-index", "--find-links", wheel.parent, "--no-compile",
                           "--disable-pip-version-check", "boxlite"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder)
    assert done.returncode == 0, done.stdout
    return folder / "bin"


def run(environment, *argv, home, timeout=200):
    """With no other environment, and away from the checkout."""
    return subprocess.run(list(map(str, argv)), text=True, capture_output=True, timeout=timeout, cwd="/",
                          env={"PATH": f"{environment}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), "BOXLITE_HOME": str(home)})


def test_the_wheel_is_well_formed(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as made:
        names = made.namelist()
        record = made.read(next(n for n in names if n.endswith("/RECORD"))).decode().splitlines()
        assert sorted(line.split(",")[0] for line in record) == sorted(names)
        for line in record:
            name, digest, _size = line.rsplit(",", 2)
            if digest:
                actual = base64.urlsafe_b64encode(hashlib.sha256(made.read(name)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={actual}", name
        for name in ("boxlite/py.typed", "boxlite/sync.py", "boxlite/lib/libexec/boxlite-shim", "boxlite/bin/boxlite",
                     "boxlite/lib/libexec/boxlite-agent", "boxlite/bin/boxlite-mcp-server", "boxlite/lib/libboxlite.so.0"):
            assert name in names
    again = subprocess.run([ROOT / "tools/wheel", BUILD, tmp_path], text=True, check=True, stdout=subprocess.PIPE).stdout.strip()
    assert pathlib.Path(again).read_bytes() == wheel.read_bytes(), "the same input gives the same bytes"


def test_it_needs_nothing_of_the_system_but_the_c_library(environment):
    package = next(environment.parent.glob("lib/python*/site-packages/boxlite"))
    for file in [*package.glob("*.so"), *package.glob("lib/*.so*"), *package.glob("bin/*"), package / "lib/libexec/boxlite-shim"]:
        for line in subprocess.run(["ldd", file], text=True, stdout=subprocess.PIPE).stdout.splitlines():
            if "=>" in line:
                name, where = line.split("=>")
                assert "not found" not in where, line
                assert str(package) in where or name.strip().split(".so")[0] in (
                    "libc", "libm", "libdl", "libpthread", "librt", "libresolv", "libgcc_s"), line


def test_its_programs_run(environment, tmp_path):
    assert run(environment, "boxlite", "version", home=tmp_path).stdout.startswith("boxlite:")
    assert "--http" in run(environment, "boxlite-mcp-server", "--help", home=tmp_path).stdout
    assert "setup" in run(environment, "boxlite", "--help", home=tmp_path).stdout


@pytest.mark.vm
def test_the_example_runs_far_from_the_checkout(environment, home):
    done = run(environment, environment / "python", "-c", EXAMPLE, home=home)
    assert done.stdout.startswith("42\n  0 True\nTrue 124\n/root\n/tmp\n  0\n"), done.stderr
    done = run(environment, "boxlite", "run", "--rm", "boxlite/base:bookworm", "echo", "cli", home=home)
    assert done.stdout == "cli\n", done.stderr
