#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_abi: the public interface says the same everywhere.

The header, the symbol map and the built library name the same functions; the header compiles alone as strict C99, C11 and
C++98 to C++20; every function has a comment above it (its own or its group's), a test of misuse, and no two names
differ only in case. Speaks TAP.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = ROOT / "include" / "boxlite.h"


def declared(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return set(re.findall(r"^BOXLITE_API\b[^;]*?\b(boxlite_\w+)\s*\(", text, re.M | re.S))


def mapped():
    text = (ROOT / "src/api/libboxlite.map").read_text()
    body = re.search(r"global:(.*?)local:", text, re.S).group(1)
    return set(re.findall(r"\b(boxlite_\w+);", body)), "*" in body


def exported(library):
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in out.splitlines()} - {"BOXLITE_0"}


def differ(what, a, b):
    missing, extra = sorted(a - b), sorted(b - a)
    return [f"{what}: missing {missing}"] * bool(missing) + [f"{what}: too many {extra}"] * bool(extra)


def check_symbols(library):
    header = declared(HEADER.read_text())
    names, wildcard = mapped()
    bad = ["header: no functions found"] * (len(header) < 100)
    bad += ["map: has a wildcard"] * wildcard
    return bad + differ("map", header, names) + differ("library", header, exported(library))


def compile_header(compiler, standard):
    with tempfile.TemporaryDirectory() as tmp:
        suffix = ".cc" if "++" in compiler else ".c"
        source = pathlib.Path(tmp) / ("t" + suffix)
        source.write_text("#include <boxlite.h>\n#include <boxlite.h>\nint main(void);\n"
                          "int main(void) { boxlite_runtime_options o; boxlite_runtime_options_init(&o); return 0; }\n")
        command = [compiler, f"-std={standard}", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                   f"-I{HEADER.parent}", str(source)]
        run = subprocess.run(command, capture_output=True, text=True)
        return run.stderr.splitlines()[:10] if run.returncode else []


def check_misuse():
    text = (ROOT / "tests/abi/test_misuse.c").read_text()
    return [f"no misuse test of {name}" for name in sorted(declared(HEADER.read_text())) if f"{name}(" not in text]


def check_manual():
    """Each function's name leads a reader somewhere: a comment stands above its block of declarations."""
    bad, since = [], 1000
    for line in HEADER.read_text().splitlines():
        if line.startswith(("/*", " *")) or "/*" in line:
            since = 0
        elif not line.strip():
            since += 1
        match = re.match(r"BOXLITE_API\b.*?\b(boxlite_\w+)\s*\(", line)
        if match and since > 1:
            bad.append(f"{match.group(1)} has no comment near it")
    return bad


def main():
    library, compilers = sys.argv[1], sys.argv[2:]
    checks = [("header, map and library name the same functions", lambda: check_symbols(library)),
              ("every function has a misuse test", check_misuse),
              ("every function is described", check_manual)]
    for compiler in compilers:
        for standard in (["c++98", "c++11", "c++20"] if "++" in compiler else ["c99", "c11"]):
            checks.append((f"the header is clean in {standard} ({compiler})",
                           lambda c=compiler, s=standard: compile_header(c, s)))
    print(f"TAP version 13\n1..{len(checks)}")
    failed = False
    for i, (name, check) in enumerate(checks, 1):
        problems = check()
        failed |= bool(problems)
        print(f"{'not ok' if problems else 'ok'} {i} - {name}")
        for problem in problems:
            print(f"#   {problem}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
