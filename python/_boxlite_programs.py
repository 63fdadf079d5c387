# SPDX-License-Identifier: Apache-2.0
"""The programs that a wheel brings along, as commands of its environment: `boxlite` and `boxlite-mcp-server`.

Outside the package, so that they start without it: they need no Python library.
"""
from __future__ import annotations

import os
import sys
from typing import NoReturn


def _become(name: str) -> NoReturn:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boxlite", "bin", name)
    try:
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {path}: {error.strerror}\nhint: install the wheel again, or use the system's {name}")


def boxlite() -> NoReturn:
    _become("boxlite")


def mcp_server() -> NoReturn:
    _become("boxlite-mcp-server")
