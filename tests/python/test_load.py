# SPDX-License-Identifier: Apache-2.0
"""Many of everything: two hundred boxes one after the other without growth, twenty at once from one loop; a terminal."""
import asyncio
import gc
import os
import pty
import resource
import threading

from sdkhome import FAKE_IMAGE, descriptors, fake_home, run, sdk  # noqa: F401 (fixtures)

CYCLES = 200
GROWTH = 2 << 20  # bytes: a cycle that kept one kilobyte would not show, one that kept a box' buffers would


def resident():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def test_two_hundred_boxes_leave_no_trace(sdk):
    async def cycle():
        async with sdk.SimpleBox(image=FAKE_IMAGE) as box:
            assert (await box.exec("echo", "x")).stdout == "x\n"

    async def main():
        for _ in range(20):  # what is made once is made
            await cycle()
        gc.collect()
        before = resident(), descriptors(), len(sdk.Boxlite.default()._core.handles)
        for _ in range(CYCLES):
            await cycle()
        gc.collect()
        memory, open_files, handles = resident(), descriptors(), len(sdk.Boxlite.default()._core.handles)
        assert (open_files, handles) == before[1:]
        assert memory - before[0] < GROWTH, f"{memory - before[0]} bytes more"
    asyncio.run(main())


def test_twenty_boxes_at_once_from_one_loop(sdk):
    async def work(i):
        async with sdk.SimpleBox(image=FAKE_IMAGE) as box:
            return (await box.exec("echo", str(i))).stdout

    async def main():
        assert await asyncio.gather(*(work(i) for i in range(20))) == [f"{i}\n" for i in range(20)]
    run(main())


def test_a_terminal_is_joined_to_a_shell(sdk):
    """InteractiveBox on a terminal of the test; it is as it was afterwards."""
    import termios
    leader, follower = pty.openpty()
    seen = bytearray()

    def read():
        try:
            while chunk := os.read(leader, 1000):
                seen.extend(chunk)
        except OSError:
            pass
    before = termios.tcgetattr(follower)

    async def main():
        box = sdk.InteractiveBox(image=FAKE_IMAGE, shell="/bin/sh", stdin_fd=follower, stdout_fd=follower, stderr_fd=follower)
        async with box:
            assert termios.tcgetattr(follower) != before
            os.write(leader, b"echo $((6*7)); exit 5\n")
            result = await box.wait()
            assert result.exit_code == 5
    reader = threading.Thread(target=read)
    reader.start()
    try:
        run(main())
        assert termios.tcgetattr(follower) == before
    finally:
        os.close(follower)
        reader.join(10)
        os.close(leader)
    assert b"42" in seen
