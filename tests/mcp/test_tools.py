# SPDX-License-Identifier: Apache-2.0
"""The tools, in real VMs."""
import base64
import io
import json
import os
import pathlib
import shutil
import signal
import tarfile
import time

import pytest

from conftest import ARTIFACTS, MCP_SERVER, wait_until, box_processes
from mcpclient import Server
from registry import Registry

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    return tmp_path_factory.mktemp("audit") / "log"


@pytest.fixture(scope="module")
def server(home, audit):
    s = Server([MCP_SERVER, "--audit-log", str(audit), "--allow-pull", "none"], {"BOXLITE_HOME": str(home)})
    s.initialize()
    yield s
    assert s.close()[0] == 0


def test_execute_code_runs_python(server):
    result = server.call("execute_code", code="print(6*7)", language="python")
    v = result["structuredContent"]
    assert not result["isError"]
    assert (v["stdout"], v["stderr"], v["exit_code"], v["timed_out"]) == ("42\n", "", 0, False)
    assert v["engine"] and v["environment"] == "default" and v["file"] == "main.py"
    assert "42" in result["content"][0]["text"]


def test_the_audit_log_names_the_image_by_digest(server, audit, vm):
    server.call("run_command", command="exit 3")
    entry = json.loads(audit.read_text().splitlines()[-1])
    image = json.loads(vm.ok("image", "inspect", "boxlite/base:bookworm"))[0]
    assert entry["image"] == "boxlite/base:bookworm" and entry["exit_code"] == 3
    assert entry["image_digest"].startswith("sha256:") and entry["image_digest"] in json.dumps(image)


def test_files_stay_between_calls_and_tests_see_the_code(server):
    server.call("execute_code", code="def double(x):\n    return 2 * x\n", language="python")
    test = "python3 -c 'import main; assert main.double(4) == 8; print(\"good\")'"
    v = server.call("execute_code", code="def double(x):\n    return x + x\n", language="python",
                    test_command=test)["structuredContent"]
    assert v["tests_passed"] is True and v["tests"]["stdout"] == "good\n"
    v = server.call("execute_code", code="def double(x):\n    return 3 * x\n", language="python",
                    test_command=test)["structuredContent"]
    assert v["tests_passed"] is False and v["tests"]["exit_code"] == 1 and "AssertionError" in v["tests"]["stderr"]


def test_exit_code_and_stderr_are_data(server):
    result = server.call("execute_code", code="import sys\nsys.stderr.write('oops')\nsys.exit(3)", language="py")
    assert result["isError"] is False
    assert result["structuredContent"]["exit_code"] == 3 and result["structuredContent"]["stderr"] == "oops"


def test_missing_language_is_an_error_that_says_which_images_would_do(server):
    result = server.call("execute_code", code="puts 1", language="ruby")
    v = result["structuredContent"]
    assert result["isError"] and v["code"] == "NOT_FOUND" and "ruby" in v["error"] and "ruby:" in v["hint"]


@pytest.mark.parametrize("code", ["", "a", "a\n", "\n\n", "  x\t\\n \\\n\u20ac %s $HOME `id` 'q' \"\n\nlast", "# " + "y" * 1023])
def test_code_arrives_exactly(server, code):
    server.call("execute_code", code=code, language="sh")
    assert server.call("read_file", path="main.sh")["structuredContent"]["content"] == code


COMPILER = """#!/bin/sh
# stands in for a compiler: the program is the source, run by sh
echo compiled >> /tmp/compiled
while [ $# -gt 0 ]; do case $1 in -o) out=$2; shift 2;; -*) shift;; *) in=$1; shift;; esac; done
grep -q 'syntax error' "$in" && { echo "$in:1: syntax error" >&2; exit 1; }
{ echo '#!/bin/sh'; cat "$in"; } > "$out" && chmod +x "$out"
"""


