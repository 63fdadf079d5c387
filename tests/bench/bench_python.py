#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench_python: what the Python SDK adds to the C library, in the same minute on the same box, in turns.

Usage: bench_python.py IMAGE [ROUNDS]. $BOXLITE_HOME (and $BOXLITE_LIBEXEC) as for the programs.
"""
import asyncio
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build" / "python"))


def import_ms():
    """Median of importing boxlite in a fresh interpreter, less that of an interpreter that imports nothing."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "build/python")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled once

    def median(code):
        took = []
        for _ in range(9):
            start = time.monotonic()
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            took.append(time.monotonic() - start)
        return statistics.median(took) * 1000
    nothing, asyncio_ms, ours = median("pass"), median("import asyncio"), median("import boxlite")
    return {"import boxlite (ms)": ours - nothing, "of it asyncio": asyncio_ms - nothing}


async def in_python(box, rounds):
    took = []
    for _ in range(rounds):
        start = time.monotonic()
        assert (await box.exec("true")).exit_code == 0
        took.append((time.monotonic() - start) * 1e6)
    return statistics.median(took)


async def in_c(name, rounds):
    process = await asyncio.create_subprocess_exec(ROOT / "build/tests/bench/bench_exec", name, str(rounds), "1",
                                                   stdout=asyncio.subprocess.PIPE)
    return json.loads((await process.communicate())[0])["round_trip_us"]


async def main():
    import boxlite
    image, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30
    figures = import_ms()
    async with boxlite.SimpleBox(image=image) as box:
        await in_python(box, 5)
        pairs = [(await in_python(box, rounds), await in_c(box.name, rounds)) for _ in range(3)]
        ours, theirs = (statistics.median(column) for column in zip(*pairs))
        figures.update({"exec of true, Python (us)": ours, "the same, C library (us)": theirs, "ratio": ours / theirs})
        start = time.monotonic()
        await asyncio.gather(*(box.exec("true") for _ in range(50)))
        figures["50 execs at once (ms)"] = (time.monotonic() - start) * 1000
    print(json.dumps(figures, indent=1))


asyncio.run(main())
