# SPDX-License-Identifier: Apache-2.0
"""What is known of boxes, images and their work, as plain data."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional


@dataclass(frozen=True)
class BoxStateInfo:
    """`status`: created, starting, running, paused, stopping or stopped. `pid`: its supervisor's, while it runs."""

    status: str
    running: bool
    pid: Optional[int] = None


@dataclass(frozen=True)
class BoxInfo:
    """A box as it is now. Sizes in MiB or bytes as named, times in RFC 3339. `raw` has all that the library knows."""

    id: str
    name: str
    image: str
    state: BoxStateInfo
    created_at: str
    started_at: Optional[str]
    cpus: int
    memory_mib: int
    disk_bytes: int
    network: str
    engine: str
    detach: bool
    auto_remove: bool
    labels: Mapping[str, str]
    raw: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "BoxInfo":
        status = raw["state"]
        labels = raw.get("labels") or []
        named: Dict[str, str] = dict(label.split("=", 1) for label in labels) if isinstance(labels, list) else labels
        return cls(id=raw["id"], name=raw["name"], image=raw["image"],
                   state=BoxStateInfo(status, status in ("running", "paused"), raw.get("pid")),
                   created_at=raw["created_at"], started_at=raw.get("started_at"), cpus=raw["cpus"],
                   memory_mib=raw["memory"] >> 20, disk_bytes=raw["disk"], network=raw["network"],
                   engine=raw["engine"], detach=raw["detached"], auto_remove=raw["auto_remove"], labels=named, raw=raw)


@dataclass(frozen=True)
class ImageInfo:
    """A local image. `size_bytes`: on disk, blobs and built root. `created_at`: seconds since 1970."""

    digest: str
    names: List[str]
    platform: str
    size_bytes: int
    created_at: int
    raw: Mapping[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """The digest's first twelve digits, as listings show it."""
        return self.digest.split(":", 1)[-1][:12]


@dataclass(frozen=True)
class RuntimeMetrics:
    """Counts of this runtime since it was opened; `num_running_boxes` counts the whole home."""

    boxes_created_total: int
    boxes_failed_total: int
    num_running_boxes: int
    total_commands_executed: int
    total_exec_errors: int


@dataclass(frozen=True)
class BoxMetrics:
    """Figures of a box. Counts and bytes are those of this handle; `memory_bytes` and `cpu_seconds` are what its processes
    on the host use (0 while it does not run)."""

    commands_executed_total: int
    guest_boot_duration_ms: int
    total_create_duration_ms: int
    memory_bytes: int
    cpu_seconds: float


def _stat(pid: int) -> List[str]:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        return stat.read().rsplit(")", 1)[1].split()


def process_tree(root: int) -> List[int]:
    """A process and all below it."""
    parents: Dict[int, List[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
            except (OSError, IndexError):
                continue
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += parents.get(pid, [])
    return found


def usage(pid: Optional[int]) -> Any:
    """(bytes resident, seconds of processor time) of a supervisor and its engine."""
    memory, ticks = 0, 0
    for one in process_tree(pid) if pid else []:
        try:
            fields = _stat(one)
        except (OSError, IndexError):
            continue
        ticks += int(fields[11]) + int(fields[12])
        memory += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return memory, ticks / os.sysconf("SC_CLK_TCK")