def test_compiled_languages_build_once_and_say_what_does_not_build(server):
    server.call("write_file", path="/usr/local/bin/gcc", content=COMPILER)
    server.call("run_command", command="chmod +x /usr/local/bin/gcc")
    for text in ("in", "again"):
        v = server.call("execute_code", code="read x; echo $x; exit 3", language="c", stdin=text)["structuredContent"]
        assert (v["stdout"], v["exit_code"], v["file"]) == (text + "\n", 3, "main.c"), v
    v = server.call("execute_code", code="syntax error", language="c")["structuredContent"]
    assert v["exit_code"] == 1 and "main.c:1: syntax error" in v["stderr"]
    v = server.call("run_command", command="cat /tmp/compiled; ls /var/tmp/boxlite-build | wc -l")["structuredContent"]
    assert v["stdout"] == "compiled\ncompiled\n1\n"  # the one that did not build left nothing
    server.call("run_command", command="rm /usr/local/bin/gcc")


def test_a_local_image_that_has_the_language_is_used(server, vm, tmp_path):
    copy = tmp_path / "ruby.tar"
    shutil.copy(ARTIFACTS / "base.tar", copy)
    script = b"#!/bin/sh\nexec sh \"$@\"\n"
    with tarfile.open(copy, "a") as tar:
        entry = tarfile.TarInfo("./usr/bin/ruby")
        entry.size, entry.mode = len(script), 0o755
        tar.addfile(entry, io.BytesIO(script))
    vm.ok("image", "import", copy, "ruby:3-test", timeout=300)
    v = server.call("execute_code", code="echo from ruby", language="ruby")["structuredContent"]
    assert (v["stdout"], v["environment"], v["exit_code"]) == ("from ruby\n", "default-rb", 0), v
    listed = server.call("list_environments")["structuredContent"]["environments"]
    assert [e["image"] for e in listed if e["environment"] == "default-rb"] == ["ruby:3-test"]
    server.call("remove_environment", environment="default-rb")
    vm.ok("image", "rm", "-f", "ruby:3-test")


def test_code_of_four_megabytes(server):
    code = "x = '" + "a" * (4 << 20) + "'\nprint(len(x))\n"
    assert server.call("execute_code", code=code, language="python")["structuredContent"]["stdout"] == f"{4 << 20}\n"


def test_long_output_keeps_head_and_tail_and_says_how_much(server):
    code = "for i in range(200000): print('line', i)"
    v = server.call("execute_code", code=code, language="python")["structuredContent"]
    assert v["truncated"] and v["stdout"].startswith("line 0\nline 1\n") and v["stdout"].endswith("line 199999\n")
    assert "bytes left out" in v["stdout"] and len(v["stdout"]) < 10000
    assert v["stdout_bytes"] == sum(len(f"line {i}\n") for i in range(200000))


def test_whole_output_is_reachable_by_offset_tail_and_pattern(server):
    lines = "".join(f"line {i}\n" for i in range(30000))
    v = server.call("execute_code", code="for i in range(30000): print('line', i)", language="python")["structuredContent"]
    process, offset, got = v["process"], 0, ""
    assert v["stdout_lines"] == 30000 and v["truncated"]
    while True:
        part = server.call("read_output", process=process, offset=offset, max_bytes=150000)["structuredContent"]
        got += part["content"]
        offset = part["next_offset"]
        if part["end"]:
            break
    assert got == lines
    v = server.call("read_output", process=process, tail_lines=2)["structuredContent"]
    assert v["content"] == "line 29998\nline 29999\n" and v["next_offset"] == len(lines)
    v = server.call("read_output", process=process, pattern="LINE 777", context_lines=1, max_bytes=60)["structuredContent"]
    assert v["content"].startswith("777-line 776\n778:line 777\n779-line 778\n") and v["truncated"] and v["matches"] == 11


def test_error_lines_in_the_middle_are_shown(server):
    code = "for i in range(20000): print('ValueError: the needle' if i == 9000 else f'line {i}')"
    v = server.call("execute_code", code=code, language="python")["structuredContent"]
    assert v["truncated"] and "ValueError: the needle\nline 9001\n" in v["stdout"] and len(v["stdout"]) < 10000


def test_results_keep_to_the_budget_with_escapes_counted(server):
    code = "print('\\x01\"' * 30000); import sys; print('e' * 50000, file=sys.stderr)"
    v = server.call("execute_code", code=code, language="python", test_command="yes '\\' | head -50000")
    assert len(json.dumps(v["structuredContent"], separators=(",", ":"), ensure_ascii=False)) <= 10000
    v = v["structuredContent"]
    assert v["truncated"] and v["tests"]["truncated"] and len(v["stdout"]) > 300 and len(v["stderr"]) > 300
    assert v["stdout_bytes"] == 60001 and v["tests"]["stdout_lines"] == 50000


