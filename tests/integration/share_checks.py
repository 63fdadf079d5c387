# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest, on a shared folder: what POSIX and Linux promise of a file system, one line for each promise that is
broken. share_checks.py FOLDER"""
import errno
import fcntl
import mmap
import os
import stat
import struct
import sys
import time

CHECKS = []


def check(fn):
    CHECKS.append(fn)
    return fn


def fails(number, fn, *args, **kw):
    try:
        fn(*args, **kw)
    except OSError as e:
        assert e.errno == number, f"{errno.errorcode[e.errno]}, not {errno.errorcode[number]}"
        return
    raise AssertionError(f"did not fail with {errno.errorcode[number]}")


def put(name, data=b"", mode=0o644):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.write(fd, data)
    os.close(fd)
    return name


def get(name):
    with open(name, "rb") as f:
        return f.read()


@check
def owner_is_who_looks():
    put("f")
    os.mkdir("d")
    for name in ("f", "d", "."):
        st = os.stat(name)
        assert (st.st_uid, st.st_gid) == (os.geteuid(), os.getegid()), (name, st.st_uid, st.st_gid)


@check
def modes():
    os.umask(0o027)
    put("f", mode=0o666)
    os.mkdir("d", 0o777)
    os.umask(0o022)
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o640
    assert stat.S_IMODE(os.stat("d").st_mode) == 0o750
    for mode in (0o600, 0o755, 0o444, 0o711):
        os.chmod("f", mode)
        assert stat.S_IMODE(os.stat("f").st_mode) == mode
    os.chmod("d", 0o1777)
    assert stat.S_IMODE(os.stat("d").st_mode) == 0o1777
    os.chmod("f", 0o6755)  # accepted as chown is, and kept from the host
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o755


@check
def exec_bits_run():
    put("s", b"#!/bin/sh\nexit 7\n", 0o755)
    assert os.spawnv(os.P_WAIT, "./s", ["s"]) == 7
    os.chmod("s", 0o644)
    assert os.spawnv(os.P_WAIT, "./s", ["s"]) == 127


@check
def times():
    put("f")
    os.utime("f", ns=(1_000_000_001, 2_000_000_003))
    st = os.stat("f")
    assert (st.st_atime_ns, st.st_mtime_ns) == (1_000_000_001, 2_000_000_003)
    os.symlink("f", "l")
    os.utime("l", ns=(5, 6 * 10**9), follow_symlinks=False)
    assert os.lstat("l").st_mtime_ns == 6 * 10**9 and os.stat("f").st_mtime_ns == 2_000_000_003
    before = os.stat(".").st_mtime_ns
    put("g")
    assert os.stat(".").st_mtime_ns >= before
    os.utime("f")
    assert abs(os.stat("f").st_mtime - time.time()) < 60


@check
def open_flags():
    fails(errno.ENOENT, os.open, "f", os.O_RDONLY)
    put("f", b"12345")
    fails(errno.EEXIST, os.open, "f", os.O_CREAT | os.O_EXCL)
    fd = os.open("f", os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"67")
    other = os.open("f", os.O_WRONLY | os.O_APPEND)
    os.write(other, b"8")
    os.write(fd, b"9")
    assert get("f") == b"123456789"
    fails(errno.EBADF, os.read, fd, 1)
    os.close(os.open("f", os.O_WRONLY | os.O_TRUNC))
    assert get("f") == b""
    os.mkdir("d")
    fails(errno.EISDIR, os.open, "d", os.O_WRONLY)
    fails(errno.ENOTDIR, os.open, "f", os.O_DIRECTORY)
    fails(errno.ENOTDIR, os.open, "f/x", os.O_RDONLY)
    os.symlink("f", "l")
    fails(errno.ELOOP, os.open, "l", os.O_RDONLY | os.O_NOFOLLOW)
    fails(errno.EEXIST, os.open, "l", os.O_CREAT | os.O_EXCL)
    os.symlink("l2", "l1")
    os.symlink("l1", "l2")
    fails(errno.ELOOP, os.open, "l1", os.O_RDONLY)
    fails(errno.ENAMETOOLONG, os.open, "x" * 256, os.O_CREAT)
    put("y" * 255)


@check
def a_temporary_file_without_name_is_refused_clearly():
    try:
        os.close(os.open(".", os.O_TMPFILE | os.O_RDWR))
    except OSError as e:
        assert e.errno in (errno.EOPNOTSUPP, errno.EISDIR), e


@check
def truncate():
    put("f", b"x" * 10000)
    os.truncate("f", 5)
    assert get("f") == b"xxxxx"
    os.truncate("f", 9000)
    assert get("f") == b"x" * 5 + b"\0" * 8995
    os.mkdir("d")
    fails(errno.EISDIR, os.truncate, "d", 0)


@check
def rename():
    put("a", b"a")
    put("b", b"b")
    os.rename("a", "b")
    assert get("b") == b"a" and not os.path.exists("a")
    fails(errno.ENOENT, os.rename, "a", "c")
    os.mkdir("d")
    os.mkdir("e")
    put("e/x")
    fails(errno.ENOTEMPTY, os.rename, "d", "e")
    fails(errno.ENOTDIR, os.rename, "d", "b")
    fails(errno.EISDIR, os.rename, "b", "d")
    fails(errno.EINVAL, os.rename, "e", "e/y")
    os.rename("e", "d")  # an empty folder is replaced
    assert os.listdir("d") == ["x"] and not os.path.exists("e")
    fd = os.open("b", os.O_RDONLY)
    os.rename("b", "d/moved")
    assert os.read(fd, 9) == b"a" and os.fstat(fd).st_ino == os.stat("d/moved").st_ino


@check
def rename_flags():
    import ctypes

    def renameat2(a, b, flags):
        if ctypes.CDLL(None, use_errno=True).renameat2(-100, a, -100, b, flags) < 0:
            raise OSError(ctypes.get_errno(), "renameat2")

    put("a", b"a")
    put("b", b"b")
    fails(errno.EEXIST, renameat2, b"a", b"b", 1)
    renameat2(b"a", b"b", 2)
    assert (get("a"), get("b")) == (b"b", b"a")
    renameat2(b"a", b"c", 1)
    assert get("c") == b"b"


@check
def links():
    put("a", b"one")
    os.link("a", "b")
    assert os.stat("a").st_nlink == 2 and os.stat("a").st_ino == os.stat("b").st_ino
    put("b", b"two!")
    assert get("a") == b"two!"
    os.unlink("a")
    assert get("b") == b"two!" and os.stat("b").st_nlink == 1
    fails(errno.EEXIST, os.link, "b", "b")
    os.mkdir("d")
    fails(errno.EPERM, os.link, "d", "e")
    os.symlink("nowhere/at all", "s")
    assert os.readlink("s") == "nowhere/at all" and os.lstat("s").st_size == 14
    fails(errno.EINVAL, os.readlink, "b")
    fails(errno.ENOENT, os.stat, "s")


@check
def remove():
    os.makedirs("d/e")
    fails(errno.ENOTEMPTY, os.rmdir, "d")
    fails(errno.EISDIR, os.unlink, "d")
    put("f")
    fails(errno.ENOTDIR, os.rmdir, "f")
    fails(errno.ENOENT, os.unlink, "g")
    fails(errno.EEXIST, os.mkdir, "f")
    os.removedirs("d/e")


@check
def an_open_file_lives_without_its_name():
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"still here")
    os.unlink("f")
    assert os.fstat(fd).st_nlink == 0
    os.ftruncate(fd, 5)
    assert os.pread(fd, 99, 0) == b"still"
    os.write(fd, b"!")
    os.close(fd)
    fails(errno.ENOENT, os.stat, "f")


@check
def memory_maps():
    put("f", b"a" * 8192)
    fd = os.open("f", os.O_RDWR)
    with mmap.mmap(fd, 8192) as m:
        m[5000:5003] = b"xyz"
        m.flush()
        assert os.pread(fd, 3, 5000) == b"xyz"
        os.pwrite(fd, b"Q", 0)
        assert m[0:1] == b"Q"
        m[1:2] = b"R"
    os.close(fd)
    assert get("f")[:2] == b"QR"


@check
def locks():
    put("f")
    a, b = os.open("f", os.O_RDWR), os.open("f", os.O_RDWR)
    fcntl.flock(a, fcntl.LOCK_EX)
    fails(errno.EAGAIN, fcntl.flock, b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(a, fcntl.LOCK_UN)
    fcntl.flock(b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(a, fcntl.LOCK_EX, 10)
    if (pid := os.fork()) == 0:
        try:
            fcntl.lockf(b, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 2)
        except OSError as e:
            os._exit(0 if e.errno in (errno.EAGAIN, errno.EACCES) else 2)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


@check
def holes():
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"end", 8 << 20)
    assert os.fstat(fd).st_blocks < 4096
    assert os.lseek(fd, 0, os.SEEK_DATA) > 0 and os.lseek(fd, 0, os.SEEK_HOLE) == 0
    os.posix_fallocate(fd, 0, 9 << 20)
    assert os.fstat(fd).st_size == 9 << 20
    assert os.pread(fd, 3, 8 << 20) == b"end"


@check
def copies():
    data = os.urandom(300_000)
    put("a", data)
    a, b = os.open("a", os.O_RDONLY), os.open("b", os.O_WRONLY | os.O_CREAT)
    left = len(data)
    while left:
        left -= os.copy_file_range(a, b, left)
    assert get("b") == data


@check
def attributes():
    put("f")
    try:
        os.setxattr("f", "user.a", b"1\0\xff")
    except OSError as e:
        assert e.errno == errno.EOPNOTSUPP  # the host's file system has none
        return
    assert os.getxattr("f", "user.a") == b"1\0\xff" and os.listxattr("f") == ["user.a"]
    fails(errno.EEXIST, os.setxattr, "f", "user.a", b"", os.XATTR_CREATE)
    os.removexattr("f", "user.a")
    fails(errno.ENODATA, os.getxattr, "f", "user.a")
    fails(errno.EOPNOTSUPP, os.setxattr, "f", "security.capability", struct.pack("<5I", 0x02000001, 1, 0, 0, 0)) \
        if os.geteuid() == 0 else None


@check
def names():
    odd = [b"new\nline", b"\xff\xfe", b" ", b"-rf", b"'\"\\$`*?", b"\xc3\xbc", b"\x01\x7f", b"x" * 255, b"..."]
    for i, name in enumerate(odd):
        put(name, b"%d" % i)
    assert sorted(os.listdir(b".")) == sorted(odd)
    for i, name in enumerate(odd):
        assert get(name) == b"%d" % i
        os.unlink(name)


@check
def large_folders():
    for i in range(300):
        put(f"{i}")
    assert sorted(map(int, os.listdir("."))) == list(range(300))
    with os.scandir(".") as entries:  # removed while it is read, as rm -r does
        for e in entries:
            os.unlink(e.name)
    assert os.listdir(".") == []


@check
def special_files():
    os.mkfifo("p")
    assert stat.S_ISFIFO(os.stat("p").st_mode)
    if (pid := os.fork()) == 0:
        os.write(os.open("p", os.O_WRONLY), b"through")
        os._exit(0)
    with open("p", "rb") as f:
        assert f.read() == b"through"
    os.waitpid(pid, 0)
    fails(errno.EPERM, os.mknod, "dev", stat.S_IFCHR | 0o666, os.makedev(1, 3))


@check
def room():
    st = os.statvfs(".")
    assert st.f_blocks > 0 and st.f_bavail > 0 and st.f_namemax >= 255


@check
def giving_away_changes_nothing():
    put("f")
    if os.geteuid() == 0:
        os.chown("f", 33, 33)
    else:
        fails(errno.EPERM, os.chown, "f", 33, -1)
    os.chown("f", os.geteuid(), os.getegid())
    assert os.stat("f").st_uid == os.geteuid()


@check
def writes_of_any_size():
    data = os.urandom(1_500_000)
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    for at in range(0, len(data), 99_991):
        os.pwrite(fd, data[at : at + 99_991], at)
    os.fsync(fd)
    assert get("f") == data
    os.pwrite(fd, b"!", 777_777)
    assert os.pread(fd, 3, 777_776) == data[777_776:777_777] + b"!" + data[777_778:777_779]


def main(folder):
    bad = 0
    for fn in CHECKS:
        place = os.path.join(folder, f"{fn.__name__}.{os.geteuid()}")
        os.mkdir(place)
        os.chdir(place)
        try:
            fn()
        except (AssertionError, OSError) as e:
            bad += 1
            line = e.__traceback__.tb_next.tb_lineno
            print(f"{fn.__name__}: line {line}: {type(e).__name__} {e}")
    print(f"{len(CHECKS)} checks, {bad} broken")


main(sys.argv[1])
