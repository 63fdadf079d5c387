# SPDX-License-Identifier: Apache-2.0
"""boxlite.sync: the same without an event loop; and how the package looks to tools."""
import asyncio
import inspect
import os
import subprocess
import sys
import threading
import time

import pytest

from conftest import Cli, ROOT, home_processes, wait_until
from sdkhome import FAKE_IMAGE, PACKAGE, fake_home, python, sdk  # noqa: F401 (fixtures)


@pytest.fixture(scope="module", autouse=True)
def sync_loop():
    """Its descriptors are there before a test counts any."""
    from boxlite import _blocking
    _blocking.call(lambda: None)


@pytest.fixture
def sync(sdk):
    import boxlite.sync
    return boxlite.sync


def test_boxes_without_a_loop(sdk, fake_home):
    done = python("""
from boxlite.sync import Boxlite, CodeBox, SimpleBox
import boxlite, os, sys
with SimpleBox(image="test/fake:latest") as box:
    r = box.exec("sh", "-c", "echo out; exit 3")
    assert (r.stdout, r.exit_code) == ("out\\n", 3)
    with box.spawn("sh", "-c", "echo a; echo b >&2", ) as command:
        assert sorted(piece.text for piece in command.output()) == ["a\\n", "b\\n"]
        assert command.wait().ok
    with box.spawn("cat", stdin=True) as command:
        stdin = command.stdin()
        stdin.send_input("x\\ny\\n")
        stdin.close()
        assert list(command.stdout().lines()) == ["x", "y"]
    box.write_file(sys.argv[1] + "/f", b"data")
    assert box.read_file(sys.argv[1] + "/f") == b"data"
    try:
        box.exec("false", check=True)
    except boxlite.ExecError as error:
        assert error.exit_code == 1
with CodeBox(image="test/fake:latest") as code:
    assert code.run("print(6*7)", cwd=sys.argv[1]) == "42\\n"
with Boxlite() as runtime:
    box, made = runtime.get_or_create(boxlite.BoxOptions(image="test/fake:latest"), name="s")
    with SimpleBox(image="test/fake:latest", name="s", reuse_existing=True, runtime=runtime) as same:
        assert same.id == box.id and made and not same.created
    assert runtime.images.list()[0].names
    assert runtime.get("s") is None
print("done", repr(runtime).startswith("<Boxlite "))
""", str(fake_home.parent))
    assert done.stdout == "done True\n" and done.returncode == 0, done.stderr


def test_threads_share_it(sync):
    found = []

    def work(i):
        with sync.SimpleBox(image=FAKE_IMAGE) as box:
            found.append(box.exec("echo", str(i)).stdout)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == [f"{i}\n" for i in range(5)]
    sync.run(sync.Boxlite.default()._async._core.aclose)


def test_inside_a_running_loop(sync):
    async def notebook():
        with sync.SimpleBox(image=FAKE_IMAGE) as box:
            return box.exec("echo", "cell").stdout
    assert asyncio.run(notebook()) == "cell\n"
    sync.run(sync.Boxlite.default()._async._core.aclose)


def test_an_interrupt_ends_the_command(sdk, fake_home):
    done = python("""
import os, signal, threading
from boxlite.sync import SimpleBox
with SimpleBox(image="test/fake:latest") as box:
    mark = "9%d.5" % os.getpid()
    def interrupt():
        while box.exec("pgrep", "-f", "^sleep " + mark).exit_code:
            pass
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        box.exec("sleep", mark)
    except KeyboardInterrupt:
        while box.exec("pgrep", "-f", "^sleep " + mark).exit_code == 0:
            pass
        print("interrupted")
""", flags=())
    assert done.stdout == "interrupted\n", done.stderr


def test_exit_without_a_goodbye(sdk, fake_home):
    done = python("from boxlite.sync import SimpleBox\nbox = SimpleBox(image='test/fake:latest').start()\nprint(box.id)", flags=())
    assert done.returncode == 0 and done.stderr == "", done.stderr
    wait_until(lambda: not home_processes(fake_home), what="the box to end")
    wait_until(lambda: not Cli(fake_home).boxes(), what="the box to be removed")


def test_fork_gives_the_child_its_own(sdk):
    done = python("""
import os
from boxlite.sync import SimpleBox
with SimpleBox(image="test/fake:latest") as box:
    print(box.exec("echo", "parent").stdout, end="", flush=True)
    pid = os.fork()
    if pid == 0:
        with SimpleBox(image="test/fake:latest") as own:
            print(own.exec("echo", "child").stdout, end="", flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print(box.exec("echo", "parent").stdout, end="", flush=True)
""", flags=())
    assert done.stdout == "parent\nchild\nparent\n", done.stderr


def test_the_file_is_what_the_classes_say():
    subprocess.run([sys.executable, ROOT / "tools/sdk-sync", "--check"], check=True)


def test_hints_are_strict():
    if subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True).returncode:
        pytest.skip("mypy is missing (package python3-mypy)")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, ROOT / "python/boxlite"],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout


def public(module):
    for name in module.__all__:
        value = getattr(module, name)
        yield name, value
        if inspect.isclass(value):
            for member, item in vars(value).items():
                if not member.startswith("_") and (inspect.isfunction(item) or isinstance(item, (property, classmethod))):
                    yield f"{name}.{member}", item


def test_everything_is_documented(sync, sdk):
    obvious = {"stdout", "stderr", "stdout_bytes", "stderr_bytes", "exit_code", "duration", "timed_out", "ok", "text",
               "from_json"}  # of results: the class says it
    for module in (sdk, sync):
        for name, value in public(module):
            assert inspect.getdoc(getattr(value, "__func__", value)) or name.split(".")[-1] in obvious, name
    assert "timeout: seconds" in inspect.getdoc(sdk.CodeBox.run)


def test_import_is_fast():
    """100 ms is promised. What a loaded machine says of seconds is noise; what is imported is not."""
    done = python("import sys, asyncio\nbefore = set(sys.modules)\nimport boxlite\nprint(*(set(sys.modules) - before))")
    assert done.returncode == 0, done.stderr
    heavy = {"cffi", "pycparser", "sqlite3", "email", "http", "http.client", "multiprocessing", "unittest", "pkg_resources",
             "importlib.metadata", "curses"}
    assert not heavy & set(done.stdout.split())
    assert len(done.stdout.split()) < 60