def test_background_input_and_end(server):
    v = server.call("run_command", command="read x; echo got $x; cat; echo end", background=True)["structuredContent"]
    assert v["running"] is True and "exit_code" not in v
    process = v["process"]
    assert server.call("read_output", process=process)["structuredContent"]["running"] is True
    server.call("send_input", process=process, text="hello\n")
    v = server.call("read_output", process=process, offset=0, wait_seconds=50)["structuredContent"]
    assert v["content"].startswith("got hello\n") and v["running"] is True
    server.call("send_input", process=process, text="more\n", end_of_input=True)
    v = server.call("read_output", process=process, wait_seconds=50)["structuredContent"]
    assert v["content"] == "got hello\nmore\nend\n" and v["running"] is False and v["exit_code"] == 0 and v["end"]
    assert server.call("send_input", process=process, text="x")["structuredContent"]["code"] == "STATE"


def test_signals_end_what_runs(server):
    process = server.call("run_command", command="sleep 54321", background=True)["structuredContent"]["process"]
    server.call("send_input", process=process, signal="KILL")
    v = server.call("read_output", process=process, wait_seconds=50)["structuredContent"]
    assert v["running"] is False and v["exit_code"] == 137


def test_long_work_yields_and_goes_on(home, tmp_path):
    registry, config, project = Registry({}), home / "config.toml", tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    config.write_text(f"[languages.absent]\nfile = 'main.no'\ncommand = 'no-such-tool'\n"
                      f"images = ['{registry.name}/absent:1', 'other/absent:']\n"
                      "[languages.letters]\nfile = 'main.txt'\ncommand = 'tr a-z A-Z < $file'\n")
    s = Server([MCP_SERVER, "--yield-after", "3", "--allow-pull", "127.0.0.1:*", "--workspace", str(project), "--allow-folder",
                str(project)], {"BOXLITE_HOME": str(home)})
    try:
        s.initialize()
        config.unlink()
        v = s.call("run_command", command="mkfifo /tmp/go")["structuredContent"]
        s.call("read_output", process=v["process"], wait_seconds=50)  # the environment runs
        v = s.call("run_command", command="echo first; cat /tmp/go; echo second; exit 7")
        assert not v["isError"] and "read_output" in v["structuredContent"]["note"]
        v = v["structuredContent"]
        assert v["running"] is True and v["stdout"] == "first\n"
        s.call("run_command", command="echo -n > /tmp/go")
        v = s.call("read_output", process=v["process"], wait_seconds=50)["structuredContent"]
        assert v["content"] == "first\nsecond\n" and v["exit_code"] == 7
        # Tests of code that goes on come when it has ended.
        v = s.call("execute_code", code="read x < /tmp/go; echo $x > /tmp/said", language="sh",
                   test_command="cat /tmp/said; echo tested")["structuredContent"]
        assert v["running"] is True and "tests" not in v and v["tests_process"] in v["tests_note"]
        tests = v["tests_process"]
        assert s.call("read_output", process=tests)["structuredContent"]["running"] is True
        s.call("run_command", command="echo through > /tmp/go")
        v = s.call("read_output", process=tests, wait_seconds=50)["structuredContent"]
        assert (v["content"], v["exit_code"], v["tests_passed"]) == ("through\ntested\n", 0, True)
        v = s.call("execute_code", code="read x < /tmp/go; exit 4", language="sh", test_command="true")["structuredContent"]
        s.call("run_command", command="echo > /tmp/go")
        v = s.call("read_output", process=v["tests_process"], wait_seconds=50)["structuredContent"]
        assert (v["exit_code"], v["tests_passed"]) == (0, False)
        # The workspace: changed inside, the user's folder only by apply_changes.
        assert s.call("diff_changes")["structuredContent"]["count"] == 0
        v = s.call("run_command", command="pwd; cat a.txt; echo two >> a.txt; echo new > b.txt")["structuredContent"]
        assert v["stdout"] == f"{project}\none\n", v
        v = s.call("diff_changes")["structuredContent"]
        assert [(c["path"], c["kind"]) for c in v["changes"]] == [("a.txt", "modified"), ("b.txt", "added")], v
        assert "+two" in v["diff"] and (project / "a.txt").read_text() == "one\n"
        v = s.call("apply_changes", paths=["b.txt"], dry_run=True)["structuredContent"]
        assert v["count"] == 1 and not (project / "b.txt").exists()
        result = s.call("apply_changes")
        assert not result["isError"] and result["structuredContent"]["status"] == "applied", result
        assert (project / "a.txt").read_text() == "one\ntwo\n" and (project / "b.txt").read_text() == "new\n"
        # Languages of the config file: one that is there, and one whose image cannot be pulled.
        v = s.call("execute_code", code="letters", language="letters")["structuredContent"]
        assert (v["stdout"], v["exit_code"], v["file"]) == ("LETTERS", 0, "main.txt"), v
        result = s.call("execute_code", code="", language="absent")
        v = result["structuredContent"]
        assert result["isError"] and "has no absent (tried: no-such-tool)" in v["error"]
        assert f"{registry.name}/absent:1, other/absent:" in v["hint"]
        assert any("/v2/absent/manifests/1" in path for path in registry.asked)
        names = [e["environment"] for e in s.call("list_environments")["structuredContent"]["environments"]]
        assert names == ["default"]
    finally:
        s.kill()
        registry.close()


