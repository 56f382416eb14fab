#!/usr/bin/python3
"""make bench-shield: refusing a banned client in the kernel, compared with refusing it in nginx.

The client and the server are two network namespaces with a link between them (veth). Sending runs on core 0. The server
runs on core 1: nginx's worker, and the thread of the kernel that receives packets (threaded NAPI). As with a network
card that coalesces interrupts, the thread looks for packets every 50 µs instead of being woken for each packet. Without
that, most of the measured time would be the waking, which in a virtual machine takes longer than the packet.

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
import json
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


def receivers():
    """Returns the ids of the kernel's threads that receive packets for an interface eth0."""
    return set(subprocess.run(["pgrep", "^napi/eth0"], text=True, stdout=subprocess.PIPE).stdout.split())


def receive_on(core, host):
    """Makes a thread on the core receive the packets of the host's interface, every 50 µs."""
    host.run("ethtool", "-K", "eth0", "tso", "off", "gro", "on")  # veth uses NAPI only with these
    others = receivers()
    # sysfs shows the namespace in which it was mounted
    host.run("unshare", "--mount", "sh", "-ec", """
        mount -t sysfs none /sys && cd /sys/class/net/eth0
        echo 1 >threaded
        echo 50000 >gro_flush_timeout
        echo 1000000 >napi_defer_hard_irqs
    """)
    for thread in receivers() - others:
        os.sched_setaffinity(int(thread), {core})
        os.sched_setscheduler(int(thread), os.SCHED_FIFO, os.sched_param(30))  # before nginx, as an interrupt


def link(stack):
    """Returns the client and the server. Packets are received on the core of their receiver."""
    client, server = Host(stack), Host(stack)
    client.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", server.holder.pid)
    for host, address, core in (client, CLIENT, LOAD_CORE), (server, SERVER, SERVER_CORE):
        host.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "link", "set", "eth0", "up")
        receive_on(core, host)
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
        return json.loads(subprocess.run([WEIR, "shield", "list", "--json", "--dir", self.table], check=True, text=True,
                                         stdout=subprocess.PIPE).stdout)["shield"]

    def wait(self, elements):
        while self.state()["elements_v4"] != elements:
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


def received(host):
    """Returns the number of packets that the host has received."""
    return json.loads(host.run("ip", "-json", "-statistics", "link", "show", "eth0"))[0]["stats64"]["rx"]["packets"]


def flood(client, server):
    """Sends SYN packets for two seconds, and returns the number of those that the server received."""
    before = received(server)
    sent = int(subprocess.run([*client.prefix, *FIRST, FLOOD, SERVER, "2"], text=True, stdout=subprocess.PIPE,
                              preexec_fn=pinned(LOAD_CORE), check=True).stdout)
    count = received(server) - before
    if count < sent * 0.8:
        sys.exit(f"bench: of {sent} packets, the server received only {count}")
    return count


def cost_us(spare, work):
    """CPU time of core 1 for each of the requests or packets whose number work() returns."""
    before = spare.idle()
    count, busy, duration = spare.during(work)
    idle = (before + spare.idle()) / 2
    return (1 - busy / idle) * duration / count * 1e6


def drops(spare, table, client, server, rounds, *options):
    """CPU times of a banned packet, with a shield that ends before the function returns."""
    sent, times = 0, []

    def work():
        nonlocal sent
        count = flood(client, server)
        sent += count
        return count

    with contextlib.ExitStack() as inner:
        shield = Shield(inner, server, table, *options)
        shield.wait(ELEMENTS + 1)
        answers = received(client)
        for _ in range(rounds):
            times.append(cost_us(spare, work))
        answers = received(client) - answers
        time.sleep(2)  # the shield reads the counters of the kernel once a second
        refused = shield.state()["packets"]
    if refused < sent * 0.99 or ("--reject" in options) != (answers > sent * 0.8):
        sys.exit(f"bench: of {sent} packets, the shield refused {refused}, and the client got {answers} answers")
    return times


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
