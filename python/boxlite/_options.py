# SPDX-License-Identifier: Apache-2.0
"""What a runtime and a box shall be. Plain data; mistakes are found when a box is made, by the library."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from boxlite._errors import BoxliteError, InvalidArgumentError, UnsupportedError, call
from boxlite._execution import Env, c_argv, c_text, milliseconds, pairs
from boxlite._native import ffi, lib

DEFAULT_IMAGE = "alpine:latest"


@dataclass(frozen=True)
class ImageRegistry:
    """A registry that images are pulled from.

    Attributes:
        host: HOST[:PORT], without scheme or path.
        transport: "https", or "http" without encryption.
        username, password: credentials; never shown.
    """

    host: str
    transport: str = "https"
    username: Optional[str] = None
    password: Optional[str] = field(default=None, repr=False)


@dataclass(frozen=True)
class Options:
    """A runtime's settings.

    Attributes:
        home_dir: where images and boxes are; None: $BOXLITE_HOME, then ~/.boxlite.
        image_registries: see `ImageRegistry`.
        libexec_dir: folder of boxlite-shim; None: $BOXLITE_LIBEXEC, then found beside the library.
    """

    home_dir: Union[str, "os.PathLike[str]", None] = None
    image_registries: Sequence[ImageRegistry] = ()
    libexec_dir: Union[str, "os.PathLike[str]", None] = None


@dataclass(frozen=True)
class NetworkSpec:
    """A box' network: "enabled" (out through the host user's network) or "disabled" (loopback only)."""

    mode: str = "enabled"
    allow_net: Sequence[str] = ()


@dataclass(frozen=True)
class CopyOptions:
    """How files are copied.

    Attributes:
        recursive: folders with all in them; False refuses folders.
        overwrite: replace what is there; False raises `AlreadyExistsError`.
        follow_symlinks: copy what a link leads to instead of the link (into a box only).
        include_parent: False: the contents of a folder without the folder itself.
    """

    recursive: bool = True
    overwrite: bool = True
    follow_symlinks: bool = False
    include_parent: bool = True


Network = Union[NetworkSpec, bool, str, None]
Volume = Union[Tuple[str, str], Tuple[str, str, Union[bool, str]], Mapping[str, Any]]
_MODES: Dict[Any, bool] = {None: False, False: False, True: True, "enabled": True, "user": True, "disabled": False,
                           "none": False}


@dataclass
class BoxOptions:
    """What a box shall be. None: the default of the image, or of the library.

    Attributes:
        image: NAME[:TAG], digest or unique id; one that is not local is pulled.
        rootfs_path: an OCI image layout (folder or tar) instead of `image`.
        cpus: 1 to the host's; default 1.
        memory_mib: MiB, 128 or more; default 512.
        disk_size_gb: GiB that the box may write, allocated only as written; default 10.
        working_dir: folder in which commands start.
        env: a mapping or (name, value) pairs; never shown.
        volumes: host folders: (host, guest[, read_only]) or {"host": ..., "guest": ..., "read_only": ...}.
        network: True or `NetworkSpec`: out through the host user's network. Default: loopback only.
        ports: forwarded ports; not in this version of the library.
        entrypoint, cmd: replace the image's. With `main=True` they run as the box' main command.
        stdin: the main command has a standard input, written through `Box.main()`.
        main: the box runs its main command and stops with it. Default: it idles until it is stopped.
        user: NAME-OR-UID[:GROUP-OR-GID].
        auto_remove: remove the box as soon as it stops.
        detach: the box outlives its starter; default: it ends with it, even by kill -9.
        timeout: seconds from its start, after which it is stopped.
        engine: "auto", "qemu", "qemu-tcg", "qemu-kvm" or "kvm".
        kernel: name of a guest kernel; default "default".
    """

    image: Optional[str] = None
    rootfs_path: Union[str, "os.PathLike[str]", None] = None
    cpus: Optional[int] = None
    memory_mib: Optional[int] = None
    disk_size_gb: Optional[float] = None
    working_dir: Optional[str] = None
    env: Env = field(default=None, repr=False)
    volumes: Sequence[Volume] = ()
    network: Network = None
    ports: Sequence[Any] = ()
    entrypoint: Optional[Sequence[str]] = field(default=None, repr=False)
    cmd: Optional[Sequence[str]] = field(default=None, repr=False)
    main: bool = False
    stdin: bool = False
    user: Optional[str] = None
    auto_remove: bool = True
    detach: bool = False
    hostname: Optional[str] = None
    labels: Mapping[str, str] = field(default_factory=dict)
    timeout: Optional[float] = None
    engine: Optional[str] = None
    kernel: Optional[str] = None

    def native(self, name: Optional[str], image: str) -> Any:
        """`boxlite_box_options` for the library. Raises `InvalidArgumentError` for what is wrong."""
        slot = ffi.new("boxlite_box_options **")
        call(lib.boxlite_box_options_new, c_text(image), slot)
        options = ffi.gc(slot[0], lib.boxlite_box_options_free)
        values = (
            ("name", name, c_text),
            ("hostname", self.hostname, c_text),
            ("cpus", self.cpus, int),
            ("memory", self.memory_mib, lambda mib: int(mib) << 20),
            ("disk", self.disk_size_gb, lambda gib: int(gib * (1 << 30))),
            ("workdir", self.working_dir, c_text),
            ("user", self.user, c_text),
            ("engine", self.engine, c_text),
            ("kernel", self.kernel, c_text),
            ("timeout", self.timeout, lambda seconds: milliseconds("timeout", seconds)),
            ("network", self._network(), int),
            ("auto_remove", self.auto_remove, int),
            ("detached", self.detach, int),
            ("main", self.main, int),
            ("stdin", self.stdin, int),
        )
        for field_name, value, convert in values:
            if value is not None:
                self._set(field_name, options, value, convert)
        self._set_lists(options)
        return options

    @staticmethod
    def _set(name: str, options: Any, value: Any, convert: Any) -> None:
        try:
            native = convert(value)
            call(getattr(lib, f"boxlite_box_options_set_{name}"), options, native)
        except BoxliteError:
            raise
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"{name}: {value!r} is no value for it") from error

    def _set_lists(self, options: Any) -> None:
        for argv, function in ((self.entrypoint, lib.boxlite_box_options_set_entrypoint),
                               (self.cmd, lib.boxlite_box_options_set_command)):
            if argv is not None:
                if isinstance(argv, str):
                    raise InvalidArgumentError("entrypoint and cmd are lists of words, not one text")
                words, _keep = c_argv(argv)
                call(function, options, words, len(argv))
        for name, value in pairs(self.env):
            call(lib.boxlite_box_options_add_env, options, c_text(name), c_text(value))
        for name, value in self.labels.items():
            call(lib.boxlite_box_options_add_label, options, c_text(name), c_text(value))
        for volume in self.volumes:
            host, guest, read_only = _volume(volume)
            call(lib.boxlite_box_options_add_volume, options, c_text(host), c_text(guest), int(read_only))
        if self.ports:
            raise UnsupportedError("ports: this version of the library forwards none",
                                   hint="run a client in the box, or reach its service by a command in it")

    def _network(self) -> int:
        spec = self.network
        if isinstance(spec, NetworkSpec):
            if spec.allow_net:
                raise UnsupportedError("network: this version of the library has no lists of allowed hosts",
                                       hint="use no network, or all of it")
            spec = spec.mode
        if spec not in _MODES:
            raise InvalidArgumentError(f"network: {spec!r} is neither \"enabled\" nor \"disabled\"")
        return int(lib.BOXLITE_NETWORK_USER if _MODES[spec] else lib.BOXLITE_NETWORK_NONE)


def _volume(volume: Volume) -> Tuple[str, str, bool]:
    """(host, guest, read only) from any of the ways that are allowed."""
    if isinstance(volume, Mapping):
        known = {"host", "host_path", "guest", "guest_path", "read_only", "ro"}
        host, guest = volume.get("host", volume.get("host_path")), volume.get("guest", volume.get("guest_path"))
        if set(volume) - known or host is None or guest is None:
            raise InvalidArgumentError("volumes: a mapping has the keys host, guest and perhaps read_only")
        items: List[Any] = [host, guest, volume.get("read_only", volume.get("ro", False))]
    else:
        items = list(volume)
    if len(items) == 2:
        items.append(False)
    if len(items) != 3 or items[2] not in (True, False, "ro", "rw"):
        raise InvalidArgumentError("volumes: (host, guest) or (host, guest, read_only) is needed, "
                                   "read_only being True, False, \"ro\" or \"rw\"")
    return os.fspath(items[0]), os.fspath(items[1]), items[2] in (True, "ro")


OPTION_NAMES = frozenset(BoxOptions.__dataclass_fields__)
