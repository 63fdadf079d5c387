# SPDX-License-Identifier: Apache-2.0
"""The same classes for programs without an event loop.

    from boxlite.sync import CodeBox

    with CodeBox(image="python:3.11-slim") as sandbox:
        print(sandbox.run("print(6*7)").stdout)

Every call blocks its own thread only. All of them are served by one event loop in a thread of this package, started by the
first call: so they work in any number of threads, and inside a running loop (a notebook) too, which they block as any
blocking call would. An interrupt (ctrl-C) cancels the call, which ends its command. At exit all boxes that were started
attached end. After fork() the child has a loop of its own. Arguments, results and errors are those of the asynchronous
classes.

This file is made by tools/sdk-sync.
"""
from __future__ import annotations

import os
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from boxlite import _box, _boxlite, _code, _execution, _files, _images, _interactive, _simple
from boxlite._blocking import Wrapper, call, iterate, run
from boxlite._box import STOP_TIMEOUT, TTY_SIZE
from boxlite._execution import MAX_OUTPUT, Data, Env, Output
from boxlite._files import HostPath
from boxlite._info import BoxInfo, BoxMetrics, ImageInfo, RuntimeMetrics
from boxlite._options import BoxOptions, CopyOptions, Options
from boxlite._results import CodeResult, ExecResult
from boxlite._runtime import ProgressFn

__all__ = ["Box", "Boxlite", "CodeBox", "ExecStdin", "Execution", "ImageHandle", "InteractiveBox", "OutputStream", "SimpleBox"]


def _optional(box: Optional[_box.Box]) -> Optional[Box]:
    return None if box is None else Box(box)


def _pair(pair: Tuple[_box.Box, bool]) -> Tuple[Box, bool]:
    return Box(pair[0]), pair[1]


class ExecStdin(Wrapper[_execution.ExecStdin]):
    """The standard input of a command."""

    def send_input(self, data: Data) -> None:
        """Gives all of `data` (text as UTF-8), waiting while the command does not read. Raises `InvalidStateError` when
        it takes no more."""
        run(lambda: self._async.send_input(data))

    def close(self) -> None:
        """Its end, after all that was sent."""
        run(lambda: self._async.close())

    def is_closed(self) -> bool:
        """Whether its end was sent."""
        return call(self._async.is_closed)


class OutputStream(Wrapper[_execution.OutputStream]):
    """One output of a command: an iterator of text pieces, as they come. A character is never cut in two;
    what is no UTF-8 is replaced by U+FFFD. `chunks()` and `read()` give exact bytes."""

    def read_chunk(self) -> bytes:
        """The next piece as bytes, b"" at the end."""
        return run(lambda: self._async.read_chunk())

    def read(self, limit: int=MAX_OUTPUT) -> bytes:
        """All of the rest as bytes; more than `limit` of them raise `ResourceExhaustedError`."""
        return run(lambda: self._async.read(limit))

    def chunks(self) -> Iterator[bytes]:
        """Iterates over pieces of bytes as they come."""
        return iterate(self._async.chunks())

    def lines(self) -> Iterator[str]:
        """Iterates over lines of text, without their ends."""
        return iterate(self._async.lines())

    def __iter__(self) -> Iterator[str]:
        return iterate(self._async)


