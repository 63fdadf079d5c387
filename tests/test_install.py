# SPDX-License-Identifier: Apache-2.0
"""`make install`: what a packager's or a user's hands get is whole, and works."""
import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT


@pytest.fixture(scope="module")
def prefix():
    """The one that the build folder was set up for: another would build it anew."""
    return re.search(r'"(.*)/libexec/boxlite"', (BUILD / "config.h").read_text()).group(1)


def make_install(prefix, destdir, path=None):
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    return subprocess.run(["make", "--no-print-directory", "install", f"BUILD={BUILD}", f"PREFIX={prefix}",
                           f"DESTDIR={destdir}"], cwd=ROOT, env=env, text=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture(scope="module")
def installed(prefix, tmp_path_factory):
    if not os.access(BUILD, os.W_OK):
        pytest.skip("the build folder is not writable")
    root = tmp_path_factory.mktemp("root")
    done = make_install(prefix, root)
    assert done.returncode == 0, done.stdout
    return root


def test_all_is_there_below_the_prefix(installed, prefix):
    top = installed / prefix.lstrip("/")
    names = {str(p.relative_to(top)) for p in top.rglob("*") if not p.is_dir()}
    for name in ("bin/boxlite", "bin/boxlite-mcp-server", "libexec/boxlite/boxlite-shim", "include/boxlite.h",
                 "libexec/boxlite/boxlite-agent", "libexec/boxlite/boxlite-share", "share/man/man1/boxlite.1",
                 "share/man/man3/libboxlite.3",
                 "share/bash-completion/completions/boxlite", "share/zsh/site-functions/_boxlite"):
        assert name in names, name
    assert any(name.endswith("pkgconfig/boxlite.pc") for name in names)


def test_a_program_is_compiled_against_it(installed, tmp_path):
    library, pc = next(installed.rglob("libboxlite.so.0")), next(installed.rglob("boxlite.pc"))
    env = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(installed),
           "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "boxlite"], env=env, check=True, text=True,
                           stdout=subprocess.PIPE).stdout.split()
    subprocess.run(["cc", "-o", tmp_path / "hello", ROOT / "examples/hello.c", *flags], check=True)
    done = subprocess.run([tmp_path / "hello"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "LD_LIBRARY_PATH": str(library.parent),
                               "BOXLITE_HOME": str(tmp_path / "home")})
    assert done.returncode == 125 and 'no kernel "default"' in done.stderr


def test_another_prefix_than_the_build_folders_is_built_before_it_is_installed(tmp_path):
    """It was installed below the old one. The tools here only say how they are called."""
    for tool in ("meson", "ninja"):
        (tmp_path / tool).write_text(f'#!/bin/sh\necho "{tool} $*; DESTDIR=$DESTDIR"\n')
        (tmp_path / tool).chmod(0o755)
    done = make_install("/opt/elsewhere", tmp_path / "root", path=tmp_path)
    assert done.returncode == 0, done.stdout
    steps = done.stdout.splitlines()
    assert steps[0].startswith(f"meson configure {BUILD} --prefix=/opt/elsewhere;")
    assert steps[1].startswith(f"ninja -C {BUILD};")
    assert steps[2] == f"meson install -C {BUILD} --no-rebuild --quiet; DESTDIR={tmp_path}/root"
