# SPDX-License-Identifier: Apache-2.0
"""Images and kernels of the home.

Loading and importing are seconds of work inside the library. They are done by one worker thread with a runtime of its own
(runtimes are independent, also in one home), so the loop goes on; a cancelled caller ends the work.
"""
from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, TypeVar, Union

from boxlite._errors import NotFoundError, call, text
from boxlite._execution import Env, c_argv, c_text, pairs
from boxlite._info import ImageInfo
from boxlite._native import ffi, lib
from boxlite._runtime import Core, ProgressFn, pointer_of, register, unregister

if TYPE_CHECKING:
    from boxlite._boxlite import Boxlite

T = TypeVar("T")
HostPath = Union[str, "os.PathLike[str]"]


async def in_worker(runtime: "Boxlite", work: Callable[[Core], T], progress: Optional[ProgressFn] = None) -> T:
    """Runs `work` with a runtime of its own in a thread."""
    loop = asyncio.get_running_loop()
    home, libexec = runtime._core.home, runtime._libexec
    cores: List[Core] = []

    def tell(what: str, done: int, total: int) -> None:
        if progress is not None:
            loop.call_soon_threadsafe(progress, what, done, total)

    def run() -> T:
        core = Core(home, libexec, tell if progress else None)
        cores.append(core)
        try:
            return work(core)
        finally:
            core.close()

    future = loop.run_in_executor(None, run)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        for core in cores:
            core.wake()
        await asyncio.wait([future])
        future.exception()
        raise


def info_of(image: Any) -> ImageInfo:
    names = [text(lib.boxlite_image_name(image, i)) for i in range(lib.boxlite_image_name_count(image))]
    return ImageInfo(digest=text(lib.boxlite_image_digest(image)), names=names,
                     platform=text(lib.boxlite_image_platform(image)), size_bytes=lib.boxlite_image_size(image),
                     created_at=lib.boxlite_image_created(image), raw=json.loads(text(lib.boxlite_image_json(image))))


def _listed(images: Any) -> List[ImageInfo]:
    return [info_of(lib.boxlite_image_list_get(images, i)) for i in range(lib.boxlite_image_list_count(images))]


