# SPDX-License-Identifier: Apache-2.0
"""The runtime: boxes and images of one home directory."""
from __future__ import annotations

import asyncio
import os
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, List, Optional, Tuple, Type

from boxlite._box import Box
from boxlite._errors import (AlreadyExistsError, BoxliteError, InvalidArgumentError, InvalidStateError, NotFoundError,
                             call, text)
from boxlite._execution import c_text
from boxlite._images import ImageHandle
from boxlite._info import BoxInfo, RuntimeMetrics
from boxlite._native import ffi, lib
from boxlite._options import DEFAULT_IMAGE, BoxOptions, Options
from boxlite._runtime import Core

if TYPE_CHECKING:
    from types import TracebackType

_ATTEMPTS = 20


def _has_kernel(core: Core, name: str) -> bool:
    slot = ffi.new("boxlite_kernel_list **")
    call(lib.boxlite_kernel_list_new, core.pointer, slot)
    kernels = ffi.gc(slot[0], lib.boxlite_kernel_list_free)
    return name in [text(lib.boxlite_kernel_list_name(kernels, i)) for i in range(lib.boxlite_kernel_list_count(kernels))]


class Boxlite:
    """A runtime on one home directory; several may use one home at once, in one process or in many.

    It belongs to the thread and event loop that first uses it. When it is closed, or its loop shuts down, the boxes that it
    started attached end. `Boxlite.default()` is the one that `SimpleBox` and `CodeBox` use.
    """

    _default_options: ClassVar[Optional[Options]] = None
    _defaults: ClassVar["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Boxlite]"] = weakref.WeakKeyDictionary()

    def __init__(self, options: Optional[Options] = None) -> None:
        options = options or Options()
        home, libexec = (os.fspath(path) if path is not None else None for path in (options.home_dir, options.libexec_dir))
        self._options = options
        self._libexec = libexec
        self._core = Core(home, libexec)
        self.images = ImageHandle(self)

    @classmethod
    def default(cls) -> "Boxlite":
        """The runtime of the running event loop, made on first use with the options of `init_default`."""
        loop = asyncio.get_running_loop()
        runtime = cls._defaults.get(loop)
        if runtime is None or runtime._core.dead:
            runtime = cls._defaults[loop] = cls(cls._default_options)
        return runtime

    @classmethod
    def init_default(cls, options: Options) -> None:
        """Sets what `default()` is made with. `InvalidStateError` once one was made that is still open."""
        if any(not runtime._core.dead for runtime in cls._defaults.values()):
            raise InvalidStateError("the default runtime exists already", hint="call init_default() before the first box")
        cls._default_options = options

    @property
    def home(self) -> str:
        """Its home directory."""
        return self._core.home

    async def _attached(self) -> Core:
        await self._core.attach()
        return self._core

    # ---- Boxes

    async def create(self, options: Optional[BoxOptions] = None, name: Optional[str] = None) -> Box:
        """Makes a box on disk; nothing runs yet. An image that is not local is pulled first. `AlreadyExistsError`: the
        name is taken."""
        options = options or BoxOptions()
        core = await self._attached()
        try:
            image = await self._image(options)
            try:
                return self._create(core, options, name, image)
            except NotFoundError:
                if (options.rootfs_path is not None or not _has_kernel(core, options.kernel or "default")
                        or await self.images.get(image) is not None):
                    raise  # it is something else that is missing
                await self.images.pull(image)
                return self._create(core, options, name, image)
        except BoxliteError:
            core.metrics["boxes_failed_total"] += 1
            raise

    async def _image(self, options: BoxOptions) -> str:
        if options.rootfs_path is None:
            return options.image or DEFAULT_IMAGE
        loaded = await self.images.load(options.rootfs_path, options.image or "local/rootfs:latest")
        if len(loaded) != 1:
            raise InvalidArgumentError(f"rootfs_path: there are {len(loaded)} images in it", hint="load them with "
                                       "images.load(), then name one as image=")
        return loaded[0].digest

    @staticmethod
    def _create(core: Core, options: BoxOptions, name: Optional[str], image: str) -> Box:
        slot = ffi.new("boxlite_box **")
        call(lib.boxlite_box_create, core.pointer, options.native(name, image), slot)
        core.metrics["boxes_created_total"] += 1
        return Box(core, slot[0])

    async def get(self, id_or_name: str) -> Optional[Box]:
        """A box of the home by name, id, or unique beginning of its id, whoever made it; None: there is none."""
        core = await self._attached()
        slot = ffi.new("boxlite_box **")
        try:
            call(lib.boxlite_box_open, core.pointer, c_text(id_or_name), slot)
        except NotFoundError:
            return None
        return Box(core, slot[0])

    async def get_or_create(self, options: Optional[BoxOptions] = None, name: Optional[str] = None) -> Tuple[Box, bool]:
        """The box of that name, made if there is none, and whether it was made. Safe among processes."""
        for _ in range(_ATTEMPTS):
            found = await self.get(name) if name is not None else None
            if found is not None:
                return found, False
            try:
                return await self.create(options, name), True
            except AlreadyExistsError:
                continue  # another was faster; unless that one is gone again
        raise InvalidStateError(f"box {name} comes and goes")

    async def get_info(self, id_or_name: str) -> Optional[BoxInfo]:
        """What is known of a box, or None."""
        box = await self.get(id_or_name)
        if box is None:
            return None
        try:
            return await box.info()
        except NotFoundError:
            return None
        finally:
            box.close()

    async def list_info(self) -> List[BoxInfo]:
        """All boxes of the home, oldest first."""
        core = await self._attached()
        slot = ffi.new("boxlite_box_list **")
        call(lib.boxlite_box_list_new, core.pointer, slot)
        boxes = ffi.gc(slot[0], lib.boxlite_box_list_free)
        ids = [text(lib.boxlite_box_id(lib.boxlite_box_list_get(boxes, i)))
               for i in range(lib.boxlite_box_list_count(boxes))]
        ffi.release(boxes)
        return [info for info in [await self.get_info(box_id) for box_id in ids] if info is not None]

    async def remove(self, id_or_name: str, force: bool = False) -> None:
        """Removes a box with all that was written in it; `force`: also one that runs. `NotFoundError`: there is none."""
        box = await self.get(id_or_name)
        if box is None:
            raise NotFoundError(f"there is no box {id_or_name}")
        try:
            await box.remove(force)
        finally:
            box.close()

    async def metrics(self) -> RuntimeMetrics:
        """Counts of this runtime since it was opened."""
        counts = self._core.metrics
        running = sum(info.state.running for info in await self.list_info())
        return RuntimeMetrics(counts["boxes_created_total"], counts["boxes_failed_total"], running,
                              counts["total_commands_executed"], counts["total_exec_errors"])

    # ---- Its end

    def close(self) -> None:
        """Closes it at once: the boxes that it started attached end, within two seconds. Nothing happens the second time."""
        self._core.close()

    async def shutdown(self, timeout: Optional[float] = None) -> None:
        """Stops the boxes that it started attached, together, each given `timeout` seconds (default 10), then closes."""
        if self._core.dead:
            return
        core = await self._attached()
        ours = [info for info in await self.list_info()
                if info.state.running and not info.detach and info.id in core.started]
        boxes = [box for box in [await self.get(info.id) for info in ours] if box is not None]
        await asyncio.gather(*(box.stop(10.0 if timeout is None else timeout) for box in boxes), return_exceptions=True)
        await core.aclose()

    async def __aenter__(self) -> "Boxlite":
        await self._attached()
        return self

    async def __aexit__(self, _type: Optional[Type[BaseException]], _value: Optional[BaseException],
                        _traceback: Optional["TracebackType"]) -> None:
        await self._core.aclose()

    def __enter__(self) -> "Boxlite":
        return self

    def __exit__(self, *_exc: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Boxlite {'closed' if self._core.dead else self._core.home}>"