def test_idle_environments_are_paused_and_resumed_by_use(home):
    s = Server([MCP_SERVER, "--idle-after", "1"], {"BOXLITE_HOME": str(home)})
    try:
        s.initialize()

        def state():
            return [e["state"] for e in s.call("list_environments")["structuredContent"]["environments"]]

        v = s.call("run_command", command="echo kept > /dev/shm/memory; sleep 3")["structuredContent"]
        assert v["exit_code"] == 0  # it was not paused while a command ran
        wait_until(lambda: state() == ["paused"])
        cost = s.call("list_environments")["structuredContent"]["environments"][0]
        assert 30 < cost["memory_used_mb"] < 2000 and 0 < cost["disk_used_mb"] < 100, cost
        ids = [s.start("tools/call", {"name": "run_command", "arguments": {"command": "cat /dev/shm/memory"}})
               for _ in range(2)]
        for id in ids:
            v = s.wait(id)["result"]["structuredContent"]
            assert v["stdout"] == "kept\n" and "restarted" not in v
        wait_until(lambda: state() == ["paused"])
        pids = [p.pid for p in box_processes(s.process.pid)]
        assert s.call("remove_environment", environment="default")["structuredContent"]["removed"]
        wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))
        s.call("run_command", command="true")
        wait_until(lambda: state() == ["paused"])
        os.kill([p.pid for p in box_processes(s.process.pid) if p.name.startswith("qemu")][0], signal.SIGKILL)
        v = s.call("run_command", command="cat /dev/shm/memory")["structuredContent"]
        assert v["restarted"] is True and v["exit_code"] == 1
    finally:
        s.kill()


def test_progress_is_told_to_those_who_ask(server):
    id = server.start("tools/call", {"name": "run_command", "arguments": {"command": "sleep 2.5"},
                                     "_meta": {"progressToken": "t"}})
    seen = []
    while not seen or "method" in seen[-1]:
        seen.append(server.line())
    assert seen[-1]["id"] == id and len(seen) >= 3
    numbers = [m["params"]["progress"] for m in seen[:-1]]
    assert all(m["params"]["progressToken"] == "t" for m in seen[:-1]) and numbers == sorted(set(numbers))


def test_files_stdin_and_env(server):
    code = "import sys, lib.helper\nprint(lib.helper.twice(sys.stdin.read()))"
    v = server.call("execute_code", code=code, language="python", stdin="a'b\n",
                    files={"lib/helper.py": "def twice(x): return x * 2\n"})["structuredContent"]
    assert v["stdout"] == "a'b\na'b\n\n", v
    v = server.call("run_command", command="echo $A; cat", stdin="in", env={"A": "1 2"})["structuredContent"]
    assert v["stdout"] == "1 2\nin"


