# SPDX-License-Identifier: Apache-2.0
"""Files in and out of a box, as a tar stream of the agent's own archiver, beside whatever else the loop does.

The rules are those of `docker cp`. What comes out of a box is hostile: names, links, sizes and modes are the guest's. It
is taken into an unnamed temporary file, then extracted by descriptors: no name leads out of the target folder, no link
is followed, and no devices, hard links or set-user-ID bits are made.
"""
from __future__ import annotations

import asyncio
import os
import posixpath
import stat
import tarfile
import tempfile
import time
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, AsyncIterator, Iterator, List, NamedTuple, Optional, Tuple, Union, cast

from boxlite._errors import (AlreadyExistsError, BoxliteError, GuestError, IntegrityError, InvalidArgumentError,
                             InvalidStateError, NotFoundError, ResourceExhaustedError, SystemCallError)
from boxlite._native import lib

if TYPE_CHECKING:
    from boxlite._box import Box
    from boxlite._execution import Execution
    from boxlite._options import CopyOptions

HostPath = Union[str, "os.PathLike[str]"]

_CHUNK = 256 * 1024
_SPOOLED = 8 * 1024 * 1024  # an archive up to this size is not written to disk
_FIELD_MAX = 4 * 1024 * 1024  # of a name or a pax header: the guest chooses its length
_COMPLAINTS = {os.strerror(2): NotFoundError, os.strerror(28): ResourceExhaustedError, os.strerror(17): AlreadyExistsError}


class _Split(NamedTuple):
    folder: str
    name: str  # "." for contents only


def _split(path: str) -> _Split:
    """"/a/b/" is folder "/a" and name "b"; "/a/." is the contents of a."""
    if not path:
        raise InvalidArgumentError("path: is empty")
    trimmed = path.rstrip("/") or "/"
    folder, name = posixpath.split(trimmed)
    if name == "..":
        raise InvalidArgumentError(f'path: "{path}" ends with ".."')
    return _Split(folder or ".", name or ".")


@contextmanager
def _context(what: str) -> Iterator[None]:
    """Says in an error what was being done."""
    try:
        yield
    except BoxliteError as error:
        error.message = f"{what}: {error.message}"
        error.args = (error.message,)
        raise
    except OSError as error:
        raise SystemCallError(f"{what}: {error}", errno=error.errno or 0) from error


async def _finish(execution: "Execution") -> None:
    """The archiver's end: its first complaint becomes the error."""
    result = await execution.communicate()
    if result.exit_code == 0:
        return
    line = (result.error_message or result.stderr).strip().split("\n")[0]
    cls = next((cls for text, cls in _COMPLAINTS.items() if text in line), GuestError if not line else SystemCallError)
    raise cls(line or f"the archiver ended with exit code {result.exit_code}")


# ---- In


def _header(path: str, name: str, options: "CopyOptions") -> Optional[tarfile.TarInfo]:
    """The entry for a path of the host; None for what has no place in a box (devices, sockets)."""
    status = os.stat(path) if options.follow_symlinks else os.lstat(path)
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
    elif stat.S_ISREG(status.st_mode):
        info.size = status.st_size
    else:
        return None
    return info


def _tree(path: str, name: str, options: "CopyOptions") -> Iterator[Tuple[str, tarfile.TarInfo]]:
    """A path and all below it, folders before what is in them."""
    todo: List[Tuple[str, str, Tuple[Tuple[int, int], ...]]] = [(path, name, ())]
    while todo:
        here, called, above = todo.pop()
        info = _header(here, called, options)
        if info is None:
            continue
        if called != ".":
            yield here, info
        if info.isdir():
            status = os.stat(here)
            key = (status.st_dev, status.st_ino)
            if key in above:  # a link to a folder around it
                continue
            if not options.recursive:
                raise InvalidArgumentError(f"{here} is a folder", hint="allow it with recursive=True")
            prefix = "" if called == "." else called + "/"
            todo += [(os.path.join(here, entry), prefix + entry, above + (key,))
                     for entry in sorted(os.listdir(here), reverse=True)]


async def _pieces(path: str, info: tarfile.TarInfo) -> AsyncIterator[bytes]:
    """An entry as it stands in the archive: exactly the size that its header says, whatever happens to the file."""
    yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    left = info.size
    if left:
        with open(path, "rb") as file:
            while left:
                piece = file.read(min(left, _CHUNK))
                if not piece:
                    raise SystemCallError(f"{path} was cut while it was copied")
                left -= len(piece)
                yield piece
        yield b"\0" * (-info.size % tarfile.BLOCKSIZE)


