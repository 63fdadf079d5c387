# SPDX-License-Identifier: Apache-2.0
"""The binary interface against the last release's, stored as tests/abi/libboxlite.abi (tools/abi-baseline renews it):
functions may come, none may go or change."""
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

BASELINE = ROOT / "tests/abi/libboxlite.abi"


def compare(baseline):
    if not shutil.which("abidiff"):
        pytest.skip("abidiff is missing (package abigail-tools)")
    return subprocess.run(["abidiff", "--no-added-syms", "--drop-private-types", "--headers-dir2", ROOT / "include", baseline,
                           BUILD / "libboxlite.so.0"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_nothing_went_and_nothing_changed():
    done = compare(BASELINE)
    assert done.returncode == 0, done.stdout


def test_a_function_that_went_is_seen(tmp_path):
    """The comparison can fail: a baseline with one function more."""
    spoilt = tmp_path / "spoilt.abi"
    text = BASELINE.read_text()
    symbol = re.search(r"<elf-symbol name='boxlite_version'[^>]*/>", text).group(0)
    spoilt.write_text(text.replace(symbol, symbol + symbol.replace("boxlite_version", "boxlite_that_was"), 1))
    done = compare(spoilt)
    assert done.returncode != 0 and "boxlite_that_was" in done.stdout
