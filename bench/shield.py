#!/usr/bin/python3
"""make bench-shield: refusing a banned client in the kernel, compared with refusing it in nginx.

The client and the server are two network namespaces with a link between them (veth). Sending runs on core 0. Receiving
runs on core 1: RPS of the link moves the packets of the server there, nginx's worker is pinned there.

CPU time. The kernel does most of this work in interrupts, which it charges to whatever process runs at the moment, so
the times of processes do not show it. The benchmark runs a counting loop on core 1. The loop has a real-time priority
below that of nginx, so it gets the time that interrupts and nginx leave, and other processes do not disturb it. If the
loop counts A in a second without load and B with load, then the load used (A - B) / A of a second. Rounds with and
without load alternate.

A refused request is one attempt of a client to send a request.
 - nginx: a TCP connection, the request, the response 429, and the end of the connection. A second figure is for a
   client that keeps its connection and sends requests on it.
 - kernel: the client sends SYN and gets no answer. It repeats SYN after 1, 3, 7 … seconds. A client that waits for 10
   seconds sends 4 packets, and has made one attempt. `kernel_attempt_us` counts 4 packets. `kernel_packet_us` is one
   packet, as a flood sends them; for the flood each packet is an attempt. `kernel_reject_us` is one packet to a shield
   with --reject: the kernel answers with RST, so that the client does not repeat its SYN.
The set in the kernel has 100,000 other addresses.
"""

import contextlib
import mmap
import os
import re
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import frame
from frame import BUILD, LOAD_CORE, MEMORY, MODULE, SERVER_CORE, folder, pinned

WEIR, FILL, FLOOD = BUILD / "weir", BUILD / "fill-bans", BUILD / "syn-flood"
ELEMENTS = 100000
SECONDS = 1.0  # of a measured phase
FIRST = ["chrt", "--fifo", "20"]  # before the command of nginx, and of programs that send
SYN_REPEATS = 4  # packets of a client that waits for 10 seconds
CLIENT, SERVER = "10.211.0.1", "10.211.0.2"

RULES = """
domain: api
requests:
  - descriptor: [{key: ip, from: remote_address}]
descriptors:
  - key: ip
    rate_limit: {unit: day, requests_per_unit: 1}
"""

COUNT = """
import mmap, os, sys
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
shared = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8)
word = memoryview(shared).cast("Q")
while True:
    for _ in range(200): pass
    word[0] += 1
"""

ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 7))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(64)
    s.sendto(data, peer)
"""

# Prints the monotonic time of the last answer before half a second of silence.
ASK = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((sys.argv[1], 7))
s.settimeout(0.5)
print("ready", flush=True)
last = 0
while True:
    s.send(b"x")
    try: s.recv(64)
    except TimeoutError: break
    last = time.monotonic()
    time.sleep(0.001)
print(last)
"""


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10)
        return
    process.kill()
    process.wait()


class Host:
    """A network namespace, which ends with its process."""

    def __init__(self, stack):
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        stack.callback(stop, self.holder)
        ours = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == ours:
            time.sleep(0.01)
        self.prefix = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def run(self, *argv):
        return subprocess.run([*self.prefix, *map(str, argv)], check=True, text=True, stdout=subprocess.PIPE).stdout

    def start(self, stack, *argv, core, **kwargs):
        process = subprocess.Popen([*self.prefix, *map(str, argv)], preexec_fn=pinned(core), text=True,
                                   stdout=subprocess.PIPE, **kwargs)
        stack.callback(stop, process)
        return process

    def python(self, stack, code, *argv, core):
        """Starts a program that prints "ready"."""
        process = self.start(stack, "/usr/bin/python3", "-c", code, *argv, core=core)
        assert process.stdout.readline() == "ready\n"
        return process


def link(stack):
    """Returns the client and the server. Packets are received on the core of their receiver."""
    client, server = Host(stack), Host(stack)
    client.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", server.holder.pid)
    for host, address, core in (client, CLIENT, LOAD_CORE), (server, SERVER, SERVER_CORE):
        host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "link", "set", "eth0", "up")
        # sysfs shows the namespace in which it was mounted
        host.run("unshare", "--mount", "sh", "-c",
                 f"mount -t sysfs none /sys && echo {1 << core:x} >/sys/class/net/eth0/queues/rx-0/rps_cpus")
    return client, server