class ImageHandle:
    """The images of a home: `runtime.images`."""

    def __init__(self, runtime: "Boxlite") -> None:
        self._runtime = runtime

    async def list(self) -> List[ImageInfo]:
        """All local images."""
        core = await self._runtime._attached()
        slot = ffi.new("boxlite_image_list **")
        call(lib.boxlite_image_list_new, core.pointer, slot)
        return _listed(ffi.gc(slot[0], lib.boxlite_image_list_free))

    async def get(self, reference: str) -> Optional[ImageInfo]:
        """A local image by NAME[:TAG], digest, or unique id of twelve digits or more; None: there is none."""
        core = await self._runtime._attached()
        slot = ffi.new("boxlite_image **")
        try:
            call(lib.boxlite_image_open, core.pointer, c_text(reference), slot)
        except NotFoundError:
            return None
        return info_of(ffi.gc(slot[0], lib.boxlite_image_free))

    async def load(self, path: HostPath, reference: Optional[str] = None,
                   progress: Optional[ProgressFn] = None) -> List[ImageInfo]:
        """Loads an OCI image layout (folder or tar) or a `docker save` archive: all images in it. `reference` names one
        that carries no name of its own. `progress(what, done_bytes, total_bytes)` is told how far it is."""
        def work(core: Core) -> "List[ImageInfo]":
            slot = ffi.new("boxlite_image_list **")
            call(lib.boxlite_image_load, core.pointer, c_text(os.fspath(path)),
                 c_text(reference) if reference is not None else ffi.NULL, slot)
            return _listed(ffi.gc(slot[0], lib.boxlite_image_list_free))
        await self._runtime._attached()
        return await in_worker(self._runtime, work, progress)

    async def import_rootfs(self, path: HostPath, reference: str, *, cmd: Sequence[str] = (), entrypoint: Sequence[str] = (),
                            env: Env = None, working_dir: Optional[str] = None, user: Optional[str] = None,
                            progress: Optional[ProgressFn] = None) -> ImageInfo:
        """Makes an image from a tar of a root file system (plain, gzip or zstd)."""
        def config() -> Any:
            slot = ffi.new("boxlite_image_config **")
            call(lib.boxlite_image_config_new, slot)
            made = ffi.gc(slot[0], lib.boxlite_image_config_free)
            for argv, setter in ((cmd, lib.boxlite_image_config_set_command),
                                 (entrypoint, lib.boxlite_image_config_set_entrypoint)):
                if argv:
                    words, _keep = c_argv(argv)
                    call(setter, made, words, len(argv))
            for name, value in pairs(env):
                call(lib.boxlite_image_config_add_env, made, c_text(name), c_text(value))
            if working_dir is not None:
                call(lib.boxlite_image_config_set_workdir, made, c_text(working_dir))
            if user is not None:
                call(lib.boxlite_image_config_set_user, made, c_text(user))
            return made

        def work(core: Core) -> ImageInfo:
            slot = ffi.new("boxlite_image **")
            call(lib.boxlite_image_import, core.pointer, c_text(os.fspath(path)), c_text(reference), config(), slot)
            return info_of(ffi.gc(slot[0], lib.boxlite_image_free))
        await self._runtime._attached()
        return await in_worker(self._runtime, work, progress)

    async def remove(self, reference: str, force: bool = False) -> None:
        """Removes a name, and the image with its last name. `BusyError` while a box uses it, unless `force`."""
        core = await self._runtime._attached()
        call(lib.boxlite_image_remove, core.pointer, c_text(reference), int(force))

    async def import_kernel(self, path: HostPath, name: Optional[str] = None, modules_dir: Optional[HostPath] = None) -> None:
        """Imports a guest kernel: a Debian kernel package, a vmlinuz (with its modules folder) or a vmlinux. Replaces one of
        that name (default: "default")."""
        def work(core: Core) -> int:
            return call(lib.boxlite_kernel_import, core.pointer, c_text(os.fspath(path)),
                        c_text(os.fspath(modules_dir)) if modules_dir is not None else ffi.NULL,
                        c_text(name) if name is not None else ffi.NULL)
        await self._runtime._attached()
        await in_worker(self._runtime, work)

    async def pull(self, reference: str, progress: Optional[ProgressFn] = None, *, platform: Optional[str] = None) -> ImageInfo:
        """Brings an image from its registry (docker.io unless the reference names one), also if it is here already: what has
        not changed is not fetched again. Credentials are those of `Options.image_registries`, else of Docker's and Podman's
        files. `progress(part, done_bytes, total_bytes)`. A cancelled caller ends the transfer. `AuthError`, `NotFoundError`,
        `NetworkError`, `UnsupportedError` (not for this host), `IntegrityError`."""
        core = await self._runtime._attached()
        number = register(progress) if progress is not None else 0
        slot = ffi.new("boxlite_transfer **")

        def begin(*args: Any) -> int:
            return int(lib.boxlite_image_pull_async(core.pointer, c_text(reference), options, *args[:2], slot, args[2]))

        async def cancel() -> None:
            lib.boxlite_transfer_cancel(slot[0])

        try:
            options = self._transfer_options(reference, platform, number)
            try:
                await core.run(begin, on_cancel=cancel)
                digest = text(lib.boxlite_transfer_digest(slot[0]))
            finally:
                if not core.dead:
                    lib.boxlite_transfer_free(slot[0])
        finally:
            unregister(number)
        pulled = await self.get(digest)
        if pulled is None:
            raise NotFoundError(f"{reference} was removed while it was pulled")
        return pulled

    def _transfer_options(self, reference: str, platform: Optional[str], number: int) -> Any:
        slot = ffi.new("boxlite_transfer_options **")
        call(lib.boxlite_transfer_options_new, slot)
        options = ffi.gc(slot[0], lib.boxlite_transfer_options_free)
        if platform is not None:
            call(lib.boxlite_transfer_options_set_platform, options, c_text(platform))
        if number:
            call(lib.boxlite_transfer_options_set_progress, options, lib.boxlite_sdk_transfer, pointer_of(number))
        for registry in self._runtime._options.image_registries:
            if reference.startswith(registry.host + "/"):
                if registry.username is not None and registry.password is not None:
                    call(lib.boxlite_transfer_options_set_credentials, options, c_text(registry.username),
                         c_text(registry.password))
                call(lib.boxlite_transfer_options_set_plain_http, options, int(registry.transport == "http"))
        return options
