# SPDX-License-Identifier: Apache-2.0
"""Boxes and runtimes: names, states, errors, and that nothing is left behind, however a program ends."""
import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import warnings

import pytest

from conftest import Cli, home_processes, wait_until
from sdkhome import FAKE_IMAGE, PACKAGE, fake_home, python, run, sdk  # noqa: F401 (fixtures)


def test_the_life_of_a_box(sdk):
    async def main():
        async with sdk.Boxlite() as runtime:
            box = await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE, labels={"a": "b=c"}, auto_remove=False,
                                                      memory_mib=256, cpus=1, disk_size_gb=0.25), name="alive")
            assert await box.status() == "created"
            info = await box.info()
            assert (info.name, info.memory_mib, info.disk_bytes, info.labels) == ("alive", 256, 256 << 20, {"a": "b=c"})
            await box.start()
            await box.start()
            info = await runtime.get_info("alive")
            assert info.state.running and info.state.pid and info.started_at and info.engine == "auto"
            await box.pause()
            assert await box.status() == "paused"
            await box.resume()
            metrics = await box.metrics()
            assert metrics.memory_bytes > 0 and metrics.commands_executed_total == 0
            assert (await runtime.metrics()).num_running_boxes == 1
            await box.stop()
            await box.stop()
            assert await box.status() == "stopped"
            await box.remove()
            assert await box.status() == "removed"
            await box.remove()
            assert await runtime.get("alive") is None and await runtime.get_info("alive") is None
            with pytest.raises(sdk.NotFoundError):
                await runtime.remove("alive")
            assert (await runtime.metrics()).boxes_created_total == 1
    run(main())


def test_names_and_get_or_create(sdk):
    async def main():
        async with sdk.Boxlite() as runtime:
            options = sdk.BoxOptions(image=FAKE_IMAGE)
            first, made = await runtime.get_or_create(options, name="once")
            again, made_again = await runtime.get_or_create(options, name="once")
            assert (made, made_again) == (True, False) and first.id == again.id
            with pytest.raises(sdk.AlreadyExistsError) as caught:
                await runtime.create(options, name="once")
            assert caught.value.code == "EXISTS"
            assert [info.name for info in await runtime.list_info()] == ["once"]
            many = await asyncio.gather(*(runtime.get_or_create(options, name="twice") for _ in range(5)))
            assert sum(made for _box, made in many) == 1
            for name in ("once", "twice"):
                await runtime.remove(name, force=True)
    run(main())


def test_a_box_is_found_again_by_its_name(sdk):
    async def start():
        async with sdk.SimpleBox(image=FAKE_IMAGE, name="kept", detach=True) as box:
            assert box.created is True
            return box.id

    async def join(box_id):
        async with sdk.SimpleBox(image=FAKE_IMAGE, name="kept", reuse_existing=True) as box:
            assert box.created is False and box.id == box_id
            assert (await box.exec("echo", "there")).stdout == "there\n"
        box = await sdk.Boxlite.default().get("kept")
        assert await box.status() == "running"
        await box.remove(force=True)
    run(join(run(start())))


def test_a_box_is_started_by_its_first_command(sdk):
    async def main():
        async with sdk.Boxlite() as runtime:
            box = await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE))
            execution = await box.exec("echo", ["up"], stdin=False)
            assert await execution.stdout().read() == b"up\n"
            execution.close()
            async with box:
                pass
            assert await box.status() == "removed"
    run(main())


def test_a_main_command(sdk):
    async def main():
        async with sdk.Boxlite() as runtime:
            box = await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE, cmd=["sh", "-c", "cat; exit 4"], main=True,
                                                      stdin=True, auto_remove=False))
            await box.start()
            command = await box.main()
            stdin = command.stdin()
            await stdin.send_input("hi\n")
            await stdin.close()
            assert await command.stdout().read() == b"hi\n"
            assert (await command.wait()).exit_code == 4
            command.close()
            await box.remove(force=True)
    run(main())


