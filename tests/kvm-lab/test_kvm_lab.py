# SPDX-License-Identifier: Apache-2.0
"""Tests on a working KVM, all in one session of the lab (or directly, where this host has one).

Each test of lab_kvm.py, and each of the VM tests of others that are named here, is a test of its own in the report.
"""
import ast
import os
import pathlib
import subprocess
import tempfile
import xml.etree.ElementTree as ET

import pytest

from conftest import BOXLITE, BUILD, ROOT

pytestmark = pytest.mark.vm

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 900  # the last resort on a busy machine: 150 when it is quiet
# Tests of every engine that show most of a VM in few boots: the engine is `auto`, which is our own where KVM works.
OTHERS = (
    "tests/integration/test_cli_exec.py::test_forty_mebibytes_of_output_are_byte_exact",
    "tests/integration/test_cli_exec.py::test_both_streams_full_at_once",
    "tests/integration/test_cli_exec.py::test_a_slow_reader_loses_nothing",
    "tests/integration/test_cli_exec.py::test_time_out_kills_the_whole_tree",
    "tests/integration/test_cli_life.py::test_pause_holds_everything_still",
    "tests/integration/test_cli_run.py::test_user_network_is_there",
    "tests/integration/test_cli_run.py::test_memory_kill_is_said",
)


def own_tests():
    tree = ast.parse((HERE / "lab_kvm.py").read_text())
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


def kvm_works_here(home):
    done = subprocess.run([BOXLITE, "doctor"], env={**os.environ, "BOXLITE_HOME": str(home)}, capture_output=True, text=True)
    return "boxes run with kvm" in done.stdout


@pytest.fixture(scope="module")
def session(home):
    """name -> None if it passed, else what went wrong."""
    out = pathlib.Path(tempfile.mkdtemp(prefix="kvm-lab-"))
    report = out / "report.xml"
    argv = ["env", f"BOXLITE_TEST_HOME={home}", f"BOXLITE_BUILD={BUILD}", "PYTHONDONTWRITEBYTECODE=1",
            "/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tests = [*OTHERS, "tests/kvm-lab/lab_kvm.py"]
    if kvm_works_here(home):
        argv += ["--junitxml", str(report), *tests]
    else:
        lab = [HERE / "kvm-lab", "-t", str(SECONDS), "-o", out, "--"]
        argv = [*map(str, lab), *argv, "--junitxml", "/lab-out/report.xml", *tests]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode == 125:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert report.exists(), f"status {done.returncode}\n{done.stdout[-8000:]}"
    results = {}
    for case in ET.parse(report).iter("testcase"):
        bad = [e for kind in ("failure", "error", "skipped") for e in case.findall(kind)]
        results[case.get("name")] = "".join(f"{e.get('message')}\n{e.text or ''}" for e in bad) or None
    return results


@pytest.mark.parametrize("name", [t.split("::")[1] for t in OTHERS] + own_tests())
def test_on_kvm(session, name):
    assert name in session, f"it did not run; these did: {sorted(session)}"
    assert session[name] is None, session[name]
