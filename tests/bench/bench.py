#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench: the numbers of docs/architecture.md, each beside its reference in the same run, printed as ratios.

Usage: bench.py [--rounds N] [--json FILE]. Needs build/ and a home with kernel and base image (`make home`).
The rounds of a measurement and of its reference alternate, so that a slow moment of the machine hits both.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
BOXLITE = str(BUILD / "bin" / "boxlite")
IMAGE = "boxlite/base:bookworm"


def out(argv, **kw):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **kw).stdout


def newc(entries):
    """A cpio archive (newc) of (name, mode, data); with /dev/console, without which init has no output."""
    archive = b""
    entries = entries[:1] + [("dev/console", 0o20600, b"")] + entries[1:] + [("TRAILER!!!", 0, b"")]
    for number, (name, mode, data) in enumerate(entries):
        device = (5, 1) if mode & 0o170000 == 0o20000 else (0, 0)
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0]
        head = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
        archive += head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)
    return archive


class Bare:
    """A bare qemu-system microvm that boots the same kernel to a static init: process start to its line.

    Machine, CPU and kernel words are the running box' own, so what is compared is BoxLite, not a choice of flags; left
    out are its disks, channel, random device and control socket.
    """
    KEPT = {"-M", "-bios", "-accel", "-cpu", "-m", "-smp", "-nodefaults", "-no-user-config", "-display", "-no-reboot"}

    def __init__(self, work, home, engine_argv):
        init = work / "init"
        subprocess.run(["musl-gcc", "-static", "-O2", "-s", "-o", init, ROOT / "tests/bench/init.c"], check=True)
        initramfs = work / "bare.cpio"
        initramfs.write_bytes(newc([("dev", 0o40755, b""), ("init", 0o100755, init.read_bytes())]))
        self.argv = [engine_argv[0], "-serial", "stdio", "-kernel", str(home / "kernels" / "default" / "vmlinux"),
                     "-initrd", str(initramfs)]
        for i, word in enumerate(engine_argv):
            if word in self.KEPT or word == "-append":
                self.argv.append(word)
                if not engine_argv[i + 1].startswith("-"):
                    self.argv.append(engine_argv[i + 1])

    def once(self):
        start = time.monotonic()
        # A session of its own, as a box has: the scheduler shares the processors out between sessions.
        with subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True) as p:
            for line in p.stdout:
                if b"BENCH-INIT" in line:
                    took = time.monotonic() - start
                    p.kill()
                    return took
        sys.exit("bench: the bare reference did not boot")


def cold_run():
    start = time.monotonic()
    subprocess.run([BOXLITE, "run", "--rm", IMAGE, "true"], check=True, stdin=subprocess.DEVNULL)
    return time.monotonic() - start


def spread(values):
    return f"{statistics.median(values) * 1000:.0f} ms ({min(values) * 1000:.0f}-{max(values) * 1000:.0f})"


def bench_cold(bare, rounds):
    ours, theirs = [], []
    cold_run()
    for _ in range(rounds):
        theirs.append(bare.once())
        ours.append(cold_run())
    ratio = statistics.median(ours) / statistics.median(theirs)
    return {"name": "cold run true / bare QEMU boot to init", "ratio": ratio, "goal": 1.25,
            "detail": f"boxlite {spread(ours)}, bare {spread(theirs)}, n={rounds}"}


def bench_exec(box, rounds):
    figures = json.loads(out([str(BUILD / "tests/bench/bench_exec"), box, str(rounds), "200"]))
    loop = "i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done"
    empty = guest_seconds(box, ":")
    own_us = (guest_seconds(box, loop) - empty) / 50 * 1e6
    large, small = "dd if=/dev/zero bs=1M count=200 status=none", "head -c 100M /dev/zero"
    own_pipe = guest_seconds(box, f"{small} | cat > /dev/null") - empty
    cli_small = through_cli(box, small)
    return [
        {"name": "exec round trip of true / guest's own fork+exec+wait", "ratio": figures["round_trip_us"] / own_us,
         "goal": 1.3, "detail": f"round trip {figures['round_trip_us'] / 1000:.2f} ms (p90 "
         f"{figures['round_trip_p90_us'] / 1000:.2f}), guest's own {own_us / 1000:.2f} ms, n={rounds}"},
        {"name": "output throughput, library (MB/s)", "value": figures["output_mb_s"], "goal_min": 100,
         "detail": f"{large}, read through boxlite_exec_read"},
        {"name": "output throughput, command line (MB/s)", "value": 200 * 1.048576 / through_cli(box, large),
         "goal_min": 100, "detail": f"boxlite exec BOX {large} | wc -c"},
        {"name": "output in 8 KiB writes / the guest's own pipe", "ratio": cli_small / own_pipe, "goal": 1.5,
         "detail": f"{small}: {104.9 / cli_small:.0f} MB/s to the host, {104.9 / own_pipe:.0f} MB/s into cat in the guest"},
    ]


