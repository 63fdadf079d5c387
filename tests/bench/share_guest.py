# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest: the same work on its own disk and on a shared folder, which hold the same tree.

share_guest.py OWN SHARED FILES CREATED MIB: prints JSON, seconds for each."""
import json
import os
import sys
import time


def timed(fn, *args):
    start = time.monotonic()
    fn(*args)
    return time.monotonic() - start


def make(base, n):
    for i in range(n):
        if i % 100 == 0:
            os.makedirs(f"{base}/{i // 100}")
        fd = os.open(f"{base}/{i // 100}/{i}", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
        os.write(fd, b"hello")
        os.close(fd)


def remove(base, n):
    for i in range(n):
        os.unlink(f"{base}/{i // 100}/{i}")
    for i in range((n + 99) // 100):
        os.rmdir(f"{base}/{i}")


def status(base, n):
    """What git status does: looks at each file of the index, then reads all folders for new ones."""
    for i in range(n):
        os.lstat(f"{base}/{i // 100}/{i}")
    assert sum(len(files) for _, _, files in os.walk(base)) == n


def read(path):
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # from the disk, or from the host
    while os.read(fd, 128 << 10):
        pass
    os.close(fd)


def main():
    own, shared, files, created, mib = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    os.mkdir(own)
    make(own + "/tree", files)
    with open(own + "/big", "wb") as f:
        for _ in range(mib):
            f.write(os.urandom(1 << 20))
        f.flush()
        os.fsync(f.fileno())
    result = {}
    for name, base in (("own", own), ("shared", shared)):
        os.mkdir(base + "/new")
        result[name] = {
            "first status": timed(status, base + "/tree", files),
            "status": timed(status, base + "/tree", files),
            "create": timed(make, base + "/new", created),
            "delete": timed(remove, base + "/new", created),
            "read": min(timed(read, base + "/big") for _ in range(3)),
        }
    print(json.dumps(result))


main()