class Spare:
    """The spare time of the servers' core."""

    def __init__(self, stack):
        self.file = tempfile.NamedTemporaryFile(dir=MEMORY)
        stack.enter_context(self.file)
        self.file.write(bytes(8))
        self.file.flush()
        self.memory = mmap.mmap(self.file.fileno(), 8)
        process = subprocess.Popen(["/usr/bin/python3", "-c", COUNT, self.file.name], preexec_fn=pinned(SERVER_CORE))
        stack.callback(stop, process)
        time.sleep(0.5)

    def idle(self, seconds=SECONDS):
        """Returns counts per second without load."""
        return self.during(lambda: time.sleep(seconds))[1]

    def during(self, work):
        """Returns the result of work(), the counts per second while it runs, and its duration."""
        first, begin = self._count(), time.monotonic()
        result = work()
        duration = time.monotonic() - begin
        return result, (self._count() - first) / duration, duration

    def _count(self):
        return struct.unpack("Q", self.memory[:8])[0]


class Shield:
    def __init__(self, stack, host, table, *options):
        self.table, self.host = table, host
        self.log = tempfile.NamedTemporaryFile(dir=MEMORY)
        stack.enter_context(self.log)
        self.process = subprocess.Popen([*host.prefix, WEIR, "shield", "--dir", table, *options], stdout=self.log,
                                        stderr=self.log, preexec_fn=pinned(LOAD_CORE))
        stack.callback(stop, self.process)

    def state(self):
        text = subprocess.run([WEIR, "shield", "list", "--dir", self.table], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        return int(re.search(r"^carried +(\d+)", text, re.M)[1])

    def wait(self, elements):
        while self.state() != elements:
            if self.process.poll() is not None:
                sys.exit("bench: weir shield ended:\n" + Path(self.log.name).read_text())
            time.sleep(0.05)


def fill(table, count):
    written = int(subprocess.run([FILL, table, str(count), "3600"], check=True, text=True, stdout=subprocess.PIPE).stdout)
    if written != count:
        sys.exit(f"bench: the table has room for {written} bans only")


def nginx(stack, server):
    """Starts nginx with weir in the server's namespace. It refuses all requests of the client but one."""
    at, table = folder(stack, "shield-nginx"), folder(stack, "shield-nginx", MEMORY)
    (at / "rules.yaml").write_text(RULES)
    (at / "nginx.conf").write_text(f"""
load_module {MODULE}; user root;
worker_processes 1; pid {at}/pid; error_log {at}/error.log error; daemon off;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000000;
  weir_rules {at}/rules.yaml; weir_table bench 64m dir={table};
  server {{ listen {SERVER}:80 backlog=4096; location / {{ weir on; empty_gif; }} }}
}}
""")
    process = server.start(stack, *FIRST, "/usr/sbin/nginx", "-c", at / "nginx.conf", "-p", at, "-e", at / "error.log",
                           core=SERVER_CORE)
    for _ in range(500):
        if (at / "pid").exists():
            break
        time.sleep(0.02)
    else:
        sys.exit(f"bench: nginx did not start:\n{(at / 'error.log').read_text()}")
    time.sleep(0.3)
    return process


def send_requests(client, *options):
    """Sends requests for two seconds, and returns their number. All of them are refused, except for the first one."""
    output = subprocess.run([*client.prefix, *FIRST, "wrk", "-t1", "-c16", "-d2s", *options, f"http://{SERVER}/"], text=True,
                            stdout=subprocess.PIPE, preexec_fn=pinned(LOAD_CORE), check=True).stdout
    total = int(re.search(r"(\d+) requests in", output)[1])
    refused = int(re.search(r"Non-2xx or 3xx responses: (\d+)", output)[1])
    if refused < total - 1:
        sys.exit(f"bench: nginx refused only {refused} of {total} requests")
    return total


def flood(client):
    """Sends SYN packets for two seconds, and returns their number."""
    return int(subprocess.run([*client.prefix, *FIRST, FLOOD, SERVER, "2"], text=True, stdout=subprocess.PIPE,
                              preexec_fn=pinned(LOAD_CORE), check=True).stdout)


def cost_us(spare, work):
    """CPU time of core 1 for each of the requests or packets whose number work() returns."""
    before = spare.idle()
    count, busy, duration = spare.during(work)
    idle = (before + spare.idle()) / 2
    return (1 - busy / idle) * duration / count * 1e6


def drops(spare, table, client, server, rounds, *options):
    """CPU times of a banned packet, with a shield that ends before the function returns."""
    with contextlib.ExitStack() as inner:
        Shield(inner, server, table, *options).wait(ELEMENTS + 1)
        return [cost_us(spare, lambda: flood(client)) for _ in range(rounds)]


def cost(figures, stack, rounds):
    client, server = link(stack)
    spare = Spare(stack)
    nginx(stack, server)
    closing, keeping = [], []
    for _ in range(rounds):
        closing.append(cost_us(spare, lambda: send_requests(client, "-H", "Connection: close")))
        keeping.append(cost_us(spare, lambda: send_requests(client)))
    table = folder(stack, "shield", MEMORY)
    fill(table, ELEMENTS)
    subprocess.run([WEIR, "shield", "add", CLIENT, "--for", "1h", "--dir", table], check=True, stdout=subprocess.DEVNULL)
    packets = drops(spare, table, client, server, rounds)
    rejects = statistics.median(drops(spare, table, client, server, rounds, "--reject"))
    one, attempt = statistics.median(packets), statistics.median(packets) * SYN_REPEATS
    figures.add("nginx_refusal_us", statistics.median(closing), "CPU time of a refusal in nginx, new connection")
    figures.add("nginx_keepalive_us", statistics.median(keeping), "the same on a kept connection")
    figures.add("kernel_packet_us", one, "CPU time of a dropped packet")
    figures.add("kernel_attempt_us", attempt, f"CPU time of a refused attempt of {SYN_REPEATS} packets")
    figures.add("kernel_reject_us", rejects, "CPU time of a packet that the kernel answers with RST (--reject)")
    figures.add("nginx_vs_reject", statistics.median(closing) / rejects, "refusal in nginx ÷ rejected attempt of 1 packet")
    figures.add("nginx_vs_packet", statistics.median(closing) / one, "refusal in nginx ÷ dropped packet")
    figures.add("nginx_vs_attempt", statistics.median(closing) / attempt, "refusal in nginx ÷ refused attempt")
    figures.add("keepalive_vs_packet", statistics.median(keeping) / one, "refusal on a kept connection ÷ dropped packet")


def carry(figures, stack, rounds):
    """The time from the last of 100,000 bans to the last element, and from the start of a shield to all elements."""
    running, started = [], []
    for _ in range(min(rounds, 3)):
        with contextlib.ExitStack() as inner:
            host, table = Host(inner), folder(inner, "shield", MEMORY)
            fill(table, 0)
            shield = Shield(inner, host, table)
            begin = time.monotonic()
            fill(table, ELEMENTS)
            shield.wait(ELEMENTS)
            running.append(time.monotonic() - begin)
            stop(shield.process)
            begin = time.monotonic()
            Shield(inner, host, table).wait(ELEMENTS)
            started.append(time.monotonic() - begin)
    figures.add("carry_100k_s", max(running), "100,000 bans are written and carried, longest of the rounds")
    figures.add("start_100k_s", max(started), "a shield starts with 100,000 bans, longest of the rounds")


def delay(figures, stack, rounds):
    """The time from the begin of `weir shield add` to the last answer that the banned client gets."""
    client, server = link(stack)
    table = folder(stack, "shield", MEMORY)
    fill(table, ELEMENTS)
    Shield(stack, server, table).wait(ELEMENTS)
    server.python(stack, ECHO, core=SERVER_CORE)
    times = []
    for _ in range(rounds):
        with contextlib.ExitStack() as inner:
            asker = client.python(inner, ASK, SERVER, core=LOAD_CORE)
            time.sleep(0.3)
            begin = time.monotonic()
            subprocess.run([WEIR, "shield", "add", CLIENT, "--for", "1h", "--dir", table], check=True,
                           stdout=subprocess.DEVNULL)
            times.append(max(float(asker.stdout.read()) - begin, 0))
        subprocess.run([WEIR, "shield", "release", CLIENT, "--dir", table], check=True, stdout=subprocess.DEVNULL)
        time.sleep(1)
    figures.add("ban_to_drop_s", statistics.median(times), "from a ban to its first dropped packet, median")
    figures.add("ban_to_drop_max_s", max(times), f"the longest of {rounds}")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("bench-shield: network namespaces with a link between them need root")
    frame.main(__doc__, {"cost": cost, "carry": carry, "delay": delay}, rounds=5)
