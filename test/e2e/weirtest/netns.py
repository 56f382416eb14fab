"""Simulated machines: network namespaces on their own switch. A test separates and joins them.

    with Network("redis", "a", "b") as net:
        Redis(host=net["redis"].address, prefix=net["redis"].prefix)
        Serve(..., prefix=net["a"].prefix)       # has its own 127.0.0.1: use Unix sockets
        net.part("a", "redis")                   # packets between the two are dropped silently
        net.join()

The switch is in a namespace too, so nothing is visible outside. A registered process holds each namespace;
the namespace and its links end with the process. Without root rights a user namespace is used.
"""

import os
import subprocess

from . import programs
from .waiting import wait_for


class Host:
    """A simulated machine. .address; .prefix: the words before the command line of a program that runs there. `beside`
    is a host whose user namespace it shares."""

    def __init__(self, name, address, beside=None):
        self.name, self.address = name, address
        ours = os.readlink("/proc/self/ns/net")
        new_user = ["--user", "--map-root-user"] if os.getuid() and not beside else []
        self.process = programs.start([*(beside.enter("user") if beside else []), "unshare", *new_user, "--net",
                                     "sleep", "infinity"])
        wait_for(lambda: self._namespace() not in ("", ours), "a network namespace")
        self.prefix = self.enter("user", "net")

    def enter(self, *which):
        """Returns the nsenter command for these namespaces. The user namespace is only entered without root rights."""
        paths = [f"--{kind}=/proc/{self.process.pid}/ns/{kind}" for kind in which if kind != "user" or os.getuid()]
        return ["nsenter", "--preserve-credentials", *paths] if paths else []

    def _namespace(self):
        if self.process.poll() is not None:
            raise AssertionError("no namespaces of network and users here: the kernel has them switched off")
        try:
            return os.readlink(f"/proc/{self.process.pid}/ns/net")
        except OSError:
            return ""

    def run(self, *argv, text=None):
        done = subprocess.run([*self.prefix, *argv], check=False, input=text, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert done.returncode == 0, (argv, done.stdout)
        return done.stdout


class Network:
    def __init__(self, *names):
        self.names = names
        self.hosts = {}
        self._switch = None

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
        for host in (*self.hosts.values(), self._switch):
            if host:
                programs.stop(host.process)

    def _plug(self, name, address):
        """Creates a machine and connects it to the switch."""
        host = self.hosts[name] = Host(name, address, self._switch)
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", f"to-{name}", "netns",
                 str(self._switch.process.pid))
        host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        self._switch.run("ip", "link", "set", f"to-{name}", "master", "switch", "up")
        host.run("nft", "-f", "-", text="table inet weirtest { set away { type ipv4_addr; }\n"
                 "chain in { type filter hook input priority 0; ip saddr @away drop; }\n"
                 "chain out { type filter hook output priority 0; ip daddr @away drop; }\n}\n")

    def part(self, one, other):
        """Drops all packets between the two machines."""
        for here, there in ((one, other), (other, one)):
            self[here].run("nft", "add", "element", "inet", "weirtest", "away", f"{{ {self[there].address} }}")

    def join(self):
        """Ends all separations."""
        for host in self.hosts.values():
            host.run("nft", "flush", "set", "inet", "weirtest", "away")