class Execution(Wrapper[_execution.Execution]):
    """A command that runs, or ran, in a box. Closing it, or losing the last reference, kills the command with all that it
    started, unless it has ended or is detached."""

    def communicate(self, input: Optional[Data]=None, *, max_output: int=MAX_OUTPUT) -> ExecResult:
        """Gives it `input`, takes all of its output, waits for its end. A cancelled caller kills it.

        Args:
            input: bytes, or text that goes as UTF-8. Its standard input ends after it.
            max_output: bytes of each stream; one more kills the command and raises `ResourceExhaustedError`.
        """
        return run(lambda: self._async.communicate(input, max_output=max_output))

    def id(self) -> str:
        """Its number in the box as text, for `Box.attach`; "0" until it runs."""
        return call(self._async.id)

    def stdin(self) -> ExecStdin:
        """Its standard input. Can be taken once."""
        return ExecStdin(call(self._async.stdin))

    def stdout(self) -> OutputStream:
        """Its standard output (with a terminal: all of its output). Can be taken once."""
        return OutputStream(call(self._async.stdout))

    def stderr(self) -> OutputStream:
        """Its standard error. Can be taken once."""
        return OutputStream(call(self._async.stderr))

    def output(self) -> Iterator[Output]:
        """Iterates over both outputs in the order in which they arrive."""
        return iterate(self._async.output())

    def wait(self) -> ExecResult:
        """Its end. Output that nobody has taken is dropped (it stays in the box: `Box.attach` shows it), and a standard
        input that nobody has taken is closed. A cancelled wait leaves the command running."""
        return run(lambda: self._async.wait())

    def signal(self, signo: int) -> None:
        """Sends it a signal (Linux numbers). SIGKILL ends all that it has started, too."""
        run(lambda: self._async.signal(signo))

    def kill(self, signal: int=9) -> None:
        """`signal(SIGKILL)`, unless another is named."""
        run(lambda: self._async.kill(signal))

    def resize_tty(self, rows: int, cols: int) -> None:
        """Tells its terminal a new size."""
        run(lambda: self._async.resize_tty(rows, cols))

    def close(self) -> None:
        """Frees it: kills the command unless it has ended or is detached."""
        call(self._async.close)

    def __enter__(self) -> Execution:
        run(self._async.__aenter__)
        return self

    def __exit__(self, *exc: Any) -> None:
        run(lambda: self._async.__aexit__(*exc))


class Box(Wrapper[_box.Box]):
    """A handle on a box, made by `Boxlite`. As `with`, it starts the box and stops it at the end.

    Losing the handle does not end the box: a box that was started attached ends with its runtime, a detached one goes on.
    """

    @property
    def id(self) -> str:
        """Its id, sixteen hexadecimal digits."""
        return call(lambda: self._async.id)

    @property
    def name(self) -> str:
        """Its name; one was made up if none was given."""
        return call(lambda: self._async.name)

    def start(self) -> None:
        """Boots it and waits until the guest answers. Nothing happens if it runs already. A cancelled caller has the box
        stopped again."""
        run(lambda: self._async.start())

    def stop(self, timeout: float=STOP_TIMEOUT) -> None:
        """Stops it: its main command has `timeout` seconds to end, its disk is synced. Nothing happens if it is stopped."""
        run(lambda: self._async.stop(timeout))

    def remove(self, force: bool=False) -> None:
        """Removes it with all that was written in it; `force`: also if it runs. Nothing happens if it is gone."""
        run(lambda: self._async.remove(force))

    def pause(self) -> None:
        """Holds it still, with all its memory. `InvalidStateError` unless it runs."""
        run(lambda: self._async.pause())

    def resume(self) -> None:
        """Lets a paused box go on."""
        run(lambda: self._async.resume())

    def info(self) -> BoxInfo:
        """What is known of it now. `NotFoundError`: it was removed."""
        return run(lambda: self._async.info())

    def status(self) -> str:
        """created, starting, running, paused, stopping, stopped, or removed."""
        return run(lambda: self._async.status())

    def metrics(self) -> BoxMetrics:
        """Figures of it: see `BoxMetrics`."""
        return run(lambda: self._async.metrics())

    def exec(self, command: str, args: Optional[Sequence[str]]=None, env: Env=None, tty: bool=False, user: Optional[str]=None, timeout_secs: Optional[float]=None, cwd: Optional[str]=None, *, stdin: bool=True, detach: bool=False, size: Tuple[int, int]=TTY_SIZE, rlimits: Optional[Mapping[int, Tuple[int, int]]]=None) -> Execution:
        """Starts a command and returns at once.

        Args:
            command, args: its argument vector; no shell is involved.
            env: a mapping or (name, value) pairs, added to the box' own.
            tty: with a terminal of `size` (rows, columns); all output then comes as stdout.
            user: NAME-OR-UID[:GROUP-OR-GID].
            timeout_secs: it is killed with all that it started after so long.
            cwd: folder in which it starts.
            stdin: it has a standard input that `Execution.stdin()` writes; else it reads end of file.
            detach: it goes on when the Execution is closed.
            rlimits: {resource number of Linux: (soft, hard)}.

        A command that cannot be started ends with exit code 126 or 127. A box that was never started is started.
        """
        return Execution(run(lambda: self._async.exec(command, args, env, tty, user, timeout_secs, cwd, stdin=stdin, detach=detach, size=size, rlimits=rlimits)))

    def attach(self, number: Union[int, str]) -> Execution:
        """Any command of the box by its number (`Execution.id()`), also one that another process started, from the
        beginning of its kept output, without its input. Closing it leaves the command alone."""
        return Execution(run(lambda: self._async.attach(number)))

    def main(self) -> Execution:
        """The main command of a box that has one (`BoxOptions.main`): its output from the beginning, its input, its end.
        Works after the box has stopped, too."""
        return Execution(run(lambda: self._async.main()))

    def copy_in(self, host_path: _files.HostPath, container_dest: str, options: Optional[CopyOptions]=None) -> None:
        """Copies a file or folder into the box by the rules of `docker cp`: into an existing folder, else to that name; a
        source that ends with "/." gives its contents only. Owners become root; modes, times and links are kept."""
        run(lambda: self._async.copy_in(host_path, container_dest, options))

    def copy_out(self, container_src: str, host_dest: _files.HostPath, options: Optional[CopyOptions]=None) -> None:
        """Copies a file or folder out of the box, likewise; owners become the calling user. What comes never leaves the
        target folder; `IntegrityError` when the box tries."""
        run(lambda: self._async.copy_out(container_src, host_dest, options))

    def read_file(self, path: str, max_bytes: int=256 << 20) -> bytes:
        """The bytes of a file of the box. More than `max_bytes` of them raise `ResourceExhaustedError`."""
        return run(lambda: self._async.read_file(path, max_bytes))

    def write_file(self, path: str, data: Data, mode: int=420) -> None:
        """Writes a file in the box (text as UTF-8), replacing one that is there. Folders that are missing are made."""
        run(lambda: self._async.write_file(path, data, mode))

    def close(self) -> None:
        """Frees the handle; the box goes on."""
        call(self._async.close)

    def __enter__(self) -> Box:
        run(self._async.__aenter__)
        return self

    def __exit__(self, *exc: Any) -> None:
        run(lambda: self._async.__aexit__(*exc))


