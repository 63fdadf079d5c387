# SPDX-License-Identifier: Apache-2.0
"""build_native: the C source of boxlite._native, made from the public header so that the two cannot drift.

The header is run through the C preprocessor without its #include lines and with its attributes emptied; what is left are
the declarations that cffi reads. Its macros become constants whose values the compiler fills in. The C compiler then
checks each declaration against the header itself: a function that is gone or has another type fails the build. The
table of languages is the MCP server's own (src/mcp/languages.def).

Usage: build_native.py SOURCE-FOLDER OUTPUT.c
"""
import pathlib
import re
import subprocess
import sys

import cffi

# What the library calls: one Python function each, told apart by `data`.
CALLBACKS = """
extern "Python" void boxlite_sdk_done(void *, int, const boxlite_error *);
extern "Python" void boxlite_sdk_exec(void *, boxlite_exec *, uint32_t);
extern "Python" void boxlite_sdk_progress(void *, const char *, uint64_t, uint64_t);
extern "Python" void boxlite_sdk_transfer(void *, const boxlite_transfer_event *);

struct boxlite_sdk_language {
    const char *names[4], *extension, *tools, *how, *images[3];
};
extern const struct boxlite_sdk_language boxlite_sdk_languages[];
extern const char *const boxlite_sdk_language_script;
"""

SOURCE = """
#include <boxlite.h>
struct boxlite_sdk_language {
    const char *names[4], *extension, *tools, *how, *images[3];
};
#define LIST(...) {__VA_ARGS__}
#define LANGUAGE(names, extension, tools, how, images) {names, extension, tools, how, images},
static const struct boxlite_sdk_language boxlite_sdk_languages[] = {
#include "mcp/languages.def"
    {{0}},
};
#undef LANGUAGE
#define LANGUAGE_SCRIPT(text) static const char *const boxlite_sdk_language_script = text;
#include "mcp/languages.def"
"""


def declarations(header, compiler="cc"):
    """The header's declarations as cffi reads them."""
    text = re.sub(r"^\s*#\s*include.*$", "", header.read_text(encoding="utf-8"), flags=re.M)
    text = subprocess.run([compiler, "-E", "-P", "-xc", "-D__attribute__(x)=", "-"], input=text, check=True,
                          stdout=subprocess.PIPE, universal_newlines=True).stdout
    # ssize_t and friends are cffi's own.
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def constants(header):
    """Each numeric macro, its value left to the compiler."""
    names = re.findall(r"^#define (BOXLITE_[A-Z0-9_]+)[ \t]+\(?-?\d+u?\)?", header.read_text(encoding="utf-8"), re.M)
    return "".join(f"#define {name} ...\n" for name in names)


def builder(source):
    header = source / "include" / "boxlite.h"
    ffi = cffi.FFI()
    ffi.cdef(constants(header) + declarations(header) + CALLBACKS)
    ffi.set_source("boxlite._native", SOURCE)
    return ffi


def main():
    source, output = pathlib.Path(sys.argv[1]), sys.argv[2]
    builder(source).emit_c_code(output)


if __name__ == "__main__":
    main()