def test_fresh_leaves_nothing(server):
    server.call("write_file", path="mark", content="x")
    v = server.call("execute_code", code="test -e mark; echo $?", language="bash", fresh=True)["structuredContent"]
    assert v["stdout"] == "1\n" and v["environment"] != "default"
    names = [e["environment"] for e in server.call("list_environments")["structuredContent"]["environments"]]
    assert "default" in names and v["environment"] not in names


def test_files_come_and_go_exactly(server):
    data = bytes(range(256)) * 40
    v = server.call("write_file", path="dir/all bytes", content=base64.b64encode(data).decode(), encoding="base64")
    assert v["structuredContent"]["bytes"] == len(data)
    v = server.call("read_file", path="/workspace/dir/all bytes", encoding="base64", offset=100, max_bytes=5000)
    v = v["structuredContent"]
    assert base64.b64decode(v["content"]) == data[100:5100] and v["size"] == len(data) and v["next_offset"] == 5100
    server.call("write_file", path="text", content="\u20ac one\n")
    server.call("write_file", path="text", content="two\n", append=True)
    v = server.call("read_file", path="text")["structuredContent"]
    assert v["content"] == "\u20ac one\ntwo\n" and v["end"] is True
    result = server.call("read_file", path="no/such")
    assert result["isError"] and "no such file" in result["structuredContent"]["error"]


def test_exact_bytes_of_a_result(server):
    v = server.call("run_command", command=r"printf 'a\377\000\n'; printf '\376' >&2", encoding="base64")["structuredContent"]
    assert (base64.b64decode(v["stdout"]), base64.b64decode(v["stderr"])) == (b"a\xff\0\n", b"\xfe")
    assert v["encoding"] == "base64" and not v["truncated"] and "not_utf8" not in v
    v = server.call("execute_code", code="import sys; sys.stdout.buffer.write(bytes(range(256)) * 100)", language="python",
                    encoding="base64", test_command=r"printf '\377'")["structuredContent"]
    shown = base64.b64decode(v["stdout"])
    assert v["truncated"] and 1000 < len(shown) < 8000 and (bytes(range(256)) * 100).startswith(shown)
    assert base64.b64decode(v["tests"]["stdout"]) == b"\xff" and v["tests_passed"] is True
    assert server.call("run_command", command="true", encoding="hex")["isError"]


def images(result):
    return [base64.b64decode(item["data"]) for item in result["content"] if item["type"] == "image"]


PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def test_pictures_that_a_program_leaves_come_with_its_result(server):
    server.call("write_file", path="old.png", content=base64.b64encode(PNG).decode(), encoding="base64")
    code = f"open('new.png', 'wb').write({PNG!r}); open('not.png', 'w').write('text'); 'old.png'"
    result = server.call("execute_code", code=code, language="python")
    assert images(result) == [PNG]
    assert result["structuredContent"]["images"] == [
        {"path": "/workspace/new.png", "bytes": len(PNG), "shown": True},
        {"path": "/workspace/not.png", "bytes": 4, "shown": False}]
    result = server.call("run_command", command="cp /workspace/old.png 'a b.png'; cp /workspace/old.png c.png; ls *.png",
                         working_dir="/tmp/pictures")
    assert [i["path"] for i in result["structuredContent"]["images"]] == ["/tmp/pictures/c.png", "/tmp/pictures/a b.png"]
    assert images(result) == [PNG, PNG]
    assert "images" not in server.call("run_command", command="ls /workspace/*.png")["structuredContent"]
    assert server.call("run_command", command="ls -a /tmp | grep boxlite-")["structuredContent"]["stdout"] == ""