class ImageHandle(Wrapper[_images.ImageHandle]):
    """The images of a home: `runtime.images`."""

    def list(self) -> List[ImageInfo]:
        """All local images."""
        return run(lambda: self._async.list())

    def get(self, reference: str) -> Optional[ImageInfo]:
        """A local image by NAME[:TAG], digest, or unique id of twelve digits or more; None: there is none."""
        return run(lambda: self._async.get(reference))

    def load(self, path: HostPath, reference: Optional[str]=None, progress: Optional[ProgressFn]=None) -> List[ImageInfo]:
        """Loads an OCI image layout (folder or tar) or a `docker save` archive: all images in it. `reference` names one
        that carries no name of its own. `progress(what, done_bytes, total_bytes)` is told how far it is."""
        return run(lambda: self._async.load(path, reference, progress))

    def import_rootfs(self, path: HostPath, reference: str, *, cmd: Sequence[str]=(), entrypoint: Sequence[str]=(), env: Env=None, working_dir: Optional[str]=None, user: Optional[str]=None, progress: Optional[ProgressFn]=None) -> ImageInfo:
        """Makes an image from a tar of a root file system (plain, gzip or zstd)."""
        return run(lambda: self._async.import_rootfs(path, reference, cmd=cmd, entrypoint=entrypoint, env=env, working_dir=working_dir, user=user, progress=progress))

    def remove(self, reference: str, force: bool=False) -> None:
        """Removes a name, and the image with its last name. `BusyError` while a box uses it, unless `force`."""
        run(lambda: self._async.remove(reference, force))

    def import_kernel(self, path: HostPath, name: Optional[str]=None, modules_dir: Optional[HostPath]=None) -> None:
        """Imports a guest kernel: a Debian kernel package, a vmlinuz (with its modules folder) or a vmlinux. Replaces one of
        that name (default: "default")."""
        run(lambda: self._async.import_kernel(path, name, modules_dir))

    def pull(self, reference: str, progress: Optional[ProgressFn]=None, *, platform: Optional[str]=None) -> ImageInfo:
        """Brings an image from its registry (docker.io unless the reference names one), also if it is here already: what has
        not changed is not fetched again. Credentials are those of `Options.image_registries`, else of Docker's and Podman's
        files. `progress(part, done_bytes, total_bytes)`. A cancelled caller ends the transfer. `AuthError`, `NotFoundError`,
        `NetworkError`, `UnsupportedError` (not for this host), `IntegrityError`."""
        return run(lambda: self._async.pull(reference, progress, platform=platform))


