# SPDX-License-Identifier: Apache-2.0
"""Tests on a working KVM, all in one session of the lab (or directly, where this host has one).

Each test of lab_kvm.py, and each of the VM tests of others that are named here, is a test of its own in the report.
"""
import ast
import os
import pathlib
import re
import subprocess

import pytest

from conftest import BOXLITE, BUILD, ROOT

pytestmark = pytest.mark.vm

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 345  # of the lab; a quiet machine needs about half of it
NO_LAB, NO_ANSWER = 125, 124  # statuses of kvm-lab
# Tests of every engine that show most of a VM in few boots: the engine is `auto`, which is our own where KVM works.
OTHERS = (
    "tests/integration/test_cli_exec.py::test_forty_mebibytes_of_output_are_byte_exact",
    "tests/integration/test_cli_exec.py::test_both_streams_full_at_once",
    "tests/integration/test_cli_exec.py::test_a_slow_reader_loses_nothing",
    "tests/integration/test_cli_exec.py::test_time_out_kills_the_whole_tree",
    "tests/integration/test_cli_life.py::test_pause_holds_everything_still",
    "tests/integration/test_cli_run.py::test_user_network_is_there",
    "tests/integration/test_cli_memory.py::test_memory_kill_is_said",
)


def own_tests():
    tree = ast.parse((HERE / "lab_kvm.py").read_text())
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


def kvm_works_here(home):
    done = subprocess.run([BOXLITE, "doctor"], env={**os.environ, "BOXLITE_HOME": str(home)}, capture_output=True, text=True)
    return "boxes run with kvm" in done.stdout


# What runs in the lab lies in its memory: a process that is killed while it waits for a page from the host's files (9p)
# never ends, and boxlite-vmm maps its own program and the guest's kernel.
PROGRAMS = ("bin", "libexec", "boxlite-shim", "libboxlite.so*", "src/cli/boxlite", "src/mcp/boxlite-mcp-server",
            "src/guest/boxlite-agent", "src/vmm/kvm/boxlite-vmm", "tests/unit/test_vmm_kvm")
COPY = 'cd "$1" && mkdir /dev/shm/build && cp -a --parents $3 /dev/shm/build && cp -a "$2" /dev/shm/home && cd "$4"'


class Session:
    """What one run of all tests said, line by line, so that a lab that stops answering loses only what it had left."""
    LINE = re.compile(r"::(\w+)(?:\[\S*\])? (PASSED|FAILED|ERROR|SKIPPED)")

    def __init__(self, argv):
        done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
        self.status, self.output = done.returncode, done.stdout
        self.results = {name: result for name, result in self.LINE.findall(self.output)}

    def check(self, name):
        if self.status == NO_LAB:
            pytest.skip(self.output.strip().splitlines()[-1])
        if self.status == NO_ANSWER and name not in self.results:
            pytest.skip(f"the lab's machine did not get to it within {SECONDS} s")
        assert self.results.get(name) == "PASSED", self.output[-8000:]


@pytest.fixture(scope="module")
def session(home):
    here = kvm_works_here(home)
    argv = ["env", f"BOXLITE_TEST_HOME={home if here else '/dev/shm/home'}",
            f"BOXLITE_BUILD={BUILD if here else '/dev/shm/build'}", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
            "/usr/bin/python3", "-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider",
            "tests/kvm-lab/lab_kvm.py", *OTHERS]
    if not here:
        lab = [str(HERE / "kvm-lab"), "-t", str(SECONDS), "--", "sh", "-c", f'{COPY} && shift 4 && exec "$@"', "sh"]
        argv = [*lab, str(BUILD), str(home), " ".join(PROGRAMS), str(ROOT), *argv]
    return Session(argv)


@pytest.mark.parametrize("name", own_tests() + [t.split("::")[1] for t in OTHERS])
def test_on_kvm(session, name):
    session.check(name)
