# SPDX-License-Identifier: Apache-2.0
"""Commands: results, streams, input, terminals, time-outs, cancellation."""
import asyncio
import os
import pickle
import signal
import time

import pytest

from sdkhome import FAKE_IMAGE, fake_home, run, sdk  # noqa: F401 (fixtures)


def box_test(work):
    """A test whose body has a SimpleBox."""
    def test(sdk):
        async def main():
            async with sdk.SimpleBox(image=FAKE_IMAGE) as box:
                await work(sdk, box)
        run(main())
    test.__name__, test.__doc__ = work.__name__, work.__doc__
    return test


def sh(script):
    return ("sh", "-c", script)


@box_test
async def test_a_result_has_all(sdk, box):
    r = await box.exec(*sh("echo out; echo err >&2; exit 7"))
    assert (r.exit_code, r.stdout, r.stderr) == (7, "out\n", "err\n")
    assert not r.ok and not r.timed_out and r.signal == 0 and r.error_message is None
    assert (await box.exec("true")).ok


@box_test
async def test_bytes_are_never_lossy(sdk, box):
    r = await box.exec("printf", r"\377\000\303\050")
    assert r.stdout_bytes == b"\xff\0\xc3\x28" and r.stdout == "\ufffd\0\ufffd("


@box_test
async def test_env_cwd_and_arguments(sdk, box):
    r = await box.exec("sh", "-c", 'echo "$A|$1"; pwd', "sh", "a b", env={"A": "x y"}, cwd="/tmp")
    assert r.stdout == "x y|a b\n/tmp\n"
    assert (await box.exec("sh", "-c", "echo $A", env=[("A", "1")])).stdout == "1\n"


@box_test
async def test_input_goes_in_and_output_comes_out_whatever_their_sizes(sdk, box):
    data = os.urandom(3_000_000)
    r = await box.exec("cat", stdin=data)
    assert r.stdout_bytes == data
    assert (await box.exec("cat", stdin="text é")).stdout == "text é"
    assert (await box.exec("cat")).stdout == ""
    assert (await box.exec("head", "-c", "10", stdin=data)).stdout_bytes == data[:10]


@box_test
async def test_both_outputs_are_read_at_once(sdk, box):
    r = await box.exec(*sh("head -c 5000000 /dev/zero >&2; head -c 5000000 /dev/zero"))
    assert len(r.stdout_bytes) == len(r.stderr_bytes) == 5_000_000


@box_test
async def test_a_signal_is_told(sdk, box):
    r = await box.exec(*sh("kill -9 $$"))
    assert (r.exit_code, r.signal) == (137, 9)


@box_test
async def test_what_cannot_start_is_data(sdk, box):
    r = await box.exec("/no/such/program")
    assert r.exit_code == 127 and "No such file" in r.error_message
    with pytest.raises(sdk.ExecError) as caught:
        await box.exec("/no/such/program", check=True)
    assert caught.value.exit_code == 127 and caught.value.command == ["/no/such/program"]


@box_test
async def test_check_raises_with_the_result(sdk, box):
    with pytest.raises(sdk.ExecError) as caught:
        await box.exec(*sh("echo why >&2; exit 3"), check=True)
    error = caught.value
    assert (error.code, error.exit_code, error.stderr, error.result.exit_code) == ("EXEC", 3, "why\n", 3)
    assert "exit code 3: why" in str(error) and isinstance(error, RuntimeError)
    assert pickle.loads(pickle.dumps(error)).exit_code == 3


@box_test
async def test_too_much_output_ends_the_command(sdk, box):
    with pytest.raises(sdk.ResourceExhaustedError) as caught:
        await box.exec("cat", "/dev/zero", max_output=1000)
    assert "1000 bytes to stdout" in str(caught.value) and caught.value.hint
    assert (await box.exec("head", "-c", "1000", "/dev/zero", max_output=1000)).ok


@box_test
async def test_a_cancelled_task_ends_its_command(sdk, box):
    mark = f"7{os.getpid()}.{time.monotonic_ns()}"
    task = asyncio.ensure_future(box.exec("sleep", mark))
    while (await box.exec("pgrep", "-f", f"^sleep {mark}")).exit_code != 0:
        assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while (await box.exec("pgrep", "-f", f"^sleep {mark}")).exit_code == 0:
        await asyncio.sleep(0)
    assert (await box.exec("true")).ok


@box_test
async def test_many_commands_at_once(sdk, box):
    results = await asyncio.gather(*(box.exec("echo", str(i)) for i in range(50)))
    assert [r.stdout for r in results] == [f"{i}\n" for i in range(50)]