def test_errors_are_typed(sdk):
    async def main():
        async with sdk.Boxlite() as runtime:
            with pytest.raises(sdk.NotFoundError) as caught:
                await runtime.create(sdk.BoxOptions(image="no/such:image", kernel="nope"))
            assert isinstance(caught.value, LookupError) and "nope" in caught.value.message
            with pytest.raises(sdk.NetworkError):  # pulled, from where nobody listens
                await runtime.create(sdk.BoxOptions(image="localhost:1/no/such:image"))
            for bad in ({"cpus": 0}, {"memory_mib": 1}, {"memory_mib": -1}, {"cpus": "many"}, {"network": "maybe"},
                        {"volumes": [("a",)]}, {"volumes": [{"host": "/"}]}, {"volumes": [("/", "/m", "x")]},
                        {"env": {"A=": "x"}}, {"cmd": "one text"}, {"working_dir": "relative"}, {"timeout": -1}):
                with pytest.raises(ValueError):
                    await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE, **bad))
            with pytest.raises(sdk.UnsupportedError):
                await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE, ports=[(8080, 80)]))
            assert (await runtime.metrics()).boxes_failed_total == 15
    run(main())
    with pytest.raises(ValueError):
        sdk.SimpleBox()
    with pytest.raises(TypeError):
        sdk.SimpleBox(image="x", memory=5)
    with pytest.raises(ValueError):
        sdk.SimpleBox(image="x", reuse_existing=True)


def test_the_cause_and_the_hint(sdk, tmp_path):
    with pytest.raises(sdk.BoxliteError) as caught:
        sdk.Boxlite(sdk.Options(home_dir="/proc/none/home"))
    assert isinstance(caught.value.cause, OSError) and caught.value.__cause__ is caught.value.cause
    with pytest.raises(sdk.NotFoundError) as caught:
        async def main():
            async with sdk.Boxlite(sdk.Options(home_dir=tmp_path / "empty")) as runtime:
                await runtime.create(sdk.BoxOptions(image="a"))
        run(main())
    assert caught.value.hint and "hint: " in str(caught.value)


def test_a_failing_start_leaves_nothing(sdk, monkeypatch, fake_home):
    monkeypatch.setenv("FAKE_SHIM", "exit")

    async def main():
        with pytest.raises(sdk.BoxliteError):
            async with sdk.SimpleBox(image=FAKE_IMAGE):
                raise AssertionError("it did not start")
    run(main())
    assert Cli(fake_home).boxes() == []


def test_a_cancelled_start_leaves_nothing(sdk, monkeypatch, fake_home):
    monkeypatch.setenv("FAKE_SHIM", "hang")

    async def main():
        starting = asyncio.ensure_future(sdk.SimpleBox(image=FAKE_IMAGE).start())
        while not Cli(fake_home).boxes():
            assert not starting.done()
            await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert Cli(fake_home).boxes() == []
    run(main())


def test_an_exception_ends_the_box(sdk, fake_home):
    async def main():
        with pytest.raises(ZeroDivisionError):
            async with sdk.SimpleBox(image=FAKE_IMAGE):
                raise ZeroDivisionError
        assert Cli(fake_home).boxes() == []
    run(main())


def test_a_loop_that_ends_takes_its_boxes_along(sdk, fake_home):
    async def main():
        box = sdk.SimpleBox(image=FAKE_IMAGE)
        await box.start()
        return box, await box.spawn("sleep", "1000")
    box, command = run(main())
    wait_until(lambda: not home_processes(fake_home), what="the box to end")
    with pytest.raises(sdk.InvalidStateError):
        run(box.exec("true"))
    assert "closed" in repr(command)


def test_a_closed_runtime_says_so(sdk):
    async def main():
        runtime = sdk.Boxlite()
        box = await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE))
        await box.start()
        waiting = asyncio.ensure_future((await box.exec("sleep", ["1000"])).communicate())
        await asyncio.sleep(0)
        runtime.close()
        runtime.close()
        with pytest.raises(sdk.InvalidStateError):
            await waiting
        with pytest.raises(sdk.InvalidStateError) as caught:
            await box.start()
        assert "closed" in str(caught.value)
    run(main())


def test_shutdown_stops_its_boxes(sdk):
    async def main():
        runtime = sdk.Boxlite()
        box = await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE))
        await box.start()
        waiting = asyncio.ensure_future((await box.exec("sleep", ["1000"])).communicate())
        await asyncio.sleep(0)
        await runtime.shutdown(0)
        await runtime.shutdown()
        result = await waiting
        assert result.exit_code == 137 and result.box_lost
    run(main())


def test_two_loops_one_after_the_other(sdk):
    async def main():
        async with sdk.SimpleBox(image=FAKE_IMAGE) as box:
            return (await box.exec("echo", "x")).stdout
    assert run(main()) + run(main()) == "x\nx\n"
    runtime = sdk.Boxlite()

    async def with_runtime():
        async with sdk.SimpleBox(image=FAKE_IMAGE, runtime=runtime) as box:
            await box.exec("true")
    run(with_runtime())
    with pytest.raises(sdk.InvalidStateError):  # its loop has ended, and it with it
        run(with_runtime())


