# SPDX-License-Identifier: Apache-2.0
"""CodeBox: programs in a box, in any language that its image has.

The table of languages and the script that runs them are the MCP server's own. Code goes in as a file that the command
brings along, in one round trip; a large one through the standard input of the shell that then becomes the interpreter.
Never in an argument.
"""
from __future__ import annotations

import itertools
import os
from typing import Any, Dict, List, NamedTuple, Optional, Set

from boxlite._boxlite import Boxlite
from boxlite._errors import InvalidArgumentError, text
from boxlite._execution import MAX_OUTPUT, Data, Env, ExecSpec, to_bytes
from boxlite._files import HostPath
from boxlite._native import ffi, lib
from boxlite._results import CodeResult, ExecResult
from boxlite._simple import SimpleBox

_BROUGHT = 1 << 20  # bytes that a command can bring along
_WORKSPACE = "/workspace"


class Language(NamedTuple):
    """How a language is run."""

    names: List[str]
    extension: str
    tools: str
    how: str


def _texts(pointers: Any) -> List[str]:
    return [text(pointer) for pointer in pointers if pointer != ffi.NULL]


def _read_table() -> Dict[str, Language]:
    found: Dict[str, Language] = {}
    for i in itertools.count():
        row = lib.boxlite_sdk_languages[i]
        names = _texts(row.names)
        if not names:
            return found
        language = Language(names, text(row.extension), text(row.tools), text(row.how))
        found.update((name, language) for name in names)
    raise AssertionError


class _Run(NamedTuple):
    """One run of a program, in the two ways that it can go in."""

    language: Language
    name: str
    code: memoryview
    stdin: Optional[memoryview]
    folder: Optional[str]

    @property
    def input_path(self) -> str:
        return f"/tmp/.stdin.{self.name}"

    def _argv(self, path: str, stdin: str) -> List[str]:
        return ["/bin/sh", "-c", text(lib.boxlite_sdk_language_script), "sh", path, self.language.tools, self.language.how,
                stdin, self.folder or ""]

    def bringing(self, env: Env, user: Optional[str], timeout: Optional[float]) -> ExecSpec:
        """The command brings the file along: one round trip, and its standard input is the program's."""
        path = os.path.join(self.folder or _WORKSPACE, self.name)
        return ExecSpec(self._argv(path, "-"), env, user, None, timeout, stdin=self.stdin is not None,
                        files=((path, self.code),))

    def saving(self, env: Env, user: Optional[str], timeout: Optional[float]) -> ExecSpec:
        """The shell saves its standard input as the file: any size, and /tmp where the folder cannot be written."""
        stdin = "" if self.stdin is None else self.input_path
        return ExecSpec(self._argv(self.name, stdin), env, user, None, timeout, stdin=True)


LANGUAGES = _read_table()


def languages() -> List[str]:
    """The proper names of all languages that `language=` takes."""
    return list(dict.fromkeys(language.names[0] for language in LANGUAGES.values()))


def find_language(name: str) -> Language:
    """By any of its names. `InvalidArgumentError` for one that is unknown."""
    try:
        return LANGUAGES[name.lower()]
    except KeyError:
        raise InvalidArgumentError(f"language: {name!r} is unknown", hint="one of " + ", ".join(languages())) from None


class CodeBox(SimpleBox):
    """A box that runs programs.

        async with boxlite.CodeBox(image="python:3.11-slim") as sandbox:
            result = await sandbox.run("print(6*7)")
            print(result, result.exit_code, result.stderr)

    Args: as `SimpleBox`; `language`: of the code that `run` is given, unless a call names another.
    """

    def __init__(self, image: str = "python:slim", memory_mib: Optional[int] = None, cpus: Optional[int] = None,
                 runtime: Optional[Boxlite] = None, language: str = "python", **kwargs: Any) -> None:
        super().__init__(image, memory_mib=memory_mib, cpus=cpus, runtime=runtime, **kwargs)
        self._language = find_language(language)
        self._files: Set[str] = set()  # of the runs under way

    async def run(self, code: str, timeout: Optional[float] = None, *, language: Optional[str] = None,
                  stdin: Optional[Data] = None, env: Env = None, user: Optional[str] = None, cwd: Optional[str] = None,
                  check: bool = False, max_output: int = MAX_OUTPUT) -> CodeResult:
        """Runs a program to its end.

        Args:
            code: its source; any size. Saved as /workspace/main.EXT (main_2.EXT beside another run), so that tests can
                import it.
            timeout: seconds, after which it is killed with all that it started; the result says `timed_out`.
            language: see `boxlite.languages()`; default: the box' own.
            stdin: bytes or text for its standard input; default: none.
            env, user, max_output: as for `exec`.
            cwd: folder to work in instead of /workspace.
            check: raise `ExecError` (or `TimeoutError`) unless it ends with exit code 0.

        Returns:
            A `str` equal to its standard output, with `.stdout`, `.stderr`, `.exit_code`, `.duration` (seconds) and
            `.timed_out`. Exit code 127: the image has none of the language's tools.
        """
        chosen = find_language(language) if language is not None else self._language
        name = self._take_name(chosen)
        how = _Run(chosen, name, to_bytes(code), None if stdin is None else to_bytes(stdin), cwd)
        try:
            result: Optional[ExecResult] = None
            if len(how.code) <= _BROUGHT:
                result = await self._run(how.bringing(env, user, timeout), stdin, False, max_output)
            if result is None or (result.exit_code == 126 and result.error_message):  # too large, or not to be written there
                if stdin is not None:
                    await self.write_file(how.input_path, stdin, 0o644)
                result = await self._run(how.saving(env, user, timeout), how.code, False, max_output)
        finally:
            self._files.discard(name)
        if check:
            result.check([chosen.names[0]])
        return CodeResult(result)

    def _take_name(self, language: Language) -> str:
        numbers = itertools.count(2)
        name = f"main.{language.extension}"
        while name in self._files:
            name = f"main_{next(numbers)}.{language.extension}"
        self._files.add(name)
        return name

    async def run_script(self, script_path: HostPath, timeout: Optional[float] = None, **options: Any) -> CodeResult:
        """Runs a program of the host by its path; further arguments as for `run`. Its language is the box' own unless its
        name says another."""
        path = os.fspath(script_path)
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            code = file.read()
        extension = os.path.splitext(path)[1].lstrip(".")
        if "language" not in options and extension:
            by_extension = {language.extension: language.names[0] for language in LANGUAGES.values()}
            options["language"] = by_extension.get(extension, self._language.names[0])
        return await self.run(code, timeout, **options)

    async def install_packages(self, *packages: str, timeout: Optional[float] = None, check: bool = False) -> CodeResult:
        """Installs Python packages with pip; the box needs a network (`network=True`). Returns what pip said."""
        for package in packages:
            if package.startswith("-"):
                raise InvalidArgumentError(f"packages: {package!r} is no package")
        result = await self.exec("python3", "-m", "pip", "install", "--disable-pip-version-check",
                                 "--root-user-action=ignore", *packages, timeout=timeout, check=check)
        return CodeResult(result)

    async def install_package(self, package: str, **options: Any) -> CodeResult:
        """The same for one package."""
        return await self.install_packages(package, **options)

    async def start(self) -> "CodeBox":
        """As `SimpleBox.start`."""
        await super().start()
        return self