@box_test
async def test_streams_come_as_they_are_written(sdk, box):
    async with await box.spawn(*sh("echo one; read x; echo two $x >&2; read y"), stdin=True) as command:
        pieces, stdin = command.output(), command.stdin()
        assert await pieces.__anext__() == ("stdout", b"one\n")
        await stdin.send_input("go\n")
        piece = await pieces.__anext__()
        assert (piece.stream, piece.text) == ("stderr", "two go\n")
        await stdin.close()
        assert stdin.is_closed()
        assert [piece async for piece in pieces] == []
        assert (await command.wait()).exit_code == 1


@box_test
async def test_text_is_never_cut_inside_a_character(sdk, box):
    async with await box.spawn(*sh(r"printf '\303'; sleep 0.05; printf '\251\n'; printf 'x\303'")) as command:
        assert "".join([piece async for piece in command.stdout()]) == "é\nx\ufffd"


@box_test
async def test_lines_and_whole_streams(sdk, box):
    async with await box.spawn(*sh("printf 'a\\nb\\n\\nc'; echo e >&2")) as command:
        assert [line async for line in command.stdout().lines()] == ["a", "b", "", "c"]
        assert await command.stderr().read() == b"e\n"
    async with await box.spawn("head", "-c", "2000", "/dev/zero") as command:
        with pytest.raises(sdk.ResourceExhaustedError):
            await command.stdout().read(limit=1999)


@box_test
async def test_a_stream_is_taken_once(sdk, box):
    async with await box.spawn("true") as command:
        command.stdout()
        with pytest.raises(sdk.InvalidStateError):
            command.stdout()
        with pytest.raises(sdk.InvalidStateError):
            command.stdin()
        with pytest.raises(sdk.InvalidStateError):
            await command.communicate()


@box_test
async def test_wait_drops_what_nobody_reads(sdk, box):
    execution = await box.box.exec("head", ["-c", "100000000", "/dev/zero"])
    result = await asyncio.wait_for(execution.wait(), 30)
    assert result.exit_code == 0 and int(execution.id()) > 0
    execution.close()


@box_test
async def test_signals_reach_a_command(sdk, box):
    async with await box.spawn(*sh("trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.01; done")) as command:
        lines = command.stdout().lines()
        assert await lines.__anext__() == "up"
        await command.signal(signal.SIGUSR1)
        assert await lines.__anext__() == "got"
        assert (await command.wait()).exit_code == 5
        with pytest.raises(sdk.InvalidStateError):
            await command.kill()


@box_test
async def test_kill_ends_it(sdk, box):
    async with await box.spawn("sleep", "1000") as command:
        await command.kill()
        assert (await command.wait()).signal == 9


@box_test
async def test_a_closed_command_tells_who_waits(sdk, box):
    command = await box.spawn("sleep", "1000")
    waiting = asyncio.ensure_future(command.wait())
    await asyncio.sleep(0)
    command.close()
    with pytest.raises(sdk.InvalidStateError):
        await waiting
    assert "closed" in repr(command)


@box_test
async def test_a_detached_command_is_found_again(sdk, box):
    command = await box.spawn(*sh("echo first; sleep 0.05; echo last"), detach=True)
    while command.id() == "0":
        await asyncio.sleep(0.001)
    number = command.id()
    command.close()
    async with await box.box.attach(number) as again:
        assert await again.stdout().read() == b"first\nlast\n"
        assert (await again.wait()).ok


@box_test
async def test_arguments_that_cannot_be_are_refused(sdk, box):
    with pytest.raises(sdk.InvalidArgumentError):
        await box.exec("echo", "a\0b")
    with pytest.raises(TypeError):
        await box.exec("echo", 5)
    with pytest.raises(sdk.InvalidArgumentError):
        await box.exec("true", timeout=-1)
    with pytest.raises(sdk.InvalidArgumentError):
        await box.exec("true", env=["A=b"])
    with pytest.raises(ValueError):  # the library's own check
        await box.exec("true", cwd="relative")


@box_test
async def test_representations_hold_no_secrets(sdk, box):
    r = await box.exec("echo", "hunter2", env={"TOKEN": "hunter2"})
    async with await box.spawn("echo", "hunter2") as command:
        assert "hunter2" not in repr(r) + repr(command) + repr(box) + repr(box.box)
    options = sdk.BoxOptions(image="x", env={"TOKEN": "hunter2"}, cmd=["--password=hunter2"])
    assert "hunter2" not in repr(options) + repr(sdk.ImageRegistry("r", username="u", password="hunter2"))


def test_used_outside_its_block(sdk):
    async def main():
        box = sdk.SimpleBox(image=FAKE_IMAGE)
        with pytest.raises(sdk.InvalidStateError) as caught:
            await box.exec("true")
        assert "async with" in caught.value.hint
        async with box:
            pass
        with pytest.raises(sdk.InvalidStateError):
            await box.exec("true")
    run(main())
