#!/usr/bin/python3
"""make bench-queue: the cost of storing a deferred request, and of delivering it.

enqueue  64 clients send POSTs to `weir gateway`. Each request is above its limit and is stored in a file before
         the 202. The baseline is the number of records per second that the same disk makes durable (disk-sync).
deliver  the deliverer sends the same requests to the API, under a rule that does not limit them. The baseline is a
         minimal loop on libcurl's multi interface with the same number of requests and connections (bare-curl).

No process is pinned, because three programs share the two cores in both cases. A round runs both in turn. A figure is
the median of the ratios of all rounds.
"""

import http.client
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

import frame
from frame import BUILD, Nginx, free_port

CLIENTS = 64
CONNECTIONS = 32
KEYS = 2000
BODY = 200
RECORD = 4096  # bytes of a page, by which SQLite's log grows at least
DELIVERIES = 20_000
SLOW_US = 1000
RULES = """
domain: bench
requests:
- descriptor: [{{key: user, from: header.x-user-id}}]
descriptors:
- key: user
  rate_limit: {{{rate}, algorithm: token_bucket, on_limit: defer, defer: {{max_age: 366d, max_waiting: 1000000}}}}
"""
ONE_AN_HOUR = "unit: hour, requests_per_unit: 1"  # no request is due during the run, but all are within max_age
UNLIMITED = "unit: second, requests_per_unit: 100000000"
WRK = """
local requests = {}
init = function(args)
  math.randomseed(os.time())
  for i = 1, %d do
    requests[i] = wrk.format("POST", "/orders", {["x-user-id"] = "user-" .. i, ["content-type"] = "application/json"},
                             string.rep("x", %d))
  end
end
local first = 0
request = function()
  first = first + 1
  return requests[first <= #requests and first or math.random(#requests)]
end
"""


