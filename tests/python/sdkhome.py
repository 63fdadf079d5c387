# SPDX-License-Identifier: Apache-2.0
"""For the tests of the Python SDK: the package of the build folder, and a home whose boxes are the fake shim's: real library,
real supervisor, commands as processes of this host. So most promises are tested in milliseconds, without machines.
"""
import asyncio
import gc
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import pytest

from conftest import BUILD, Cli, home_processes, wait_until

PACKAGE = BUILD / "python"
FAKESHIM = BUILD / "tests" / "fakeshim"
FAKE_IMAGE = "test/fake:latest"

if not (PACKAGE / "boxlite" / "_native.abi3.so").exists():
    pytest.skip("the Python SDK is not built: python3-cffi or python3-dev is missing", allow_module_level=True)
sys.path.insert(0, str(PACKAGE))


def make_fake_home(path):
    """A home with a kernel that is none and an image with one folder."""
    kernel = path / "kernels" / "default"
    kernel.mkdir(parents=True, mode=0o700)
    for name in ("vmlinux", "initramfs", "modules.cpio"):
        (kernel / name).write_text("x")
    (kernel / "kernel.json").write_text(json.dumps({"release": "6.1"}))
    image = path / "image.tar"
    with tarfile.open(image, "w") as archive:
        folder = tarfile.TarInfo("etc")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
    Cli(path).ok("image", "import", image, FAKE_IMAGE)
    image.unlink()


@pytest.fixture(scope="session")
def fake_home():
    with tempfile.TemporaryDirectory(prefix="boxlite-sdk-") as folder:
        path = pathlib.Path(folder) / "home"
        make_fake_home(path)
        yield path
        wait_until(lambda: not home_processes(path), what="the boxes of the SDK's tests to end")


@pytest.fixture
def sdk(fake_home, monkeypatch):
    """The package, its default runtime on the fake home. After the test nothing is left: no box, no descriptor."""
    monkeypatch.setenv("BOXLITE_HOME", str(fake_home))
    monkeypatch.setenv("BOXLITE_LIBEXEC", str(FAKESHIM))
    import boxlite
    gc.collect()
    before = descriptors()
    yield boxlite
    gc.collect()
    left = Cli(fake_home).boxes()
    Cli(fake_home).remove_all()  # the next test is not to suffer
    assert left == []
    assert descriptors() <= before, "descriptors are left"


def descriptors():
    """Open descriptors of this process, but those of the loop behind boxlite.sync, which stays."""
    return len(os.listdir("/proc/self/fd"))


def run(work):
    """asyncio.run with a deadline."""
    async def limited():
        return await asyncio.wait_for(work, 60)
    return asyncio.run(limited())


def python(code, *args, env=None, flags=("-X", "dev", "-W", "error"), timeout=60, **kw):
    """The finished process of a program that uses the package."""
    return subprocess.run([sys.executable, *flags, "-c", code, *map(str, args)], text=True, capture_output=True,
                          timeout=timeout, env={**os.environ, "PYTHONPATH": str(PACKAGE), **(env or {})}, **kw)


def tar_of(*entries):
    """An archive as a hostile guest sends it: of (TarInfo fields, data)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for fields, data in entries:
            info = tarfile.TarInfo()
            for name, value in fields.items():
                setattr(info, name, value)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
