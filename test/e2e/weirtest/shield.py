"""A real `weir shield` in a simulated machine, and packets that it drops or passes.

    with Machines() as machines, Shield(machines.server) as shield:
        shield.add(machines.client.address, "1h")
        machines.wait_dropped(shield)
        shield.release(machines.client.address)
        machines.wait_open()

`Machines` are a client and a server on one switch, and a router to a server behind it.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

from . import clock, env, programs
from .netns import Network
from .waiting import wait_for

PORT = 8080
FILL = env.BUILD / "test/shield_fill_bans"

# Accepts connections over IPv4 and IPv6, and writes a byte to each.
LISTEN = f"""
import socket, sys
s = socket.create_server(("::", {PORT}), family=socket.AF_INET6, dualstack_ipv6=True, backlog=256)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"x")
    c.close()
"""

# Tries one connection and prints what became of it.
CONNECT = f"""
import socket, sys
host, source = sys.argv[1], sys.argv[2]
try:
    s = socket.create_connection((host, {PORT}), float(sys.argv[3]), source_address=(source, 0) if source else None)
    print("open" if s.recv(1) == b"x" else "closed")
except TimeoutError:
    print("timeout")
except ConnectionRefusedError:
    print("refused")
except OSError as e:
    print("error", e)
"""


class Machines:
    """client and server have 10.213.0.x and 2001:db8:1::x; `behind` is a server that only the router reaches.

    connect(target, source)  one connection from the client: "open", "timeout" or "refused"
    """

    def __init__(self, router=False):
        self.net = Network(*(["client", "server", "router", "behind"] if router else ["client", "server"]))
        self.has_router = router

    def __enter__(self):
        self.net.__enter__()
        try:
            self.client, self.server = self.net["client"], self.net["server"]
            for number, host in enumerate(self.net.hosts.values(), 1):
                host.v6 = f"2001:db8:1::{number}"
                host.run("ip", "-6", "address", "add", f"{host.v6}/64", "dev", "eth0", "nodad")
                host.run("nft", "delete", "table", "inet", "weirtest")
            if self.has_router:
                self._route()
            for host in [self.server, *([self.behind] if self.has_router else [])]:
                self.listen(host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in getattr(self, "servers", []):
            programs.stop(process)
        self.net.__exit__()

    def _route(self):
        self.router, self.behind = self.net["router"], self.net["behind"]
        self.behind.run("ip", "address", "flush", "dev", "eth0", "scope", "global")
        self.behind.run("ip", "address", "add", "10.214.0.4/24", "dev", "eth0")
        self.behind.address = "10.214.0.4"
        self.router.run("ip", "address", "add", "10.214.0.3/24", "dev", "eth0")
        self.router.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward; "
                        "echo 0 >/proc/sys/net/ipv4/conf/all/send_redirects; "
                        "echo 0 >/proc/sys/net/ipv4/conf/eth0/send_redirects")
        self.behind.run("ip", "route", "add", "10.213.0.0/24", "via", "10.214.0.3")
        self.client.run("ip", "route", "add", "10.214.0.0/24", "via", self.router.address)

    def listen(self, host, code=LISTEN, *arguments):
        """Runs a Python program on the machine until the end, and waits until it is ready."""
        self.servers = [*getattr(self, "servers", []), programs.start(
            [*host.prefix, "/usr/bin/python3", "-c", code, *arguments], stdout=subprocess.PIPE, text=True)]
        assert self.servers[-1].stdout.readline() == "ready\n"
        return self.servers[-1]

    def connect(self, target=None, source="", seconds=0.3):
        done = self.client.run("/usr/bin/python3", "-c", CONNECT, target or self.server.address, source, str(seconds))
        return done.strip()

    def wait_open(self, *arguments):
        wait_for(lambda: self.connect(*arguments, seconds=2) == "open", f"a connection to {arguments or 'the server'}")

    def wait_dropped(self, shield, *arguments):
        """Waits until a connection fails and the kernel has counted its packets."""
        def dropped():
            before = shield.state()["packets"]
            return self.connect(*arguments) == "timeout" and \
                wait_for(lambda: shield.state()["packets"] > before, "the counter of dropped packets")

        wait_for(dropped, f"dropped packets to {arguments or 'the server'}")


def without_leak_check(variables):
    """The leak check of asan needs ptrace, which a running shield forbids itself."""
    return {**variables, "ASAN_OPTIONS": f"{variables.get('ASAN_OPTIONS', '')}:detect_leaks=0"}


class Shield:
    """`with Shield(host, "--reject") as shield:` runs it on this machine until the end. With start=False only the table
    exists. `table` and `name` are folder and name of an existing table; without them a table is made in a folder of its
    own."""

    def __init__(self, host, *options, table=None, name="default", start=True):
        self.folder = Path(programs.temp_folder("shield"))
        self.folder.chmod(0o755)
        self.table = Path(table) if table else self.folder / "table"
        self.host, self.options, self.wants_start = host, options, start
        self.name = name
        self.output = self.folder / "output"
        self.process = None

    def __enter__(self):
        try:
            if not self.table.exists():
                self.table.mkdir()
                self.fill(0)
            if self.wants_start:
                self.start()
        except BaseException:
            self.__exit__(None)
            raise
        return self

    def __exit__(self, kind, *_):
        code = self.stop() if self.process and self.process.poll() is None else 0
        log = self.log()
        if self.process:
            programs.stop(self.process)
        programs.remove_folder(str(self.folder))
        assert kind is not None or code == 0, f"weir shield ended with {code}:\n{log}"

    # ---- the process ----

    def command(self, *options):
        return [*self.host.prefix, str(env.WEIR), "shield", "--dir", str(self.table), "--table", self.name,
                *map(str, options)]

    def launch(self):
        with open(self.output, "ab") as out:
            self.process = programs.start(self.command(*self.options), stdout=out, stderr=out,
                                          env=without_leak_check(os.environ))
        return self.process

    def start(self):
        ready = self.log().count("weir shield: ready")
        self.launch()

        def is_ready():
            assert self.process.poll() is None, f"weir shield ended with {self.process.returncode}:\n{self.log()}"
            return self.log().count("weir shield: ready") > ready

        wait_for(is_ready, "weir shield to be ready", 30)

    def stop(self):
        """Sends SIGTERM and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=env.patience(20))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self):
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    # ---- commands ----

    def run(self, *options):
        """Runs a command of weir shield. Returns (exit code, output)."""
        variables = clock.for_weir()
        if not options or str(options[0]).startswith("-"):
            variables = without_leak_check(variables)
        done = subprocess.run(self.command(*options), env=variables, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=env.patience(30), check=False)
        return done.returncode, done.stdout

    def do(self, *options):
        code, output = self.run(*options)
        assert code == 0, output
        return output

    def add(self, address, span):
        self.do("add", address, "--for", span)

    def release(self, address):
        self.do("release", address)

    def fill(self, count, seconds=3600):
        """Writes bans of `count` addresses from 11.0.0.0 on."""
        done = subprocess.run([FILL, self.table, str(count), str(seconds)], env=clock.for_weir(), check=True,
                              capture_output=True, text=True)
        assert int(done.stdout) == count, f"the table has room for {done.stdout} bans only"

    def list(self):
        return json.loads(self.do("list", "--json"))

    def state(self):
        return self.list()["shield"]

    def wait_state(self, **fields):
        """Waits until the state has these values."""
        wait_for(lambda: all(self.state()[k] == v for k, v in fields.items()), f"{fields}; there is {self.state()}")

    def nft(self, *words):
        return self.host.run("nft", *words)

    def elements(self, name):
        """Returns {address: timeout in seconds} of a set in the kernel."""
        listed = json.loads(self.nft("--json", "list", "set", "inet", "weir", name))
        found = {}
        for each in [part["set"] for part in listed["nftables"] if "set" in part][0].get("elem", []):
            elem = each["elem"] if "elem" in each else {"val": each}
            val = elem["val"]
            text = f"{val['prefix']['addr']}/{val['prefix']['len']}" if isinstance(val, dict) and "prefix" in val else val
            found[text if isinstance(text, str) else json.dumps(text)] = elem.get("timeout", 0)
        return found

    def wait_elements(self, name, *addresses):
        wait_for(lambda: set(self.elements(name)) == set(addresses), f"{addresses} in {name}: {self.elements(name)}")

    def has_table(self):
        return "table inet weir\n" in self.nft("list", "tables")
