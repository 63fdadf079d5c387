# SPDX-License-Identifier: Apache-2.0
"""A guest for tests of the agent alone: stock kernel, the agent as its init, a small image, QEMU."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

import pytest

from wire import Exec, Link, Lost

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PASSWD = """root:x:0:0:root:/root:/bin/sh
user:x:1000:1000:A User:/home/user:/bin/sh
broken line
nobody:x:65534:65534::/:/bin/false
"""
GROUP = "root:x:0:\nuser:x:1000:\nextra:x:2000:root,user\nwheel:x:2001:user\nother:x:3000:nobody\n"


# As the QEMU engine has them: above all the kernel must not calibrate the TSC itself on a busy host.
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 reboot=t cryptomgr.notests noreplace-smp 8250.nr_uarts=1 tsc=reliable"
)


QBOOT = "/usr/share/qemu/qboot.rom"


def tsc_khz():
    with open("/proc/cpuinfo") as f:
        return int(max(float(line.split(":")[1]) for line in f if line.startswith("cpu MHz")) * 1000)


def _first(paths):
    return next((p for p in paths if p and os.path.exists(p)), None)


def kernel():
    """The folder of vmlinux and modules that conftest.py or the caller names."""
    folder = os.environ.get("BOXLITE_TEST_KERNEL")
    if not folder or not os.path.exists(os.path.join(folder, "vmlinux")):
        pytest.skip("no guest kernel: BOXLITE_TEST_KERNEL names no folder with one")
    return folder


def need(*programs):
    for p in programs:
        if not shutil.which(p, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            pytest.skip(f"{p} is not installed")


def agent_binary():
    build = os.environ.get("BOXLITE_BUILD") or os.path.join(ROOT, "build")
    path = _first([os.path.join(build, "src/guest/boxlite-agent"), os.path.join(build, "bin/boxlite-agent")])
    if not path:
        pytest.skip("the agent is not built")
    return path


class Files:
    """What all guests of a run share: initramfs, image, an empty disk."""

    def __init__(self, folder):
        need("qemu-system-x86_64", "cpio", "mksquashfs", "mkfs.ext4", "busybox")
        self.folder = folder
        self.kernel = kernel()
        self.initramfs = os.path.join(folder, "initramfs")
        self.image = os.path.join(folder, "root.sqfs")
        self.disk = os.path.join(folder, "upper.img")
        self._initramfs()
        self._image()
        with open(self.disk, "wb") as f:
            f.truncate(512 << 20)
        env = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        subprocess.run(["mkfs.ext4", "-q", "-F", self.disk], check=True, env=env)

    def _initramfs(self):
        agent = os.path.join(self.folder, "agent")
        os.makedirs(agent)
        shutil.copy(agent_binary(), os.path.join(agent, "init"))
        modules = os.path.join(self.kernel, "modules")
        if os.path.isdir(modules):
            shutil.copytree(modules, os.path.join(agent, "modules"))
        os.makedirs(os.path.join(agent, "dev"))
        with open(self.initramfs, "wb") as out:
            names = subprocess.run(["find", "."], cwd=agent, check=True, stdout=subprocess.PIPE).stdout
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=agent, input=names, stdout=out, check=True)
        ready = os.path.join(self.kernel, "modules.cpio")
        if os.path.exists(ready):
            with open(ready, "rb") as f, open(self.initramfs, "rb") as g:
                parts = f.read(), g.read()
            with open(self.initramfs, "wb") as out:
                out.write(parts[0] + b"\0" * (-len(parts[0]) % 512) + parts[1])

    def _image(self):
        root = os.path.join(self.folder, "root")
        for d in ("bin", "etc", "proc", "sys", "dev", "tmp", "root", "home/user", "usr/bin", "sbin", "srv/kept",
                  "srv/moved"):
            os.makedirs(os.path.join(root, d))
        os.chmod(os.path.join(root, "tmp"), 0o1777)
        os.chmod(os.path.join(root, "home/user"), 0o777)  # in the image all belongs to root
        busybox = os.path.join(root, "bin/busybox")
        shutil.copy(shutil.which("busybox"), busybox)
        applets = subprocess.run([busybox, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
        for name in applets.split():
            if name != "busybox":
                os.symlink("busybox", os.path.join(root, "bin", name))
        files = {"etc/passwd": PASSWD, "etc/group": GROUP, "bin/not-executable": "x\n", "bin/bad-format": "\0x"}
        files["bin/no-interpreter"] = "#!/nowhere/sh\n"
        files |= {"srv/gone": "g", "srv/kept/old": "o", "srv/moved/inner": "i"}
        for name, text in files.items():
            with open(os.path.join(root, name), "w") as f:
                f.write(text)
        os.chmod(os.path.join(root, "bin/bad-format"), 0o755)
        os.chmod(os.path.join(root, "bin/no-interpreter"), 0o755)
        os.symlink("../run/nowhere/resolv.conf", os.path.join(root, "etc/resolv.conf"))
        subprocess.run(
            ["mksquashfs", root, self.image, "-comp", "lz4", "-noappend", "-quiet", "-no-progress", "-all-root"],
            check=True,
            stdout=subprocess.DEVNULL,
        )


class VM:
    def __init__(self, files, memory=256, cpus=1, disk=True, network=False, configure=True, **config):
        self.dir = tempfile.mkdtemp(prefix="agent-vm-")
        self.console = os.path.join(self.dir, "console")
        ours, theirs = socket.socketpair()
        args = [
            "qemu-system-x86_64",
            "-M", "microvm,acpi=on,pic=off,pit=off,rtc=on,isa-serial=on,auto-kernel-cmdline=off",
            "-accel", "tcg", "-cpu", "max,la57=off,erms=off", "-m", str(memory), "-smp", str(cpus),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            *(["-bios", QBOOT] if os.path.exists(QBOOT) else []),
            "-serial", "file:" + self.console,
            "-kernel", os.path.join(files.kernel, "vmlinux"), "-initrd", files.initramfs,
            "-append", COMMAND_LINE + f" tsc_early_khz={tsc_khz()}",
            "-chardev", f"socket,id=agent,fd={theirs.fileno()}",
            "-device", "virtio-serial-device", "-device", "virtserialport,name=org.boxlite.agent,chardev=agent",
            "-drive", f"id=root,file={files.image},format=raw,if=none,read-only=on",
            "-device", "virtio-blk-device,drive=root",
        ]  # fmt: skip
        if disk:
            self.disk = disk if isinstance(disk, str) else os.path.join(self.dir, "upper.img")
            if not os.path.exists(self.disk):
                subprocess.run(["cp", "--sparse=always", files.disk, self.disk], check=True)
            args += ["-drive", f"id=upper,file={self.disk},format=raw,if=none",
                     "-device", "virtio-blk-device,drive=upper"]  # fmt: skip
        if network:
            args += ["-netdev", "user,id=net", "-device", "virtio-net-device,netdev=net"]
        self.qemu = subprocess.Popen(args, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self.link = Link(ours)
        self.next = 1
        self.fields = self._config(disk, config)
        if configure:
            self.configure()

    @staticmethod
    def _config(disk, config):
        fields = [("ROOT_DEV", "/dev/vda"), ("ROOT_TYPE", "squashfs")]
        if disk:
            fields += [("UPPER_DEV", "/dev/vdb"), ("UPPER_TYPE", "ext4")]
        fields += [("HOSTNAME", config.get("hostname", "box"))]
        for path, content in config.get("etc", {}).items():
            fields.append(("FILE", path.encode() + b"\0" + content))
        return fields + list(config.get("fields", []))

    def configure(self, timeout=60):
        # Only when the guest is there: the time would be old when it arrives.
        self.link.until(lambda: self.link.greeted, timeout)
        self.link.send("CONFIGURE", ("CLOCK_NS", time.time_ns()), *self.fields)
        name, self.ready = self.link.expect(lambda n, f: n in ("READY", "FAILED"), timeout)
        assert name == "READY", self.ready

    def exec(self, *argv, env=(), tty=False, stdin=False, **fields):
        number = self.next
        self.next += 1
        out = [("ARG", a) for a in argv] + [("ENV", e) for e in env]
        flags = (1 if tty else 0) | (2 if stdin else 0)
        out.append(("FLAGS", flags))
        out += [(k.upper(), v) for k, v in fields.items()]
        return Exec(self, number, out)

    def sh(self, script, **kw):
        return self.exec("/bin/sh", "-c", script, **kw)

    def run(self, script, timeout=60, **kw):
        e = self.sh(script, **kw)
        e.wait(timeout)
        return e

    def shutdown(self):
        """Sends SHUTDOWN; seconds until QEMU has ended."""
        start = time.monotonic()
        self.link.send("SHUTDOWN")
        self.qemu.wait(30)
        return time.monotonic() - start

    def log(self):
        with open(self.console, errors="replace") as f:
            return f.read()

    def close(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
            self.qemu.wait()
        self.link.sock.close()
        shutil.rmtree(self.dir, ignore_errors=True)