class Boxlite(Wrapper[_boxlite.Boxlite]):
    """A runtime on one home directory; several may use one home at once, in one process or in many.

    It belongs to the thread and event loop that first uses it. When it is closed, or its loop shuts down, the boxes that it
    started attached end. `Boxlite.default()` is the one that `SimpleBox` and `CodeBox` use.
    """

    def __init__(self, options: Optional[Options]=None) -> None:
        super().__init__(call(_boxlite.Boxlite, options))

    @classmethod
    def default(cls) -> Boxlite:
        """The runtime of the running event loop, made on first use with the options of `init_default`."""
        return Boxlite._of(call(_boxlite.Boxlite.default))

    @classmethod
    def init_default(cls, options: Options) -> None:
        """Sets what `default()` is made with. `InvalidStateError` once one was made that is still open."""
        call(_boxlite.Boxlite.init_default, options)

    @property
    def home(self) -> str:
        """Its home directory."""
        return call(lambda: self._async.home)

    def create(self, options: Optional[BoxOptions]=None, name: Optional[str]=None) -> Box:
        """Makes a box on disk; nothing runs yet. An image that is not local is pulled first. `AlreadyExistsError`: the
        name is taken."""
        return Box(run(lambda: self._async.create(options, name)))

    def get(self, id_or_name: str) -> Optional[Box]:
        """A box of the home by name, id, or unique beginning of its id, whoever made it; None: there is none."""
        return _optional(run(lambda: self._async.get(id_or_name)))

    def get_or_create(self, options: Optional[BoxOptions]=None, name: Optional[str]=None) -> Tuple[Box, bool]:
        """The box of that name, made if there is none, and whether it was made. Safe among processes."""
        return _pair(run(lambda: self._async.get_or_create(options, name)))

    def get_info(self, id_or_name: str) -> Optional[BoxInfo]:
        """What is known of a box, or None."""
        return run(lambda: self._async.get_info(id_or_name))

    def list_info(self) -> List[BoxInfo]:
        """All boxes of the home, oldest first."""
        return run(lambda: self._async.list_info())

    def remove(self, id_or_name: str, force: bool=False) -> None:
        """Removes a box with all that was written in it; `force`: also one that runs. `NotFoundError`: there is none."""
        run(lambda: self._async.remove(id_or_name, force))

    def metrics(self) -> RuntimeMetrics:
        """Counts of this runtime since it was opened."""
        return run(lambda: self._async.metrics())

    def close(self) -> None:
        """Closes it at once: the boxes that it started attached end, within two seconds. Nothing happens the second time."""
        call(self._async.close)

    def shutdown(self, timeout: Optional[float]=None) -> None:
        """Stops the boxes that it started attached, together, each given `timeout` seconds (default 10), then closes."""
        run(lambda: self._async.shutdown(timeout))

    def __enter__(self) -> Boxlite:
        run(self._async.__aenter__)
        return self

    def __exit__(self, *exc: Any) -> None:
        run(lambda: self._async.__aexit__(*exc))

    @classmethod
    def _of(cls, wrapped: _boxlite.Boxlite) -> Boxlite:
        self = cls.__new__(cls)
        Wrapper.__init__(self, wrapped)
        return self

    @property
    def images(self) -> ImageHandle:
        """The images of its home."""
        return ImageHandle(self._async.images)


