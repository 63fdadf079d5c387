# SPDX-License-Identifier: Apache-2.0
"""CodeBox: programs in languages; and images."""
import asyncio
import pickle
import re

import pytest

from conftest import ROOT, need_artifacts
from sdkhome import FAKE_IMAGE, fake_home, run, sdk  # noqa: F401 (fixtures)


def with_box(sdk, work, **options):
    async def main():
        async with sdk.CodeBox(image=FAKE_IMAGE, **options) as box:
            await work(box)
    run(main())


def test_the_result_is_a_text_that_knows_more(sdk, tmp_path):
    async def work(box):
        r = await box.run("import sys\nprint(6*7)\nprint('e', file=sys.stderr)\nsys.exit(3)", cwd=str(tmp_path))
        assert isinstance(r, str) and r == "42\n" == r.stdout and r.stderr == "e\n" and r.exit_code == 3
        assert not r.timed_out and not r.ok and r.duration >= 0 and r.stdout_bytes == b"42\n"
        assert pickle.loads(pickle.dumps(r)).exit_code == 3
        with pytest.raises(sdk.ExecError) as caught:
            await box.run("1/0", cwd=str(tmp_path), check=True)
        assert "ZeroDivisionError" in caught.value.stderr
        assert (tmp_path / "main.py").read_text() == "1/0"
    with_box(sdk, work)


def test_code_of_any_size_and_with_any_bytes(sdk, tmp_path):
    async def work(box):
        r = await box.run("x = '''" + "y" * 3_000_000 + "'''\nprint(len(x))", cwd=str(tmp_path))
        assert r == "3000000\n"
        assert await box.run("print('é\\n' 'a' \"b\")  # $HOME `x` \\", cwd=str(tmp_path)) == "é\nab\n"
    with_box(sdk, work)


def test_input_and_environment(sdk, tmp_path):
    async def work(box):
        r = await box.run("import os; print(input() + os.environ['A'])", stdin="x\n", env={"A": "y"}, cwd=str(tmp_path))
        assert r == "xy\n"
        assert (await box.run("import sys; print(repr(sys.stdin.read()))", cwd=str(tmp_path))) == "''\n"
    with_box(sdk, work)


def test_runs_side_by_side_do_not_share_a_file(sdk, tmp_path):
    async def work(box):
        results = await asyncio.gather(*(box.run(f"import time; time.sleep(0.05); print({i})", cwd=str(tmp_path))
                                         for i in range(8)))
        assert list(results) == [f"{i}\n" for i in range(8)]
    with_box(sdk, work)


def test_languages(sdk, tmp_path):
    async def work(box):
        assert await box.run("echo ${0##*/}", cwd=str(tmp_path)) == "main.sh\n"
        assert await box.run("print(1)", language="PY", cwd=str(tmp_path)) == "1\n"
        with pytest.raises(sdk.InvalidArgumentError) as caught:
            await box.run("x", language="cobol")
        assert "python" in caught.value.hint
        script = tmp_path / "script.py"
        script.write_text("import os; print(os.path.basename(__file__))")
        assert await box.run_script(script, cwd=str(tmp_path)) == "main.py\n"
    with_box(sdk, work, language="sh")


def test_the_languages_are_the_mcp_servers(sdk):
    table = (ROOT / "src/mcp/languages.def").read_text()
    assert sdk.languages() == re.findall(r'^LANGUAGE\(LIST\("([^"]+)"', table, re.M)


def test_packages_are_names_not_options(sdk):
    async def work(box):
        with pytest.raises(sdk.InvalidArgumentError):
            await box.install_packages("--index-url=http://evil")
    with_box(sdk, work)


def test_images(sdk, tmp_path):
    async def main():
        runtime = sdk.Boxlite.default()
        images = await runtime.images.list()
        assert FAKE_IMAGE in images[0].names[0]
        found = await runtime.images.get(FAKE_IMAGE)
        assert found == images[0] and found.size_bytes > 0 and found.id in found.digest
        assert await runtime.images.get("none:x") is None
        archive = tmp_path / "root.tar"
        import tarfile
        with tarfile.open(archive, "w") as tar:
            tar.addfile(tarfile.TarInfo("file"))
        steps = []
        made = await runtime.images.import_rootfs(archive, "made:1", cmd=["/bin/x"], env={"A": "b"},
                                                  progress=lambda what, done, total: steps.append(what))
        assert made.raw["config"]["config"]["Cmd"] == ["/bin/x"] and "A=b" in made.raw["config"]["config"]["Env"]
        with pytest.raises(sdk.BoxliteError):
            await runtime.images.load(tmp_path / "none")
        await runtime.images.remove("made:1")
        assert await runtime.images.get("made:1") is None
        with pytest.raises(sdk.NotFoundError):
            await runtime.images.remove("made:1")
    run(main())