# What matplotlib's pyplot does with a backend, and no more (matplotlib 3.6, "writing a backend"): the base image has not the
# real one.
MATPLOTLIB = {
    "matplotlib/__init__.py": "", "matplotlib/backends/__init__.py": "",
    "matplotlib/_pylab_helpers.py": """
class Gcf:
    figs = {}
    get_all_fig_managers = classmethod(lambda cls: list(cls.figs.values()))
    destroy_all = classmethod(lambda cls: cls.figs.clear())
""",
    "matplotlib/backend_bases.py": """
class FigureManagerBase:
    def __init__(self, canvas, num):
        self.canvas, self.num = canvas, num
""",
    "matplotlib/backends/backend_agg.py": """
class FigureCanvasAgg:
    def __init__(self, figure):
        self.figure = figure
""",
    "matplotlib/pyplot.py": f"""
import importlib, os
from matplotlib._pylab_helpers import Gcf
backend = importlib.import_module(os.environ["MPLBACKEND"].removeprefix("module://"))

class Figure:
    def savefig(self, name):
        open(name, "wb").write({PNG!r})

def plot(*args):
    num = len(Gcf.figs) + 1
    Gcf.figs[num] = backend.FigureCanvas.manager_class(backend.FigureCanvas(Figure()), num)

def show(*args, **kwargs):
    backend.show(*args, **kwargs)
""",
}


def test_figures_that_pyplot_shows_come_as_images(server):
    code = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nplt.plot([2])\nplt.show()\nprint('shown')"
    result = server.call("execute_code", code=code, language="python", files=MATPLOTLIB)
    v = result["structuredContent"]
    assert v["stdout"] == "shown\n" and images(result) == [PNG, PNG], v
    assert [i["path"] for i in v["images"]] == ["/workspace/main_figure_1.png", "/workspace/main_figure_2.png"]
    server.call("run_command", command="rm -r matplotlib", working_dir="/workspace")


def test_pictures_come_as_images(server):
    png = b"\x89PNG\r\n\x1a\n" + bytes(100)
    server.call("write_file", path="plot.png", content=base64.b64encode(png).decode(), encoding="base64")
    result = server.call("read_file", path="plot.png")
    image = result["content"][1]
    assert (image["type"], image["mimeType"], base64.b64decode(image["data"])) == ("image", "image/png", png)


def test_remove_environment_ends_what_runs_in_it(server):
    server.call("create_environment", image="boxlite/base:bookworm", name="gone", memory_mb=256)
    id = server.start("tools/call", {"name": "run_command", "arguments": {"command": "sleep 999", "environment": "gone"}})
    wait_until(lambda: any(e["environment"] == "gone" and e["running_commands"] == 1 for e in
                           server.call("list_environments")["structuredContent"]["environments"]))
    assert server.call("remove_environment", environment="gone")["structuredContent"]["removed"] is True
    result = server.wait(id)["result"]
    assert result["isError"] or result["structuredContent"]["exit_code"] != 0
    assert server.call("run_command", command="true", environment="gone")["isError"]


def test_limits_are_named(server):
    v = server.call("run_command", command="sleep 100", timeout_seconds=1)["structuredContent"]
    assert "1 s" in v["note"] and v["timed_out"]
    v = server.call("execute_code", code="x = bytearray(900 << 20)", language="python")["structuredContent"]
    assert v["oom_killed"] and "512 MiB" in v["note"] or "MemoryError" in v["stderr"], v


def test_output_that_is_not_utf8(server):
    code = "import sys; sys.stdout.buffer.write(b'a\\xff\\xfe\\x00b\\xe2\\x82\\xac')"
    v = server.call("execute_code", code=code, language="python")["structuredContent"]
    assert v["stdout"] == "a\ufffd\ufffd\ufffdb\u20ac" and v["stdout_bytes"] == 8 and v["not_utf8"] is True
    v = server.call("read_output", process=v["process"], encoding="base64")["structuredContent"]
    assert base64.b64decode(v["content"]) == b"a\xff\xfe\x00b\xe2\x82\xac"


def sleepers(server, seconds):
    """How many `sleep SECONDS` run in the environment."""
    command = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null | grep -c '^sleep " + str(seconds)
    return int(server.call("run_command", command=command + " $'; true")["structuredContent"]["stdout"])


def test_timeout_kills_the_tree_and_says_so(server):
    v = server.call("run_command", command="(setsid sleep 300 &) ; sleep 300", timeout_seconds=1)["structuredContent"]
    assert v["timed_out"] is True and v["exit_code"] == 124
    assert sleepers(server, 300) == 0


