# SPDX-License-Identifier: Apache-2.0
"""boxlite setup: kernel and images for a new home, from files and from a package archive that is played."""
import os
import tarfile

from conftest import ARTIFACTS, need_artifacts

APT = """#!/bin/sh
# Plays apt: {story}
case "$0 $*" in
*apt-cache*linux-image-cloud-*) {cloud} ;;
*apt-cache*linux-image-virtual) {virtual} ;;
*apt-get*download*) for name; do :; done; [ -e "{debs}/$name.deb" ] || exit 1; cp "{debs}/$name.deb" "./${{name}}_1_amd64.deb" ;;
esac
"""


def play(tmp_path, story, cloud=":", virtual=":"):
    """A folder for PATH whose apt says so."""
    tools, debs = tmp_path / "tools", tmp_path / "debs"
    for folder in (tools, debs):
        folder.mkdir(exist_ok=True)
    for name in ("apt-get", "apt-cache"):
        (tools / name).write_text(APT.format(story=story, cloud=cloud, virtual=virtual, debs=debs))
        (tools / name).chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}"}, debs


def test_a_debian_kernel_is_fetched_once(cli, tmp_path):
    need_artifacts()
    env, debs = play(tmp_path, "Debian", cloud="echo ' Depends: linux-image-6.1.0-9-cloud-amd64'")
    os.symlink(ARTIFACTS / "kernel.deb", debs / "linux-image-6.1.0-9-cloud-amd64.deb")
    assert cli.ok("setup", env=env) == "kernel default\n"
    assert cli.ok("setup", env=env) == ""
    assert cli.ok("kernel", "ls", "-q").split() == ["default"]


def test_what_cannot_be_fetched_says_what_to_do(cli, tmp_path):
    env, _debs = play(tmp_path, "an empty archive")
    done = cli.run("setup", env=env)
    assert done.returncode == 125 and "apt knows neither" in done.stderr and "boxlite setup --kernel" in done.stderr
    env, _debs = play(tmp_path, "no network", cloud="echo ' Depends: linux-image-6.1.0-9-cloud-amd64'")
    assert "cannot download" in cli.run("setup", env=env).stderr
    assert not [name for name in os.listdir("/tmp") if name.startswith("boxlite-setup.")]


def test_ubuntu_packs_modules_apart(cli, tmp_path):
    """What is unpacked is handed to the importer: that it is no kernel is for the importer to say."""
    import subprocess
    env, debs = play(tmp_path, "Ubuntu", virtual="echo ' Depends: linux-image-6.8.0-1-generic'")
    for name, path in (("linux-image-6.8.0-1-generic", "boot/vmlinuz-6.8.0-1-generic"),
                       ("linux-modules-6.8.0-1-generic", "lib/modules/6.8.0-1-generic/modules.dep")):
        top = tmp_path / name
        (top / path).parent.mkdir(parents=True)
        (top / path).write_text("no kernel")
        (top / "DEBIAN").mkdir()
        (top / "DEBIAN" / "control").write_text(
            f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@b>\nDescription: x\n")
        subprocess.run(["dpkg-deb", "-b", top, debs / f"{name}.deb"], check=True, stdout=subprocess.DEVNULL)
    done = cli.run("setup", env=env)
    assert done.returncode == 125 and "vmlinuz" in done.stderr, done.stderr


def test_files_are_taken_instead(cli, tmp_path):
    need_artifacts()
    image = tmp_path / "image.tar"
    with tarfile.open(tmp_path / "root.tar", "w") as root:
        root.addfile(tarfile.TarInfo("file"))
    cli.ok("image", "import", tmp_path / "root.tar", "set/up:1")
    cli.ok("image", "save", "-o", image, "set/up:1")
    cli.ok("image", "rm", "set/up:1")
    out = cli.ok("setup", "--kernel", ARTIFACTS / "kernel.deb", str(image))
    assert out.startswith("kernel default\nimage sha256:")
    assert cli.ok("setup", "set/up:1") == ""  # it is there: no registry is asked
    assert "without a kernel" in cli.fails("setup", "--modules", tmp_path)
