#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mcp_server.py: an MCP server in Python on top of the SDK: one tool that runs code in a micro-VM, over stdio.

Needs the package `mcp`. BoxLite's own server, boxlite-mcp-server, has more tools and no need of Python; this shows how little
a server of your own takes.

    codex mcp add boxes -- python3 mcp_server.py [IMAGE]
"""
import sys

import boxlite
from mcp.server.fastmcp import FastMCP

server = FastMCP("boxes")
IMAGE = sys.argv[1] if len(sys.argv) > 1 else "python:3.12-slim"
_box = None


async def box():
    """The one box of this session, started by its first use; it ends with the server."""
    global _box
    if _box is None:
        _box = await boxlite.CodeBox(image=IMAGE).start()
    return _box


@server.tool()
async def execute_code(code: str, language: str = "python", timeout_seconds: float = 120) -> dict:
    """Runs a program in a micro-VM, away from this machine. Files of earlier calls are still there, in /workspace."""
    try:
        result = await (await box()).run(code, timeout_seconds, language=language)
    except boxlite.BoxliteError as error:
        return {"error": error.message, "hint": error.hint}
    return {"stdout": result.stdout, "stderr": result.stderr, "exit_code": result.exit_code, "timed_out": result.timed_out}


if __name__ == "__main__":
    server.run()