async def _guest_is_folder(box: "Box", path: str) -> bool:
    async with await box._tar(lib.boxlite_box_exec_tar_out, path.rstrip("/") + "/.") as execution:
        if await execution._read(lib.BOXLITE_STDOUT):
            return True  # the rest is not wanted: closing ends it
        try:
            await _finish(execution)
        except (NotFoundError, SystemCallError):
            return False
        return True


async def _guest_exists(box: "Box", path: str) -> bool:
    async with await box._tar(lib.boxlite_box_exec_tar_out, path) as execution:
        return bool(await execution._read(lib.BOXLITE_STDOUT))


async def _send(box: "Box", folder: str, pieces: AsyncIterator[bytes]) -> None:
    async with await box._tar(lib.boxlite_box_exec_tar_in, folder) as execution:
        stdin = execution.stdin()
        try:
            async for piece in pieces:
                await stdin.send_input(piece)
            await stdin.send_input(b"\0" * tarfile.BLOCKSIZE * 2)
            await stdin.close()
        except InvalidStateError:  # it has ended before its input did: its own words say why
            await _finish(execution)
            raise
        await _finish(execution)


async def copy_in(box: "Box", host_path: HostPath, dest: str, options: "CopyOptions") -> None:
    """See `Box.copy_in`."""
    source = os.fspath(host_path)
    with _context(f"copying {source} to {box.name}:{dest}"):
        name = _split(os.path.abspath(source) if source in (".", "..") else source).name
        contents = source.endswith("/.") or source == "." or not options.include_parent
        os.lstat(source)
        if await _guest_is_folder(box, dest):
            folder, top = dest, "." if contents and os.path.isdir(source) else name
        else:
            folder, top = _split(dest)
            if dest.endswith("/") and not os.path.isdir(source):
                raise NotFoundError(f"there is no folder {dest} in the box")
            if not await _guest_is_folder(box, folder):
                raise NotFoundError(f"there is no folder {folder} in the box")
        if not options.overwrite and top != "." and await _guest_exists(box, posixpath.join(folder, top)):
            raise AlreadyExistsError(f"{posixpath.join(folder, top)} exists in the box")

        async def pieces() -> AsyncIterator[bytes]:
            for path, info in _tree(source, top, options):
                async for piece in _pieces(path, info):
                    yield piece

        await _send(box, folder, pieces())


async def write_file(box: "Box", path: str, data: Union[bytes, bytearray, memoryview], mode: int) -> None:
    """See `Box.write_file`."""
    with _context(f"writing {box.name}:{path}"):
        folder, name = _split(path)
        info = tarfile.TarInfo(name)
        info.size, info.mode = len(data), mode
        info.mtime = int(time.time())

        async def pieces() -> AsyncIterator[bytes]:
            yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
            yield bytes(data) + b"\0" * (-len(data) % tarfile.BLOCKSIZE)

        await _send(box, folder, pieces())


# ---- Out


async def _receive(box: "Box", path: str, limit: Optional[int] = None) -> IO[bytes]:
    """The archive of a path of the box, in a file without a name."""
    spool = cast("IO[bytes]", tempfile.SpooledTemporaryFile(max_size=_SPOOLED))
    try:
        async with await box._tar(lib.boxlite_box_exec_tar_out, path) as execution:
            got = 0
            while True:
                chunk = await execution._read(lib.BOXLITE_STDOUT)
                if not chunk:
                    break
                got += len(chunk)
                if limit is not None and got > limit + _FIELD_MAX:
                    raise ResourceExhaustedError(f"it is larger than {limit} bytes",
                                                 hint="give max_bytes=, or copy_out() it to a file")
                spool.write(chunk)
            await _finish(execution)
        spool.seek(0)
        return spool
    except BaseException:
        spool.close()
        raise


@contextmanager
def _archive(spool: IO[bytes]) -> Iterator[tarfile.TarFile]:
    with spool:
        try:
            with tarfile.open(fileobj=spool, mode="r:", encoding="utf-8", errors="surrogateescape") as archive:
                yield archive
        except BoxliteError:
            raise
        except (tarfile.TarError, ValueError, EOFError) as error:
            raise IntegrityError(f"the box sent a damaged archive ({error})") from error


async def read_file(box: "Box", path: str, max_bytes: int) -> bytes:
    """See `Box.read_file`."""
    with _context(f"reading {box.name}:{path}"):
        target = path
        for _ in range(40):  # links, as a program in the box would follow them
            with _archive(await _receive(box, target, max_bytes)) as archive:
                info = archive.next()
                if info is None:
                    raise NotFoundError("it is not there")
                if info.issym():
                    target = posixpath.normpath(posixpath.join(posixpath.dirname(target), info.linkname))
                    continue
                if not info.isreg():
                    raise InvalidArgumentError("it is no file")
                if info.size > max_bytes:
                    raise ResourceExhaustedError(f"it is larger than {max_bytes} bytes",
                                                 hint="give max_bytes=, or copy_out() it to a file")
                file = archive.extractfile(info)
                return file.read() if file is not None else b""
        raise InvalidArgumentError("too many symbolic links")