def test_a_runtime_belongs_to_one_thread(sdk):
    caught = []

    async def main():
        runtime = sdk.Boxlite.default()
        await runtime.list_info()

        def other():
            try:
                asyncio.run(runtime.list_info())
            except sdk.InvalidStateError as error:
                caught.append(error)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    run(main())
    assert "another thread" in str(caught[0])


def test_init_default_comes_first(sdk, fake_home):
    async def main():
        sdk.Boxlite.init_default(sdk.Options(home_dir=fake_home))
        assert sdk.Boxlite.default() is sdk.Boxlite.default()
        with pytest.raises(sdk.InvalidStateError):
            sdk.Boxlite.init_default(sdk.Options())
    run(main())
    sdk.Boxlite.init_default(None)


def test_losing_the_last_reference_ends_a_command(sdk):
    async def main():
        async with sdk.SimpleBox(image=FAKE_IMAGE) as box:
            mark = f"8{os.getpid()}.25"
            command = await box.spawn("sleep", mark)
            while (await box.exec("pgrep", "-f", f"^sleep {mark}")).exit_code != 0:
                pass
            del command
            gc.collect()
            while (await box.exec("pgrep", "-f", f"^sleep {mark}")).exit_code == 0:
                pass
    run(main())


def test_a_collector_in_another_thread_is_safe(sdk):
    """The handle is freed by the loop's thread, which is woken."""
    async def main():
        async with sdk.SimpleBox(image=FAKE_IMAGE) as box:
            for _ in range(20):
                holder = [await box.spawn("sleep", "1000") for _ in range(5)]
                handles = [command._handle for command in holder]
                thread = threading.Thread(target=holder.clear)
                thread.start()
                thread.join()
                while any(handle.alive for handle in handles):
                    await asyncio.sleep(0.001)
    run(main())


def test_a_runtime_that_nobody_closed_warns_and_is_closed(sdk, fake_home):
    async def main():
        runtime = sdk.Boxlite()
        box = await runtime.create(sdk.BoxOptions(image=FAKE_IMAGE))
        await box.start()
        loops = [runtime, box]
        runtime = box = None
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            loops.clear()
            gc.collect()
        return seen
    run(main())
    wait_until(lambda: not home_processes(fake_home), what="the box to end")


PROGRAM = """
import asyncio, os, signal, sys, boxlite
async def main():
    async with boxlite.SimpleBox(image="test/fake:latest") as box:
        print(os.getpid(), flush=True)
        {}
asyncio.run(main())
"""


@pytest.mark.parametrize("body, status", [
    ("os.kill(os.getpid(), signal.SIGINT); await box.exec('sleep', '1000')", -2),
    ("sys.exit(3)", 3),
    ("os._exit(5)", 5),
    ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ("box._keep = box; raise ValueError", 1),
])
def test_however_a_program_ends_its_boxes_end(sdk, fake_home, body, status):
    done = python(PROGRAM.format(body))
    assert done.returncode in (status, 130 if status == -2 else status), done.stderr
    wait_until(lambda: not home_processes(fake_home), what=f"the boxes to end: {body}")
    wait_until(lambda: not Cli(fake_home).boxes(), what="the box to be removed")


def test_fork_leaves_the_parents_boxes_alone(sdk):
    done = python("""
import asyncio, os, boxlite
async def main():
    async with boxlite.SimpleBox(image="test/fake:latest") as box:
        command = await box.spawn("cat", stdin=True)
        pid = os.fork()
        if pid == 0:
            try:
                await box.exec("true")
            except boxlite.InvalidStateError as error:
                print("child:", error.message, flush=True)
            del command, box
            os._exit(0)
        os.waitpid(pid, 0)
        print((await command.communicate("still there")).stdout)
asyncio.run(main())
""", flags=())
    assert done.stdout == "child: this runtime was made before fork()\nstill there\n", done.stderr


def test_a_forked_child_has_a_runtime_of_its_own(sdk):
    done = python("""
import asyncio, os, boxlite
async def work():
    async with boxlite.SimpleBox(image="test/fake:latest") as box:
        return (await box.exec("echo", "x")).stdout
print(asyncio.run(work()), end="", flush=True)
pid = os.fork()
print(asyncio.run(work()), end="", flush=True)
if pid:
    assert os.waitpid(pid, 0)[1] == 0
""", flags=())
    assert done.stdout == "x\n" * 3, done.stderr


def test_import_is_quiet_and_needs_no_home(tmp_path):
    done = python("import boxlite; print(boxlite.__version__)", env={"HOME": str(tmp_path / "none")})
    assert done.returncode == 0 and done.stdout.count(".") == 2 and done.stderr == "", done.stderr