class SimpleBox(Wrapper[_simple.SimpleBox]):
    """A box that starts with `with` (or `start()`) and is stopped and removed at its end.

        with boxlite.SimpleBox(image="ubuntu:latest") as box:
            result = box.exec("ls", "-l", "/")

    Args:
        image, rootfs_path: what it is made from; one of them is needed.
        memory_mib, cpus: see `BoxOptions`.
        runtime: a `Boxlite`; default: `Boxlite.default()`.
        name: made up if None.
        auto_remove: remove the box when it stops.
        reuse_existing: use the box of that name if there is one; it is left running at the end if it ran before.
        **options: any other field of `BoxOptions`.
    """

    def __init__(self, image: Optional[str]=None, rootfs_path: Union[str, 'os.PathLike[str]', None]=None, memory_mib: Optional[int]=None, cpus: Optional[int]=None, runtime: Optional[Boxlite]=None, name: Optional[str]=None, auto_remove: bool=True, reuse_existing: bool=False, **options: Any) -> None:
        super().__init__(_simple.SimpleBox(image, rootfs_path, memory_mib, cpus, None if runtime is None else runtime._async, name, auto_remove, reuse_existing, **options))

    def start(self) -> "SimpleBox":
        """Makes and boots the box; nothing happens if it runs. A failed or cancelled start leaves nothing behind."""
        run(lambda: self._async.start())
        return self

    def stop(self, timeout: float=STOP_TIMEOUT) -> None:
        """Stops the box, and removes it with `auto_remove`. A detached or reused running box is left alone."""
        run(lambda: self._async.stop(timeout))

    def shutdown(self) -> None:
        """The same as `stop()`."""
        run(lambda: self._async.shutdown())

    @property
    def box(self) -> Box:
        """The `Box` below. `InvalidStateError` before it was started and after it was stopped."""
        return Box(call(lambda: self._async.box))

    @property
    def id(self) -> str:
        """Its id."""
        return call(lambda: self._async.id)

    @property
    def name(self) -> Optional[str]:
        """Its name; None before it is made, unless one was given."""
        return call(lambda: self._async.name)

    @property
    def created(self) -> Optional[bool]:
        """Whether this object made the box (True) or found it (False); None before it was started."""
        return call(lambda: self._async.created)

    def info(self) -> BoxInfo:
        """What is known of it now."""
        return run(lambda: self._async.info())

    def metrics(self) -> BoxMetrics:
        """Figures of it."""
        return run(lambda: self._async.metrics())

    def exec(self, cmd: str, *args: str, env: Env=None, user: Optional[str]=None, timeout: Optional[float]=None, cwd: Optional[str]=None, stdin: Optional[Data]=None, check: bool=False, tty: bool=False, max_output: int=MAX_OUTPUT) -> ExecResult:
        """Runs a command to its end and returns what it came to.

        Args:
            cmd, args: its argument vector; no shell is involved.
            env: a mapping or (name, value) pairs, added to the box' own.
            user: NAME-OR-UID[:GROUP-OR-GID].
            timeout: seconds, after which it is killed with all that it started; the result says `timed_out`.
            cwd: folder in which it starts.
            stdin: bytes or text for its standard input; default: none.
            check: raise `ExecError` (or `TimeoutError`) unless it ends with exit code 0. Otherwise an exit code is data.
            tty: with a terminal; all output is stdout then.
            max_output: bytes of each stream; more raise `ResourceExhaustedError`.

        A cancelled caller kills the command.
        """
        return run(lambda: self._async.exec(cmd, *args, env=env, user=user, timeout=timeout, cwd=cwd, stdin=stdin, check=check, tty=tty, max_output=max_output))

    def spawn(self, cmd: str, *args: str, env: Env=None, user: Optional[str]=None, timeout: Optional[float]=None, cwd: Optional[str]=None, stdin: bool=False, tty: bool=False, size: Tuple[int, int]=TTY_SIZE, detach: bool=False) -> Execution:
        """Starts a command and returns at once: its streams are read as they come.

            with box.spawn("make") as command:
                for piece in command.output():
                    print(piece.stream, piece.text)
                print((command.wait()).exit_code)

        Arguments as for `exec`; `stdin`: it has a standard input, `size`: rows and columns of its terminal, `detach`: it
        goes on when this is closed.
        """
        return Execution(run(lambda: self._async.spawn(cmd, *args, env=env, user=user, timeout=timeout, cwd=cwd, stdin=stdin, tty=tty, size=size, detach=detach)))

    def copy_in(self, host_path: _files.HostPath, container_dest: str, *, recursive: bool=True, overwrite: bool=True, follow_symlinks: bool=False, include_parent: bool=True) -> None:
        """Copies a file or folder into the box: see `Box.copy_in` and `CopyOptions`."""
        run(lambda: self._async.copy_in(host_path, container_dest, recursive=recursive, overwrite=overwrite, follow_symlinks=follow_symlinks, include_parent=include_parent))

    def copy_out(self, container_src: str, host_dest: _files.HostPath, *, recursive: bool=True, overwrite: bool=True, include_parent: bool=True) -> None:
        """Copies a file or folder out of the box: see `Box.copy_out` and `CopyOptions`."""
        run(lambda: self._async.copy_out(container_src, host_dest, recursive=recursive, overwrite=overwrite, include_parent=include_parent))

    def read_file(self, path: str, max_bytes: int=256 << 20) -> bytes:
        """The bytes of a file of the box."""
        return run(lambda: self._async.read_file(path, max_bytes))

    def write_file(self, path: str, data: Data, mode: int=420) -> None:
        """Writes a file in the box (text as UTF-8), replacing one that is there."""
        run(lambda: self._async.write_file(path, data, mode))

    def __enter__(self) -> Any:
        run(self._async.__aenter__)
        return self

    def __exit__(self, *exc: Any) -> None:
        run(lambda: self._async.__aexit__(*exc))


