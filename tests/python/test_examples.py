# SPDX-License-Identifier: Apache-2.0
"""The examples of python/examples, run as they stand."""
import asyncio
import os
import sys

import pytest

from conftest import ROOT
from sdkhome import FAKE_IMAGE, PACKAGE, fake_home, python, sdk  # noqa: F401 (fixtures)

EXAMPLES = ROOT / "python/examples"


def test_side_by_side(sdk):
    done = python((EXAMPLES / "side_by_side.py").read_text(), FAKE_IMAGE)
    assert done.returncode == 0 and done.stdout.count("box ") == 3, done.stderr


def test_an_mcp_server_of_ones_own(sdk):
    pytest.importorskip("mcp.server.fastmcp", reason="the Python package mcp is missing")
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def main():
        server = StdioServerParameters(command=sys.executable, args=[str(EXAMPLES / "mcp_server.py"), FAKE_IMAGE],
                                       env={**os.environ, "PYTHONPATH": str(PACKAGE)})
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            answer = await session.call_tool("execute_code", {"code": "echo $((6*7))", "language": "sh"})
            assert "42" in answer.content[0].text
    asyncio.run(main())