def guest_seconds(box, command):
    start = time.monotonic()
    subprocess.run([BOXLITE, "exec", box, "sh", "-c", command], check=True)
    return time.monotonic() - start


def through_cli(box, command):
    start = time.monotonic()
    subprocess.run(f"{BOXLITE} exec {box} {command} | wc -c", shell=True, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def bench_stop(rounds):
    took = []
    for _ in range(rounds):
        box = out([BOXLITE, "run", "-d", IMAGE, "sleep", "1000"]).strip()
        start = time.monotonic()
        subprocess.run([BOXLITE, "stop", "-t", "5", box], check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - start)
        subprocess.run([BOXLITE, "rm", "-f", box], check=True, stdout=subprocess.DEVNULL)
    return {"name": "stop (ms)", "value": statistics.median(took) * 1000, "goal_max": 100, "detail": spread(took)}


def pss_kib(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1))


def children(pid):
    found = []
    for task in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = task.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(task.parent.name))
    return found


def shim_pid(home, box):
    """The lock file of a running box names its shim."""
    return int((home / "boxes" / box / "lock").read_text().split()[0])


def engine_argv(home, box):
    for pid in children(shim_pid(home, box)):
        argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        if "qemu" in argv[0]:
            return argv
    sys.exit("bench: the box runs on no qemu")


def bench_memory(home, box):
    shim = shim_pid(home, box)
    parts = {"shim": pss_kib(shim) / 1024}
    for pid in children(shim):
        name = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        parts[name] = pss_kib(pid) / 1024
    detail = ", ".join(f"{k} {v:.1f} MiB" for k, v in parts.items()) + " PSS, idle 512 MiB box"
    return [{"name": "shim memory (MiB PSS)", "value": parts["shim"], "goal_max": 4, "detail": detail},
            {"name": "whole box memory (MiB PSS)", "value": sum(parts.values()), "detail": detail}]


