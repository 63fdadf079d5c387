# SPDX-License-Identifier: Apache-2.0
"""Machines: the tutorial page is run block by block, and the example of the package's page as it stands."""
import re

import pytest

from conftest import ROOT, Cli
from sdkhome import python

pytestmark = pytest.mark.vm


def blocks():
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.M | re.S)


def test_the_tutorial(home):
    done = python("\n".join(blocks()), env={"BOXLITE_HOME": str(home)}, flags=(), timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and Cli(home).boxes() == []


EXAMPLE = """
import asyncio, boxlite
async def main():
    async with boxlite.CodeBox(image="boxlite/base:bookworm") as sandbox:
        result = await sandbox.run("print(6*7)")
        tests = await sandbox.exec("python3", "-m", "unittest", "-v", cwd="/workspace")
        print(result.stdout, result.stderr, result.exit_code, tests.exit_code == 0)
        again = await sandbox.run("import time; time.sleep(100)", timeout=1)
        print(again.timed_out, again.exit_code)
    async with boxlite.SimpleBox(image="boxlite/base:bookworm") as box:
        r = await box.exec("bash", "-c", "echo $HOME; pwd", cwd="/tmp")
        print(r.stdout, r.stderr, r.exit_code)
        async with await box.spawn("sh", "-c", "stty size; read x; stty size", stdin=True, tty=True, size=(30, 90)) as terminal:
            lines, stdin = terminal.stdout().lines(), terminal.stdin()
            first = await lines.__anext__()
            await terminal.resize_tty(40, 100)
            await stdin.send_input("\\n")
            rest = [line async for line in lines]
            print(first.strip(), rest[-1].strip())
asyncio.run(main())
"""


def test_the_example(home):
    done = python(EXAMPLE, env={"BOXLITE_HOME": str(home)}, flags=("-W", "error"), timeout=300)
    assert done.stdout == "42\n  0 True\nTrue 124\n/root\n/tmp\n  0\n30 90 40 100\n", done.stderr
