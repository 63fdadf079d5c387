#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""side_by_side.py [IMAGE]: several boxes at once from one event loop, each with a program of its own."""
import asyncio
import sys

import boxlite

IMAGE = sys.argv[1] if len(sys.argv) > 1 else "python:3.12-slim"


async def work(number):
    async with boxlite.SimpleBox(image=IMAGE) as box:
        result = await box.exec("sh", "-c", f"echo box {number} is $(hostname)", check=True)
        return result.stdout.strip()


async def main():
    for line in await asyncio.gather(*(work(i) for i in range(3))):
        print(line)


asyncio.run(main())