def bench_root(work, rounds):
    tar = BUILD / "artifacts" / "base.tar"
    if not shutil.which("tar2sqfs"):
        return {"name": "root image build / tar2sqfs -c lz4", "skipped": "tar2sqfs is missing (squashfs-tools-ng)"}
    ours, theirs = [], []
    for i in range(rounds):
        target = work / "ref.sqfs"
        start = time.monotonic()
        with open(tar, "rb") as f:
            subprocess.run(["tar2sqfs", "-q", "-f", "-c", "lz4", str(target)], stdin=f, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        theirs.append(time.monotonic() - start)
        env = {**os.environ, "BOXLITE_HOME": str(work / f"home{i}")}
        start = time.monotonic()
        subprocess.run([BOXLITE, "image", "import", str(tar), "bench:1"], check=True, env=env,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ours.append(time.monotonic() - start)
        shutil.rmtree(work / f"home{i}")
    return {"name": "root image build / tar2sqfs -c lz4", "goal": 2.0,
            "ratio": statistics.median(ours) / statistics.median(theirs),
            "detail": f"image import {spread(ours)}, tar2sqfs {spread(theirs)}, {tar.stat().st_size >> 20} MiB tar"}


def bench_share(work, files=5000, created=2000, mib=64):
    """A shared folder beside the guest's own ext4: the same work in one guest, one after the other."""
    shared = work / "shared"
    for i in range(files):
        folder = shared / "tree" / str(i // 100)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(i)).write_bytes(b"hello")
    (shared / "big").write_bytes(os.urandom(mib << 20))
    script = (ROOT / "tests/bench/share_guest.py").read_text()
    t = json.loads(out([BOXLITE, "run", "--rm", "-v", f"{shared}:/shared", IMAGE, "python3", "-c", script, "/var/own",
                        "/shared", str(files), str(created), str(mib)]))
    own, ours = t["own"], t["shared"]

    def row(name, words, goal):
        a, b = (sum(side[w] for w in words) for side in (ours, own))
        return {"name": f"shared folder: {name} / own ext4", "goal": goal, "ratio": a / b,
                "detail": f"{a:.2f} s / {b:.2f} s"}

    status = row(f"status of {files} files", ["status"], 3.0)
    status["detail"] += f"; the first time {ours['first status']:.2f} s / {own['first status']:.2f} s"
    return [row(f"sequential read of {mib} MiB", ["read"], 2.0), status,
            row(f"create + delete {created} files", ["create", "delete"], 5.0)]


def measured(argv, **kw):
    """Seconds, CPU seconds and peak MiB of a program."""
    start = time.monotonic()
    process = subprocess.Popen(argv, stdin=kw.pop("stdin", subprocess.DEVNULL), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, **kw)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"bench: {argv[0]} failed")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def bench_load(work, rounds):
    """An image with a gzip layer becomes blobs and a root: BoxLite, and the two programs that do the same."""
    name = "image load with its root / skopeo copy + tar2sqfs"
    missing = [p for p in ("tar2sqfs", "skopeo") if not shutil.which(p)]
    if missing:
        return [{"name": name, "skipped": f"{missing[0]} is missing"}]
    layout = work / "layout"
    # In a process of its own: what this one has held counts as the peak of those that it starts.
    make = "import sys; from ocilayout import Layout; Layout(sys.argv[1]).image([open(sys.argv[2], 'rb').read()], 'bench:1')"
    subprocess.run([sys.executable, "-c", make, layout, BUILD / "artifacts" / "base.tar"], check=True,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "integration")})
    layer = max((layout / "blobs" / "sha256").iterdir(), key=lambda p: p.stat().st_size)
    ours, theirs = [], []
    for i in range(rounds):
        copy = measured(["skopeo", "copy", "-q", f"oci:{layout}:bench:1", f"oci:{work}/copy{i}:x"])
        with open(layer, "rb") as f:
            pack = measured(["tar2sqfs", "-q", "-f", "-c", "lz4", str(work / "ref.sqfs")], stdin=f)
        theirs.append([a + b for a, b in zip(copy, pack)])
        home = work / f"load{i}"
        ours.append(measured([BOXLITE, "image", "load", str(layout)], env={**os.environ, "BOXLITE_HOME": str(home)}))
        shutil.rmtree(home)
        shutil.rmtree(work / f"copy{i}")
    wall, cpu = ([statistics.median(t[i] for t in times) for times in (ours, theirs)] for i in (0, 1))
    return [{"name": name, "ratio": wall[0] / wall[1], "goal": 1.0,
             "detail": f"{wall[0] * 1000:.0f} : {wall[1] * 1000:.0f} ms; CPU {cpu[0] * 1000:.0f} : {cpu[1] * 1000:.0f} ms, n={rounds}"},
            {"name": "peak memory of image load (MiB)", "value": max(t[2] for t in ours), "goal_max": 64,
             "detail": f"{layer.stat().st_size >> 20} MiB packed layer"}]


def show(row):
    if "skipped" in row:
        print(f"  {row['name']:<54} skipped: {row['skipped']}")
        return
    if "ratio" in row:
        value, goal, good = f"{row['ratio']:.2f} x", f"goal <= {row['goal']}", row["ratio"] <= row["goal"]
    else:
        value, goal, good = f"{row['value']:.1f}", "", True
        if "goal_min" in row:
            goal, good = f"goal >= {row['goal_min']}", row["value"] >= row["goal_min"]
        if "goal_max" in row:
            goal, good = f"goal <= {row['goal_max']}", row["value"] <= row["goal_max"]
    verdict = "" if not goal else "met" if good else "MISSED"
    print(f"  {row['name']:<54} {value:>10}  {goal:<14} {verdict:<7} {row['detail']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    home = pathlib.Path(os.environ.get("BOXLITE_HOME") or pathlib.Path.home() / ".boxlite")
    rows = []
    with tempfile.TemporaryDirectory(prefix="boxlite-bench.") as name:
        work = pathlib.Path(name)
        box = out([BOXLITE, "run", "-d", IMAGE, "sleep", "100000"]).strip()
        try:
            subprocess.run([BOXLITE, "exec", box, "true"], check=True)
            bare = Bare(work, home, engine_argv(home, box))
            steps = [lambda: bench_memory(home, box), lambda: bench_exec(box, 40)]
            for step in steps:
                for row in step():
                    rows.append(row)
                    show(row)
        finally:
            subprocess.run([BOXLITE, "rm", "-f", box], check=True, stdout=subprocess.DEVNULL)
        for row in bench_share(work):
            rows.append(row)
            show(row)
        for step in (lambda: bench_cold(bare, options.rounds), lambda: bench_stop(5), lambda: bench_root(work, 3)):
            rows.append(step())
            show(rows[-1])
        for row in bench_load(work, 3):
            rows.append(row)
            show(row)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