class Gateway:
    """weir gateway with a queue on the disk, in front of an nginx that returns 200."""

    def __init__(self, stack, env=None):
        self.seen = free_port()
        self.api = Nginx(stack, "api", f"server {{ listen 127.0.0.1:{self.seen}; location / {{ stub_status; }} }}",
                         "return 200 ok;", core=None)
        self.dir = frame.folder(stack, "queue")
        self.dir.chmod(0o755)
        self.port, self.admin = free_port(), free_port()
        self.polls = self.delivered = self.first = 0
        self.asking = http.client.HTTPConnection("127.0.0.1", self.seen)
        self.rules(ONE_AN_HOUR)
        argv = [BUILD / "weir", "gateway", "--upstream", f"http://127.0.0.1:{self.api.port}", "--listen",
                f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}", "--admin-open", "--rules", self.dir / "rules.yaml",
                "--runtime", self.dir / "run", "--table", f"bench-{self.port}", "--workers", "1", "--queue",
                f"file:{self.dir}/queue", "--queue-max", "10000000", "--queue-bytes", "20G", "--queue-connections",
                CONNECTIONS, *(["--user", "nobody"] if os.geteuid() == 0 else [])]
        self.log = open(self.dir / "log", "wb")
        self.process = subprocess.Popen([str(a) for a in argv], stdout=self.log, stderr=self.log, cwd=self.dir,
                                        env=env)
        stack.callback(self.stop)
        if not frame.listens(self.port, self.process):
            sys.exit(f"bench-queue: the gateway did not start:\n{(self.dir / 'log').read_text()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()
        subprocess.run([BUILD / "weir", "table", "rm", f"bench-{self.port}"], check=False, capture_output=True)

    def rules(self, rate):
        self.rate = rate
        (self.dir / "rules.yaml").write_text(RULES.format(rate=rate))

    def queue(self, *words):
        return subprocess.run([BUILD / "weir", "queue", *words, "--admin", f"127.0.0.1:{self.admin}"], check=True,
                              capture_output=True, text=True).stdout

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}") as answer:
            return json.load(answer)

    def stats(self):
        """Returns the state of the queue, up to one second old."""
        return self.get("/v1/queue")["queue"]

    def stored(self):
        """Returns the number of requests stored by this process."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as answer:
            return int(float(re.search(r"^weir_queue_stored_total (\S+)", answer.read().decode(), re.M)[1]))

    def use(self, rate):
        """Writes rules with this rate, and waits until the service has loaded them."""
        if self.rate == rate:
            return
        before = self.get("/v1/status")["rules"]["hash"]
        self.rules(rate)
        while self.get("/v1/status")["rules"]["hash"] == before:
            time.sleep(0.05)

    def settle(self):
        """Waits until two readings in a row show no waiting request and no delivery in flight."""
        idle = 0
        while idle < 2:
            now = self.stats()
            idle = idle + 1 if now["waiting"] + now["delivering"] == 0 else 0
            time.sleep(1.1)

    def arrived(self):
        """Returns the number of requests that the API has received, without those of this function. It reuses one
        connection, to disturb the measurement as little as possible."""
        self.polls += 1
        self.asking.request("GET", "/")
        return int(self.asking.getresponse().read().split()[9]) - self.polls


def wrk(port, script, seconds):
    """Returns requests per second, and their number."""
    out = subprocess.run(["wrk", "-t1", f"-c{CLIENTS}", f"-d{seconds}s", "-s", script, f"http://127.0.0.1:{port}/"],
                         check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        sys.exit(f"bench-queue: {out}")
    return float(re.search(r"Requests/sec: +([\d.]+)", out)[1]), int(re.search(r"(\d+) requests in", out)[1])


def wrk_script(stack):
    path = frame.folder(stack, "wrk") / "orders.lua"
    path.write_text(WRK % (KEYS, BODY))
    return path


def disk_syncs(folder, env):
    return float(subprocess.run([BUILD / "disk-sync", folder, "1", str(RECORD)], check=True, capture_output=True,
                                text=True, env=env).stdout)


def compare_enqueue(stack, rounds, slow_us=0):
    """Returns the ratio, 202s per second and syncs per second. Each sync takes slow_us longer than on the real disk."""
    env = {**os.environ, "LD_PRELOAD": str(BUILD / "slow-sync.so"), "SLOW_SYNC_US": str(slow_us)} if slow_us else None
    ours, script = Gateway(stack, env), wrk_script(stack)
    wrk(ours.port, script, 1)  # uses up the limit of each key, so that later requests are deferred
    rates, syncs = [], []

    def enqueue():
        before = ours.stored()
        rate, count = wrk(ours.port, script, 2)
        stored = ours.stored() - before
        if stored < 0.99 * count:
            sys.exit(f"bench-queue: only {stored} of {count} requests were stored")
        rates.append(rate)
        return rate

    def sync():
        syncs.append(disk_syncs(ours.dir, env))
        return syncs[-1]

    ratio = frame.interleaved(rounds, enqueue, sync)
    return ratio, statistics.median(rates), statistics.median(syncs)


def bench_enqueue(figures, stack, rounds):
    ratio, rate, syncs = compare_enqueue(stack, rounds)
    figures.add("enqueue_vs_fsync", ratio,
                f"durable 202s of {CLIENTS} clients ÷ fsyncs of the disk; to reach: >= 4")
    figures.add("enqueue_per_s", rate, "durable 202s per second")
    figures.add("fsync_per_s", syncs, "fsyncs per second, one page appended each time")


def bench_slow_disk(figures, stack, rounds):
    ratio, rate, syncs = compare_enqueue(stack, max(3, rounds // 3), SLOW_US)
    figures.add("enqueue_vs_fsync_slow_disk", ratio, f"the same, each sync {SLOW_US / 1000:g} ms longer")
    figures.add("enqueue_per_s_slow_disk", rate, "durable 202s per second")
    figures.add("fsync_per_s_slow_disk", syncs, "fsyncs per second")


def fill(ours, script):
    """Fills the queue, stops the API and removes the limit, so that all requests wait for the API alone. Returns their
    number."""
    ours.use(ONE_AN_HOUR)
    while ours.stored() - ours.delivered < DELIVERIES:
        wrk(ours.port, script, 1)
    ours.first = ours.arrived()
    os.kill(ours.api.worker(), signal.SIGSTOP)
    ours.use(UNLIMITED)
    ours.queue("retry", "--all")
    return ours.stored() - ours.delivered


def delivery_rate(ours, waiting):
    """Starts the API. Returns deliveries per second from that time on."""
    os.kill(ours.api.worker(), signal.SIGCONT)
    began = time.monotonic()
    while ours.arrived() - ours.first < waiting:
        time.sleep(0.005)
    rate = waiting / (time.monotonic() - began)
    ours.settle()
    if ours.stats()["dead"]:
        sys.exit(f"bench-queue: {ours.stats()}")
    ours.delivered += waiting
    return rate


def bare_curl(ours, count):
    done = subprocess.run([BUILD / "bare-curl", "http://localhost/orders", str(CONNECTIONS), str(count), str(BODY),
                           str(ours.dir / "run/deliver/api.sock")], capture_output=True, text=True, check=True)
    return float(done.stdout)


def bench_deliver(figures, stack, rounds):
    ours, script = Gateway(stack), wrk_script(stack)
    wrk(ours.port, script, 1)
    rates, bare = [], []

    def deliver():
        rates.append(delivery_rate(ours, fill(ours, script)))
        return rates[-1]

    def post():
        bare.append(bare_curl(ours, DELIVERIES))
        return bare[-1]

    figures.add("deliver_vs_curl_multi", frame.interleaved(max(3, rounds // 3), deliver, post),
                f"deliveries ÷ a minimal loop on libcurl, {CONNECTIONS} connections; to reach: >= 0.7")
    figures.add("deliver_per_s", statistics.median(rates), "deliveries per second")
    figures.add("curl_multi_per_s", statistics.median(bare), "requests per second of the minimal loop")


if __name__ == "__main__":
    frame.main(__doc__, {"enqueue": bench_enqueue, "slow_disk": bench_slow_disk, "deliver": bench_deliver})
