# SPDX-License-Identifier: Apache-2.0
"""What a box with a network reaches, with real packets: the host, here a network namespace of the test's own, and another
machine, a second one, joined by a cable. Nothing leaves the two."""
import os
import shutil
import subprocess

import pytest

from conftest import IMAGE, Cli, wait_until

pytestmark = pytest.mark.vm

HOST, OTHER, LATER = "198.51.100.1", "198.51.100.2", "203.0.113.7"
PORT = 8080

SERVER = f"""
import socket, sys
s = socket.create_server(("0.0.0.0", {PORT}))
print("listening", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(sys.argv[1].encode())
    c.close()
"""

CLIENT = f"""
import socket, sys
for host in sys.argv[1:]:
    try:
        with socket.create_connection((host, {PORT}), 3) as s:
            print(host, s.recv(100).decode())
    except OSError as e:
        print(host, "refused")
"""


class Namespace:
    """A network namespace, held by a process in it."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo there; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self.servers = []
        if self.holder.stdout.readline() != b"there\n":
            self.close()
            pytest.skip("no rights to make a network namespace")
        self.prefix = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--"]

    def ip(self, *args):
        subprocess.run([*self.prefix, "ip", *args], check=True)

    def serve(self, answer):
        server = subprocess.Popen([*self.prefix, "/usr/bin/python3", "-c", SERVER, answer], stdout=subprocess.PIPE)
        self.servers.append(server)
        assert server.stdout.readline() == b"listening\n"

    def close(self):
        for p in [*self.servers, self.holder]:
            p.kill()
            p.wait()
            p.stdout.close()
        self.holder.stdin.close()


@pytest.fixture
def networks():
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip", "passt"))):
        pytest.skip("needs root, unshare, nsenter, ip and passt")
    made = []
    try:
        host, other = made = [Namespace(), Namespace()]
        subprocess.run([*host.prefix, "ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable0", "netns",
                        str(other.holder.pid)], check=True)
        for ns, address in (host, HOST), (other, OTHER):
            ns.ip("addr", "add", address + "/24", "dev", "cable0")
            ns.ip("link", "set", "cable0", "up")
            ns.ip("link", "set", "lo", "up")
        host.ip("route", "add", "default", "via", OTHER)
        other.ip("addr", "add", LATER + "/32", "dev", "lo")
        host.serve("the host's secret")
        other.serve("hello")
        yield host, other
    finally:
        for ns in made:
            ns.close()


def test_a_box_reaches_the_world_and_not_its_host(home, networks):
    host, _ = networks
    cli = Cli(home, prefix=host.prefix)
    name = f"net-{host.holder.pid}"
    cli.ok("run", "-d", "--idle", "--network", "user", "--name", name, IMAGE)
    try:
        def ask(*hosts):
            return cli.ok("exec", name, "python3", "-c", CLIENT, *hosts).splitlines()

        # the world is there, so that the refusals mean something
        assert ask(OTHER, LATER) == [f"{OTHER} hello", f"{LATER} hello"]
        assert ask(HOST, "10.0.2.2", "169.254.169.254") == [
            f"{HOST} refused", "10.0.2.2 refused", "169.254.169.254 refused"]
        # an address that the host gets while the box runs is the host's from then on
        host.ip("addr", "add", LATER + "/32", "dev", "lo")
        wait_until(lambda: ask(LATER) == [f"{LATER} refused"], timeout=60, what="the new address to be refused")
        assert ask(OTHER) == [f"{OTHER} hello"]
        host.ip("addr", "del", LATER + "/32", "dev", "lo")
        wait_until(lambda: ask(LATER) == [f"{LATER} hello"], timeout=60, what="it to be another's again")
    finally:
        cli.ok("rm", "-f", name)
