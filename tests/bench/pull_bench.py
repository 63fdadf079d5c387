#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pull_bench: pulling an image of 190 MB (unpacked) from docker-registry on loopback, and building its root image, beside
`skopeo copy` and `tar2sqfs -c lz4` for the same; peak memory; what a second image with the same layer costs.

Usage: pull_bench.py [--rounds N]. Needs build/ with artifacts/base.tar, docker-registry, skopeo, umoci, tar2sqfs. The rounds of both
alternate. `podman pull` is measured too where podman is installed.
"""
import argparse
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from bench import BOXLITE, BUILD, show, spread

SIZE = 190_000_000


def run(argv, **kw):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)


def fill(tar):
    """Files of this machine behind the base image's, up to SIZE."""
    room, names = SIZE - tar.stat().st_size, []
    for folder, _, files in os.walk("/usr/lib"):
        for name in files:
            path = os.path.join(folder, name)
            if room > 0 and os.path.isfile(path) and not os.path.islink(path):
                room -= os.path.getsize(path) + 1024
                names.append(path)
    subprocess.run(["tar", "--append", "-f", str(tar), "--transform", "s,^/*,opt/,", "-P", "--null", "-T", "-"],
                   input="\0".join(names).encode(), check=True)


def make_image(work):
    tar, layout = work / "rootfs.tar", work / "layout"
    shutil.copy(BUILD / "artifacts" / "base.tar", tar)
    fill(tar)
    run(["umoci", "init", "--layout", layout])
    run(["umoci", "new", "--image", f"{layout}:one"])
    run(["umoci", "raw", "add-layer", "--image", f"{layout}:one", tar])
    (work / "more").mkdir()
    (work / "more/file").write_bytes(os.urandom(100000))
    run(["tar", "-C", work / "more", "-cf", work / "more.tar", "file"])
    run(["umoci", "raw", "add-layer", "--image", f"{layout}:one", "--tag", "two", work / "more.tar"])
    return tar.stat().st_size


class Registry:
    def __init__(self, work):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.host = f"127.0.0.1:{s.getsockname()[1]}"
        (work / "config.yml").write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {work}/data}}}}\nhttp: {{addr: '{self.host}'}}\n")
        self.log_path = work / "registry.log"
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", work / "config.yml"], stdout=self.log, stderr=self.log)
        host, port = self.host.split(":")
        end = time.monotonic() + 20
        while socket.socket().connect_ex((host, int(port))) and time.monotonic() < end:
            time.sleep(0.02)  # between two looks

    def blob_requests(self):
        return len(re.findall(rb"GET /v2/\S+/blobs/", self.log_path.read_bytes()))

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def timed(argv, **kw):
    """Seconds and peak memory (KiB) of one program."""
    start = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{argv} failed")
    return time.monotonic() - start, usage.ru_maxrss


def reference(work, source):
    target = work / "copied"
    start = time.monotonic()
    run(["skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", f"docker://{source}", f"oci:{target}:x"])
    layer = max((target / "blobs/sha256").iterdir(), key=lambda p: p.stat().st_size)
    run(["sh", "-c", f"gzip -dc {layer} | tar2sqfs -q -f -c lz4 {work}/ref.sqfs"])
    seconds = time.monotonic() - start
    shutil.rmtree(target)
    return seconds


def ours(work, source):
    home = work / "home"
    seconds, peak = timed([BOXLITE, "pull", "-q", source], env={**os.environ, "BOXLITE_HOME": str(home), "HOME": str(work)})
    return seconds, peak, home


def podman(work, source):
    root = ["podman", "--root", str(work / "podman"), "--runroot", str(work / "podman-run"), "--storage-driver", "vfs"]
    seconds, _ = timed([*root, "pull", "--tls-verify=false", "-q", source])
    run([*root, "rmi", "-f", source])
    return seconds


def measure(work, registry, rounds):
    times, theirs, others, peak = [], [], [], 0
    size = make_image(work)
    for tag in ("one", "two"):
        run(["skopeo", "--insecure-policy", "copy", "--dest-tls-verify=false", f"oci:{work}/layout:{tag}",
             f"docker://{registry.host}/bench:{tag}"])
    source = f"{registry.host}/bench:one"
    for i in range(rounds):
        theirs.append(reference(work, source))
        seconds, memory, home = ours(work, source)
        times.append(seconds)
        peak = max(peak, memory)
        if shutil.which("podman"):
            others.append(podman(work, source))
        if i + 1 < rounds:
            shutil.rmtree(home)
    before = registry.blob_requests()
    second, _, _ = ours(work, f"{registry.host}/bench:two")
    rows = [{"name": "pull + root image / skopeo copy + tar2sqfs -c lz4", "goal": 1.0,
             "ratio": statistics.median(times) / statistics.median(theirs),
             "detail": f"boxlite {spread(times)}, reference {spread(theirs)}, {size // 1000000} MB, n={rounds}"},
            {"name": "peak memory of a pull (MiB)", "value": peak / 1024, "goal_max": 64, "detail": "ru_maxrss"},
            {"name": "blobs fetched for a second image with the same layer", "value": registry.blob_requests() - before,
             "goal_max": 2, "detail": f"config and new layer; {second * 1000:.0f} ms with its root image"}]
    if others:
        rows.append({"name": "pull + root image / podman pull (vfs)", "goal": 1.0,
                     "ratio": statistics.median(times) / statistics.median(others), "detail": spread(others)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="boxlite-bench.") as name:
        work = pathlib.Path(name)
        registry = Registry(work)
        try:
            for row in measure(work, registry, options.rounds):
                show(row)
        finally:
            registry.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
