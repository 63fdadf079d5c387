# SPDX-License-Identifier: Apache-2.0
"""What only a machine with KVM can show; test_kvm_lab.py runs this file and tests of others there."""
import os
import signal
import subprocess
import time

import pytest

from conftest import BUILD, IMAGE, box_processes, processes, wait_until

pytestmark = pytest.mark.vm


def guest(vm, *options, command, timeout=240):
    return vm.ok("run", "--rm", *options, IMAGE, "sh", "-c", command, timeout=timeout)


def vmm_of(vm, box):
    """Process number of a box' engine: it has the box' id among its arguments."""
    boxid = vm.json("inspect", box)[0]["id"]
    for p in processes():
        if p.name == "boxlite-vmm" and boxid.encode() in open(f"/proc/{p.pid}/cmdline", "rb").read():
            return p.pid
    return None


def test_unit_tests_of_the_engine():
    done = subprocess.run([BUILD / "tests/unit/test_vmm_kvm"], capture_output=True, text=True, timeout=250,
                          env={**os.environ, "BX_TEST_SCALE": "4", "BOXLITE_VMM": str(BUILD / "libexec" / "boxlite-vmm")})
    assert done.returncode == 0 and "# SKIP" not in done.stdout, done.stdout + done.stderr


def test_auto_is_our_own_vmm(vm, box):
    assert vm.json("inspect", box)[0]["engine_used"] == "kvm"
    assert "boxes run with kvm" in vm.ok("doctor", timeout=60)
    assert vm.ok("exec", box, "echo", "42") == "42\n"


def test_the_vmm_has_no_rights_and_few_system_calls(vm, box):
    pid = vmm_of(vm, box)
    for task in os.listdir(f"/proc/{pid}/task"):
        status = open(f"/proc/{pid}/task/{task}/status").read()
        assert "CapEff:\t0000000000000000" in status and "Seccomp:\t2" in status and "NoNewPrivs:\t1" in status
        assert "Uid:\t0\t" not in status


def test_the_vmm_tells_of_itself(vm, box):
    vm.ok("exec", box, "true", timeout=120)
    said = vm.json("inspect", "--vmm", box)[0]
    names = [d["name"] for d in said["devices"]]
    assert names == ["console", "blk", "blk", "rng", "balloon"] and all(d["breaks"] == 0 for d in said["devices"])
    assert said["devices"][0]["bytes_out"] > 0 and said["vcpus"][0]["mmio"] > 0
    stages = list(said["boot_us"].values())
    assert all(stages) and stages == sorted(stages)


def test_the_guest_has_its_processors_and_memory(vm):
    out = guest(vm, "--cpus", "4", "--memory", "192M", command="nproc; grep MemTotal /proc/meminfo; "
                "grep -c hypervisor /proc/cpuinfo; cat /sys/devices/system/clocksource/clocksource0/current_clocksource")
    cpus, memory, hypervisor, clock = out.splitlines()
    assert cpus == "4" and hypervisor == "4" and clock in ("kvm-clock", "tsc")
    assert 120_000 < int(memory.split()[1]) < 192 * 1024


def test_memory_above_the_gap_is_used(vm):
    out = guest(vm, "--memory", "5G", command="grep MemTotal /proc/meminfo")
    assert int(out.split()[1]) > 4_700_000


def test_disks_hold_what_is_written(vm):
    vm.ok("create", "--name", "d", IMAGE, "sh", "-c",
          "test -f /x && cat /x || { head -c 20000000 /dev/urandom > /big; sha256sum /big > /sum; echo kept > /x; }",
          timeout=60)
    vm.ok("start", "-a", "d", timeout=240)
    assert vm.ok("start", "-a", "d", timeout=240) == "kept\n"
    vm.ok("rm", "-f", "d")


def test_bytes_through_the_port_are_exact(vm, box):
    data = os.urandom(1 << 20)
    assert vm.raw("exec", "-i", box, "cat", input=data, timeout=240).stdout == data


def test_a_killed_engine_is_told_and_leaves_nothing(vm):
    p = vm.popen("run", "--rm", IMAGE, "sh", "-c", "echo ready; sleep 600")
    assert p.stdout.readline() == b"ready\n"
    engine = next(q for q in box_processes(p.pid) if q.name == "boxlite-vmm")
    os.kill(engine.pid, signal.SIGKILL)
    _, errors = p.communicate(timeout=60)
    assert p.returncode == 125 and b"boxlite-vmm was killed by signal 9" in errors
    wait_until(lambda: engine.pid not in [q.pid for q in processes()], what="its process to end")


def test_a_stop_is_quick(vm):
    vm.ok("run", "-d", "--idle", "--name", "s", IMAGE, timeout=240)
    start = time.monotonic()
    vm.ok("stop", "s")
    assert time.monotonic() - start < 10  # the lab is 10 to 20 times slower than a host
    vm.ok("rm", "s")