def test_run_command_working_dir_and_no_network(server):
    v = server.call("run_command", command="pwd; cat /proc/net/route | wc -l", working_dir="/tmp/new/dir")
    assert v["structuredContent"]["stdout"] == "/tmp/new/dir\n1\n"


def test_calls_run_at_the_same_time(server):
    slow = server.start("tools/call", {"name": "run_command", "arguments": {"command": "read x < /tmp/fifo_never || "
                                       "mkfifo /tmp/fifo; cat /tmp/fifo"}})
    server.request("ping", timeout=5)
    made = "until [ -p /tmp/fifo ]; do :; done; echo through > /tmp/fifo"
    v = server.call("run_command", command=made, timeout_seconds=60)
    assert v["structuredContent"]["exit_code"] == 0
    assert server.wait(slow)["result"]["structuredContent"]["stdout"] == "through\n"


def test_parallel_code_does_not_share_a_file(server):
    ids = [server.start("tools/call", {"name": "execute_code", "arguments": {"code": f"print({i})", "language": "python"}})
           for i in range(4)]
    assert [server.wait(i)["result"]["structuredContent"]["stdout"] for i in ids] == ["0\n", "1\n", "2\n", "3\n"]


def test_cancellation_kills_the_work_and_sends_nothing(server):
    id = server.start("tools/call", {"name": "run_command", "arguments": {"command": "touch /tmp/begun; sleep 12345"}})
    server.call("run_command", command="until [ -e /tmp/begun ]; do :; done", timeout_seconds=60)
    server.send({"method": "notifications/cancelled", "params": {"requestId": id, "reason": "test"}})
    wait_until(lambda: sleepers(server, 12345) == 0)
    server.request("ping")
    assert id not in server.answers


def test_create_environment_and_use_it(server):
    v = server.call("create_environment", image="boxlite/base:bookworm", name="second", memory_mb=256,
                    env={"COLOUR": "blue"})["structuredContent"]
    assert v["environment"] == "second"
    v = server.call("run_command", command="echo $COLOUR; test -e /workspace/main.py; echo $?", environment="second")
    assert v["structuredContent"]["stdout"] == "blue\n1\n"
    again = server.call("create_environment", image="boxlite/base:bookworm", name="second")
    assert again["isError"] and again["structuredContent"]["code"] == "EXISTS"


def test_a_killed_engine_is_said_and_the_next_call_works(home):
    s = Server([MCP_SERVER], {"BOXLITE_HOME": str(home)})
    try:
        s.initialize()
        s.call("run_command", command="echo lost > /tmp/file")
        id = s.start("tools/call", {"name": "run_command", "arguments": {"command": "touch /tmp/up; exec sleep 1000"}})
        # Killed before its command has begun, the box would be started again for it and nothing said.
        s.call("run_command", command="until [ -e /tmp/up ]; do sleep 0.05; done")
        engine = wait_until(lambda: [p for p in box_processes(s.process.pid) if p.name.startswith("qemu")])[0]
        os.kill(engine.pid, signal.SIGKILL)
        result = s.wait(id)["result"]
        text = str(result["structuredContent"])
        assert result["isError"] or "ended" in result["content"][0]["text"], text
        v = s.call("run_command", command="cat /tmp/file")["structuredContent"]
        assert v["restarted"] is True and v["exit_code"] == 1
    finally:
        s.kill()


@pytest.mark.parametrize("how", ["eof", "term", "kill"])
def test_nothing_is_left_however_it_ends(home, how):
    s = Server([MCP_SERVER], {"BOXLITE_HOME": str(home)})
    s.initialize()
    s.call("run_command", command="true")
    s.start("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1000"}})
    pids = [p.pid for p in box_processes(s.process.pid)]
    assert len(pids) >= 2
    if how == "eof":
        s.close()
    else:
        s.process.send_signal(signal.SIGTERM if how == "term" else signal.SIGKILL)
        s.process.wait(timeout=10)
    wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))


def test_unknown_image_is_a_clear_error(server):
    result = server.call("create_environment", image="no/such:image")
    assert "--allow-pull none" in result["structuredContent"]["hint"]
    assert result["isError"] and result["structuredContent"]["code"] == "NOT_FOUND"
    assert "no/such:image" in result["structuredContent"]["error"] and result["structuredContent"]["hint"]
