"""Machines in a box: network namespaces on a switch of their own, which a test parts and joins again.

    with Network("redis", "a", "b") as net:
        Redis(host=net["redis"].address, prefix=net["redis"].prefix)
        Serve(..., prefix=net["a"].prefix)       # in that namespace; its 127.0.0.1 is not ours
        with net.inside("a"):                    # sockets that this thread opens are there, and stay there
            client = Client(port)
        net.part("a", "redis")                   # packets between the two vanish; nobody is told
        net.join()

Nothing of it is seen outside: the switch is in a namespace too. Each is held by a process that the keeper knows;
with the process go namespace and cables. Needs root, as whatever makes network interfaces.
"""

import contextlib
import ctypes
import os
import subprocess

from . import keeper
from .waiting import wait_for

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Host:
    """.address, and .prefix: what stands before the command line of a program that shall run there."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        ours = os.readlink("/proc/self/ns/net")
        self.process = keeper.start(["unshare", "--net", "sleep", "infinity"])
        self.prefix = ["nsenter", f"--net=/proc/{self.process.pid}/ns/net"]
        wait_for(lambda: self._namespace() not in ("", ours), "a network namespace (needs root)")

    def _namespace(self):
        if self.process.poll() is not None:
            raise AssertionError("no network namespaces: the test needs root and a kernel that has them")
        try:
            return os.readlink(f"/proc/{self.process.pid}/ns/net")
        except OSError:
            return ""

    def run(self, *argv, text=None):
        subprocess.run([*self.prefix, *argv], check=True, input=text, text=True, capture_output=True)


class Network:
    def __init__(self, *names):
        self.names = names
        self.hosts = {}

    def __getitem__(self, name):
        return self.hosts[name]

    def __enter__(self):
        try:
            self._switch = Host("switch", "")
            self._switch.run("ip", "link", "add", "switch", "type", "bridge")
            self._switch.run("ip", "link", "set", "switch", "up")
            for number, name in enumerate(self.names, 1):
                self._plug(name, f"10.213.0.{number}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for host in (*self.hosts.values(), *([self._switch] if hasattr(self, "_switch") else [])):
            keeper.stop(host.process)

    def _plug(self, name, address):
        host = self.hosts[name] = Host(name, address)
        far = self._switch.process.pid
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", f"to-{name}", "netns", str(far))
        host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        self._switch.run("ip", "link", "set", f"to-{name}", "master", "switch", "up")
        host.run("nft", "-f", "-", text="table inet weirtest { set away { type ipv4_addr; }\n"
                 "chain in { type filter hook input priority 0; ip saddr @away drop; }\n"
                 "chain out { type filter hook output priority 0; ip daddr @away drop; }\n}\n")

    def part(self, one, other):
        """What either sends to the other vanishes."""
        for here, there in ((one, other), (other, one)):
            self[here].run("nft", "add", "element", "inet", "weirtest", "away", f"{{ {self[there].address} }}")

    def join(self):
        """All hear each other again."""
        for host in self.hosts.values():
            host.run("nft", "flush", "set", "inet", "weirtest", "away")

    @contextlib.contextmanager
    def inside(self, name):
        """This thread, for so long."""
        with open("/proc/thread-self/ns/net", "rb") as home, \
                open(f"/proc/{self[name].process.pid}/ns/net", "rb") as there:
            _setns(there)
            try:
                yield
            finally:
                _setns(home)


def _setns(namespace):
    if _libc.setns(namespace.fileno(), _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