def _host_target(source: _Split, host_dest: str) -> Tuple[str, str]:
    """The folder on the host, and the name of the top in it ("." for none)."""
    if os.path.isdir(host_dest):
        return host_dest, source.name
    target = _split(host_dest)
    if host_dest.endswith("/") and source.name != ".":
        raise NotFoundError(f"there is no folder {host_dest}")
    return target.folder, target.name


def _inside(name: str, expect: str, top: str) -> List[str]:
    """The parts of an entry's name below the target folder. IntegrityError for one that leads elsewhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise IntegrityError(f"the box sent a name that leads elsewhere: {name!r:.100}")
    if expect != ".":
        if not parts or parts[0] != expect:
            raise IntegrityError(f"the box sent a file that was not asked for: {name!r:.100}")
        parts = parts[1:]
    return parts if top == "." else [top, *parts]


class _Extractor:
    """Puts entries below a folder, by descriptors. Folders get their modes and times last."""

    def __init__(self, folder: str, overwrite: bool) -> None:
        self.root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.overwrite = overwrite
        self.late: List[Tuple[List[str], tarfile.TarInfo]] = []

    def close(self) -> None:
        os.close(self.root)

    def _open_folder(self, parts: List[str]) -> int:
        here = os.dup(self.root)
        try:
            for part in parts:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                os.close(here)
                here = below
            return here
        except OSError as error:
            os.close(here)
            raise IntegrityError(f"the box sent a file whose folder is none: {'/'.join(parts)!r:.100}") from error

    def _clear(self, name: str, folder: int) -> None:
        """What is in the way goes, but no folder."""
        try:
            os.lstat(name) if folder < 0 else os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not self.overwrite:
            raise AlreadyExistsError(f"{name} exists")
        os.unlink(name, dir_fd=folder)

    def put(self, archive: tarfile.TarFile, info: tarfile.TarInfo, parts: List[str]) -> None:
        if not parts:
            return
        folder, name = self._open_folder(parts[:-1]), parts[-1]
        try:
            if info.isdir():
                try:
                    os.mkdir(name, 0o700, dir_fd=folder)
                except FileExistsError:
                    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                        raise
                self.late.append((parts, info))
            elif info.issym():
                self._clear(name, folder)
                os.symlink(info.linkname, name, dir_fd=folder)
            elif info.isreg():
                self._clear(name, folder)
                self._file(archive, info, name, folder)
            elif info.islnk():
                raise IntegrityError(f"the box sent a hard link: {info.name!r:.100}")
        finally:
            os.close(folder)

    @staticmethod
    def _file(archive: tarfile.TarFile, info: tarfile.TarInfo, name: str, folder: int) -> None:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
        with open(fd, "wb") as file:
            source = archive.extractfile(info)
            while source is not None:
                piece = source.read(_CHUNK)
                if not piece:
                    break
                file.write(piece)
            file.flush()
            os.fchmod(fd, info.mode & 0o777)
            os.utime(fd, (info.mtime, info.mtime))

    def finish(self) -> None:
        for parts, info in reversed(self.late):
            fd = self._open_folder(parts)
            try:
                os.fchmod(fd, info.mode & 0o777)
                os.utime(fd, (info.mtime, info.mtime))
            finally:
                os.close(fd)


async def copy_out(box: "Box", source: str, host_dest: HostPath, options: "CopyOptions") -> None:
    """See `Box.copy_out`."""
    dest = os.fspath(host_dest)
    with _context(f"copying {box.name}:{source} to {dest}"):
        if not options.include_parent and not source.endswith("/."):
            source = source.rstrip("/") + "/."
        split = _split(source)
        folder, top = _host_target(split, dest)
        if split.name == "." and not os.path.isdir(dest):
            os.mkdir(dest, 0o777)
            folder, top = dest, "."
        with _archive(await _receive(box, source)) as archive:
            extractor = _Extractor(folder, options.overwrite)
            try:
                for info in archive:
                    if info.isdir() and not options.recursive:
                        raise InvalidArgumentError(f"{source} is a folder", hint="allow it with recursive=True")
                    extractor.put(archive, info, _inside(info.name, split.name, top))
                    await asyncio.sleep(0)
                extractor.finish()
            finally:
                extractor.close()