class CodeBox(SimpleBox):
    """A box that runs programs.

        with boxlite.CodeBox(image="python:3.11-slim") as sandbox:
            result = sandbox.run("print(6*7)")
            print(result, result.exit_code, result.stderr)

    Args: as `SimpleBox`; `language`: of the code that `run` is given, unless a call names another.
    """

    _async: _code.CodeBox

    def __init__(self, image: str='python:slim', memory_mib: Optional[int]=None, cpus: Optional[int]=None, runtime: Optional[Boxlite]=None, language: str='python', **kwargs: Any) -> None:
        self._async = _code.CodeBox(image, memory_mib, cpus, None if runtime is None else runtime._async, language, **kwargs)

    def run(self, code: str, timeout: Optional[float]=None, *, language: Optional[str]=None, stdin: Optional[Data]=None, env: Env=None, user: Optional[str]=None, cwd: Optional[str]=None, check: bool=False, max_output: int=MAX_OUTPUT) -> CodeResult:
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
        return run(lambda: self._async.run(code, timeout, language=language, stdin=stdin, env=env, user=user, cwd=cwd, check=check, max_output=max_output))

    def run_script(self, script_path: HostPath, timeout: Optional[float]=None, **options: Any) -> CodeResult:
        """Runs a program of the host by its path; further arguments as for `run`. Its language is the box' own unless its
        name says another."""
        return run(lambda: self._async.run_script(script_path, timeout, **options))

    def install_packages(self, *packages: str, timeout: Optional[float]=None, check: bool=False) -> CodeResult:
        """Installs Python packages with pip; the box needs a network (`network=True`). Returns what pip said."""
        return run(lambda: self._async.install_packages(*packages, timeout=timeout, check=check))

    def install_package(self, package: str, **options: Any) -> CodeResult:
        """The same for one package."""
        return run(lambda: self._async.install_package(package, **options))

    def start(self) -> "CodeBox":
        """As `SimpleBox.start`."""
        run(lambda: self._async.start())
        return self


class InteractiveBox(SimpleBox):
    """A box with a shell on this process' standard input and output.

        with boxlite.InteractiveBox(image="ubuntu:latest") as box:
            box.wait()

    Args: as `SimpleBox`; `shell`: the program; `tty`: with a terminal (None: if standard input is one). The user's terminal is
    raw meanwhile and is restored at the end, whatever happens.
    """

    _async: _interactive.InteractiveBox

    def __init__(self, image: Optional[str]=None, shell: str='/bin/sh', tty: Optional[bool]=None, memory_mib: Optional[int]=None, cpus: Optional[int]=None, runtime: Optional[Boxlite]=None, name: Optional[str]=None, auto_remove: bool=True, stdin_fd: int=0, stdout_fd: int=1, stderr_fd: int=2, **kwargs: Any) -> None:
        self._async = _interactive.InteractiveBox(image, shell, tty, memory_mib, cpus, None if runtime is None else runtime._async, name, auto_remove, stdin_fd, stdout_fd, stderr_fd, **kwargs)

    def start(self) -> "InteractiveBox":
        """Boots the box and starts the shell."""
        run(lambda: self._async.start())
        return self

    def wait(self) -> ExecResult:
        """Waits until the shell ends and all of its output is written."""
        return run(lambda: self._async.wait())

    def stop(self, timeout: float=10.0) -> None:
        """Ends the shell, restores the terminal, stops the box."""
        run(lambda: self._async.stop(timeout))
