# SPDX-License-Identifier: Apache-2.0
"""Workspaces in whole machines: a git repository that a box edits, and how that comes back."""
import os
import shutil
import subprocess

import pytest

from conftest import IMAGE, Cli

pytestmark = pytest.mark.vm


def git(repo, *args):
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(repo.parent), "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t",
           "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}
    return subprocess.run(["git", "-C", str(repo), *args], check=True, capture_output=True, text=True, env=env,
                          errors="surrogateescape").stdout


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    if not shutil.which("git"):
        pytest.skip("git is missing")
    top = tmp_path_factory.mktemp("ws") / "project"
    (top / "src").mkdir(parents=True)
    (top / "src" / "main.py").write_text("print('one')\n")
    (top / "src" / "tool").write_text("#!/bin/sh\necho tool\n")
    (top / "src" / "tool").chmod(0o755)
    (top / "old").write_text("old\n")
    (top / "moved").write_text("the same content before and after\n")
    (top / ".gitignore").write_text("*.tmp\n")
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    return top


@pytest.fixture(scope="module")
def work(home, repo):
    """A running box that has edited the repository."""
    cli = Cli(home)
    cli.ok("run", "-d", "--idle", "--name", "ws", "--workspace", repo, IMAGE)
    edit = ("set -e; cd \"$1\"; echo \"print('two')\" > src/main.py; rm old; mv moved src/moved; echo new > src/new; echo x > a.tmp; "
            "ln -s /etc/passwd out; printf '#!/bin/sh\\n' > run.sh; chmod 755 run.sh; mkdir -p .git/hooks; echo evil > .git/hooks/post-merge; "
            "printf 'odd' > \"$(printf 'new\\nline\\377')\"; truncate -s 20M src/hole; mkdir deep; mv src/tool deep/tool")
    cli.ok("exec", "ws", "sh", "-c", edit, "sh", repo)
    yield cli
    cli.ok("rm", "-f", "ws")


def changes(cli, *args):
    done = cli.run("diff", "--json", *args)
    assert done.returncode == 0, done.stderr
    import json
    return {c.get("path_hex", c["path"]): c for c in json.loads(done.stdout)["changes"]}


def test_the_host_is_untouched_and_the_diff_is_right(work, repo):
    assert git(repo, "status", "--porcelain") == ""
    found = changes(work, "ws")
    assert found["src/main.py"]["change"] == "modified" and found["src/main.py"]["size"] == 13
    assert found["old"]["change"] == "deleted"
    assert found["src/moved"]["change"] == "renamed" and found["src/moved"]["from"] == "moved"
    assert found["deep/tool"]["from"] == "src/tool" and found["deep/tool"]["mode"] == "0755"
    assert found["src/hole"]["size"] == 20 << 20 and found["src/hole"]["binary"]
    assert found["out"]["held_back_by"].startswith("link-out") and found["run.sh"]["allow"] == "new-exec"
    assert found[".git/hooks/post-merge"]["held_back_by"].startswith("git-hooks")
    assert b"new\nline\xff".hex() in found
    assert "src/tool" not in found and "moved" not in found  # in their renames
    assert "a.tmp" in found
    hidden = work.run("diff", "--git-ignored", "hide", "--name-only", "ws")
    assert "a.tmp" not in hidden.stdout and "1 change left out: because git ignores them" in hidden.stderr
    patch = work.ok("diff", "-p", "ws", "src/main.py")
    assert "-print('one')\n+print('two')\n" in patch
    assert work.ok("diff", "--stat", "ws", "src/main.py").startswith("      1       1  src/main.py")


def test_apply_and_undo(work, repo):
    done = work.run("apply", "-n", "ws")
    assert done.returncode == 122 and git(repo, "status", "--porcelain") == ""
    (repo / "old").write_text("changed here\n")
    done = work.run("apply", "ws")
    assert done.returncode == 123 and "conflict: old: it was changed here meanwhile" in done.stderr
    assert (repo / "src" / "main.py").read_text() == "print('one')\n"
    git(repo, "checkout", "-q", "old")  # the same content, another file: still not what the box saw
    assert work.run("apply", "ws").returncode == 123
    done = work.run("apply", "ws", "src", "deep", "moved", "a.tmp", "new\nline\udcff")
    assert done.returncode == 0, done.stderr
    status = set(git(repo, "status", "--porcelain", "-uall", "-z").split("\0")) - {""}
    assert {" M src/main.py", " D moved", "?? src/moved", "?? src/new", "?? deep/tool", " D src/tool"} <= status
    assert not any("run.sh" in s or "out" in s for s in status)
    st = (repo / "src" / "new").stat()
    assert (st.st_uid, st.st_gid) == (os.geteuid(), os.getegid()) and os.access(repo / "deep" / "tool", os.X_OK)
    assert (repo / "src" / "hole").stat().st_blocks * 512 < 1 << 20
    assert not (repo / ".git" / "hooks" / "post-merge").exists()
    assert set(changes(work, "ws")) == {"old", "out", "run.sh", ".git/hooks/post-merge"}
    work.ok("undo", repo)
    assert git(repo, "status", "--porcelain") == ""
    assert "src/main.py" in changes(work, "ws")
    assert "no apply" in work.fails("undo", repo)


def test_a_stopped_box_and_discard(work, repo):
    work.ok("stop", "-t", "1", "ws")
    assert "src/main.py" in changes(work, "ws") and work.state("ws") == "stopped"
    work.ok("discard", "ws", "src")
    left = changes(work, "ws")
    assert "src/main.py" not in left and "run.sh" in left
    work.ok("discard", "ws")
    assert changes(work, "ws") == {}
    work.ok("start", "ws")
    assert work.ok("exec", "ws", "cat", repo / "src" / "main.py") == "print('one')\n"


def test_apply_if(vm, repo):
    run = ["run", "--rm", "--workspace", repo]
    done = vm.run(*run, "--apply-if", "grep -q three src/main.py", IMAGE, "sh", "-c", "echo \"print('three')\" > src/main.py")
    assert done.returncode == 0, done.stderr
    assert (repo / "src" / "main.py").read_text() == "print('three')\n" and "1 change applied" in done.stderr
    vm.ok("undo", repo)  # the box is gone
    done = vm.run(*run, "--apply-if", "false", IMAGE, "sh", "-c", "echo bad > src/main.py")
    assert done.returncode == 121 and "the check ended with 1" in done.stderr
    assert git(repo, "status", "--porcelain") == ""
    assert vm.run(*run, "--apply-if", "true", IMAGE, "sh", "-c", "echo bad > src/main.py; exit 7").returncode == 7
    assert git(repo, "status", "--porcelain") == ""
    assert "--workspace" in vm.fails("run", "--apply-if", "true", IMAGE, "true")
