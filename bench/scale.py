#!/usr/bin/python3
"""make bench-scale: what a call costs Redis and how many calls a node makes, for docs/scale.md.

The part `calls` calls weir's scripts in Redis without weir. The other parts run weir serve. A round measures every case
once, so a busy moment of the machine affects all cases. A figure is the median of all rounds. Times are the processor
time of the whole process.
"""

import functools
import itertools
import os
import random
import statistics
import subprocess
import sys
import time

import redis

import central
import frame
from frame import BUILD, LOAD_CORE, MEMORY, SERVER_CORE, Process, free_port, pinned

HOLDERS = (1, 10, 50, 100, 1000)  # the nodes that have a lease of a counter, or that exchange a counter
DEPTH = 16  # requests that a connection sends at once
ATTEMPTS = 10
MANY = 960  # calls per round of a case that takes tens of µs
LEASE_US = 1_000_000
LIMIT = 1_000_000
MINUTE_US, MINUTE_NS, MINUTE_MS = 60_000_000, 60_000_000_000, 60_000
REGION = "eu-west"
PEERS = 8  # other regions; an exchange call names those that can be reached
ALGORITHMS = {"token_bucket": 1, "fixed_window": 3, "sliding_window_counter": 4, "sliding_window_log": 5}

RATE = 2000  # requests per second of all keys together
LEASE_RATES = (100, 10, 5, 2, 1, 0.5, 0.2)  # requests per second of one key; the number of keys rises
EVENTUAL_RATES = (100, 10, 2)
WARM_S, RUN_S = 1.5, 3
ZIPF_KEYS, ZIPF_BATCH = 4000, 10
SYNC_MS = 100
NODES, SHARED_RATE, SHARED_S = 8, 50, 8
HEARTBEATS_PER_S = 0.5  # script calls of a node without requests
COUNT = 30_000  # calls or decisions per round of redis-benchmark
RULES = """
domain: bench
descriptors:
- {{key: local, rate_limit: {{{limit}, consistency: local}}}}
- {{key: strict, rate_limit: {{{limit}, consistency: strict}}}}
- {{key: lease, rate_limit: {{{limit}, consistency: lease}}}}
- {{key: eventual, rate_limit: {{{limit}, consistency: eventual}}}}
""".format(limit="unit: minute, requests_per_unit: 100000000, algorithm: token_bucket")


def suffix(rate):
    """Returns the rate as a part of a figure's name."""
    return str(rate).replace(".", "_")


def redis_benchmark(port, depth, count, *command, keys=100_000):
    subprocess.run(["redis-benchmark", "-p", str(port), "-c", "50", "-n", str(count), "-P", str(depth), "-r", str(keys),
                    "-q", *command], check=True, stdout=subprocess.DEVNULL, preexec_fn=pinned(LOAD_CORE))


# ---- calls of the scripts ----

def counter(number, mark="", limit="token_bucket/1m"):
    return f"weir:1:{{{number:022d}}}:{mark}{limit}"


def take(sha1, name):
    """Returns calls that take one unit of one of 10,000 counters."""
    algorithm = ALGORITHMS[name]
    burst = [LIMIT] if name == "token_bucket" else []
    limit = 100 if name == "sliding_window_log" else LIMIT
    keys = [counter(random.randrange(10_000), limit=f"{name}/1m") for _ in range(MANY)]
    return [("EVALSHA", sha1, 1, key, algorithm, 1, limit, MINUTE_US, *burst) for key in keys]


def lease_take(sha1):
    """Returns calls of the lease script that take one unit and ask for no lease."""
    numbers = [20_000 + random.randrange(10_000) for _ in range(MANY)]
    return [("EVALSHA", sha1, 2, counter(i), counter(i, "l:"), 1, 1, LIMIT, MINUTE_US, LIMIT) for i in numbers]


def holder_name(i):
    return f"{(i + 1) * 0x9e3779b97f4a7c15 % 2**64:016x}"


def lease_entry(now_us, units):
    """Returns the entry of a holder, which got `units` at now_us (src/redis/scripts/lease/outstanding.lua)."""
    fields = ((1, 7), (units, 4), (now_us + LEASE_US, 7), (now_us, 7), (1, 4), (LIMIT // 2, 4), (units, 4), (1, 7),
              (LEASE_US, 7), (LEASE_US, 7))
    return b"".join(value.to_bytes(size, "big") for value, size in fields)


class Leases:
    """Leases of `holders` nodes on some counters. A call reports 85 spent units and asks for 85 others, as a node with
    100 requests per second does. The leases end after a second, so each round writes them anew, without the script: a
    thousand calls of the script on one counter take longer than a second."""

    def __init__(self, client, sha1, holders):
        self.client, self.sha1, self.holders = client, sha1, holders
        self.counters = max(1, 320 // holders)
        self.calls = 320 if holders < HOLDERS[-1] else 48

    def numbers(self):
        return range(self.holders * 1000, self.holders * 1000 + self.counters)

    def record(self):
        return counter(self.holders * 1000, "l:")

    def prepare(self):
        seconds, us = self.client.time()
        entry = lease_entry(seconds * 1_000_000 + us, 100)
        record = {holder_name(i): entry for i in range(self.holders)}
        with self.client.pipeline(transaction=False) as pipe:
            for number in self.numbers():
                pipe.delete(counter(number), counter(number, "l:")).hset(counter(number, "l:"), mapping=record)
            pipe.execute()
        pairs = list(itertools.product(self.numbers(), range(self.holders)))
        return [("EVALSHA", self.sha1, 2, counter(i), counter(i, "l:"), 1, 0, LIMIT, MINUTE_US, LIMIT, holder_name(h),
                 2, 1, 85, 0, 85, self.holders, LEASE_US) for i, h in random.sample(pairs, min(self.calls, len(pairs)))]

    @staticmethod
    def check(reply):
        """Returns whether Redis knew the lease and granted the units."""
        return reply[6] == 85 and reply[8] == 1


class Exchanges:
    """The counts of `holders` nodes of one counter."""

    def __init__(self, client, shas, holders):
        self.client, self.shas, self.holders = client, shas, holders
        self.key = counter(holders, "e:")
        self.names = [f"{REGION}/{holder_name(i)[:8]}.{holder_name(i)}" for i in range(holders)]

    def prepare(self):
        self.window = self.client.time()[0] // 60
        self.client.delete(self.key)
        self.client.hset(self.key, mapping={name: f"{self.window} 1234 0 5678 0" for name in self.names})
        state = (self.window, 1235, 0, 5678, 0, self.window - 2, 2 * MINUTE_MS + 1000, MINUTE_NS)
        regions = ("", "0123abcd" * PEERS, "", 0, "", 2300)
        return [("EVALSHA", self.shas["exchange"], 1, self.key, random.choice(self.names), *state, *regions)
                for _ in range(160)]

    def check(self, reply):
        return reply[4] == self.holders - 1 and len(reply) == 5

    def push(self):
        self.prepare()
        return [("EVALSHA", self.shas["push"], 1, self.key, 2 * MINUTE_MS + 1000, random.choice(self.names),
                 f"{self.window} 1236 0 5678 0") for _ in range(MANY)]


class Meter:
    """Sends calls to Redis. Measures its processor time, and the bytes of requests and replies, per call."""

    def __init__(self, store, client):
        self.store, self.client = store, client
        self.samples = {}

    def traffic(self):
        stats = self.client.info("stats")
        return stats["total_net_input_bytes"], stats["total_net_output_bytes"]

    def send(self, calls):
        with self.client.pipeline(transaction=False) as pipe:
            for call in calls:
                pipe.execute_command(*call)
            begun_ns = self.store.cpu_ns()
            replies = pipe.execute()
        return replies, self.store.cpu_ns() - begun_ns

    def run(self, name, prepare, check=lambda _: True):
        """Measures the calls that prepare() returns. Repeats them if a reply does not pass check(): on a busy machine,
        leases can end before the calls do."""
        for _ in range(ATTEMPTS):
            calls, idle, before = prepare(), self.traffic(), self.traffic()
            replies, took_ns = self.send(calls)
            after = self.traffic()
            if all(map(check, replies)):
                break
        else:
            sys.exit(f"bench-scale: {name}: unexpected reply {next(r for r in replies if not check(r))}")
        # `before` - `idle` is the traffic of reading the counts itself.
        bytes_in, bytes_out = ((a - 2 * b + i) / len(calls) for a, b, i in zip(after, before, idle, strict=True))
        self.samples.setdefault(name, []).append((took_ns / len(calls) / 1000, bytes_in, bytes_out))

    def run_single(self, name, command):
        """Measures calls that Redis reads one by one. redis-benchmark waits for each reply, on 50 connections."""
        begun_ns = self.store.cpu_ns()
        redis_benchmark(self.store.port, 1, COUNT, *command)
        self.samples.setdefault(name, []).append(((self.store.cpu_ns() - begun_ns) / COUNT / 1000,))

    def median(self, name, column):
        return statistics.median(sample[column] for sample in self.samples[name])


def bench_calls(figures, stack, rounds):
    store = central.redis_server(stack)
    client = redis.Redis(port=store.port)
    shas = {name: client.script_load((BUILD / f"src/redis/{name}.lua").read_text())
            for name in ("take", "lease", "exchange", "push")}
    meter, single = Meter(store, client), central.named(central.own_script(store.port), "__rand_int__")
    leases = [Leases(client, shas["lease"], n) for n in HOLDERS]
    exchanges = [Exchanges(client, shas, n) for n in HOLDERS]
    for _ in range(1 + rounds // 3):
        for name in ALGORITHMS:
            meter.run(f"take_{name}", functools.partial(take, shas["take"], name))
        meter.run_single("take_single", single)
        meter.run("lease_take", functools.partial(lease_take, shas["lease"]))
        for lease, exchange in zip(leases, exchanges, strict=True):
            meter.run(f"lease_{lease.holders}", lease.prepare, lease.check)
            meter.run(f"exchange_{exchange.holders}", exchange.prepare, exchange.check)
        meter.run("push", exchanges[-1].push)
    add_calls(figures, meter)
    for lease, exchange in zip(leases, exchanges, strict=True):
        lease.prepare()
        figures.add(f"lease_record_bytes_{lease.holders}", client.memory_usage(lease.record(), samples=0), "in Redis")
        figures.add(f"exchange_bytes_{exchange.holders}", client.memory_usage(exchange.key, samples=0), "in Redis")


def add_calls(figures, meter):
    for name in ALGORITHMS:
        figures.add(f"take_us_{name}", meter.median(f"take_{name}", 0), "a strict decision, many calls at once")
    figures.add("take_single_us", meter.median("take_single", 0), "a strict decision, calls one by one")
    figures.add("lease_take_us", meter.median("lease_take", 0), "the same decision by the lease script")
    for n in HOLDERS:
        figures.add(f"lease_us_{n}", meter.median(f"lease_{n}", 0), "renewal of a lease")
    for n in HOLDERS:
        figures.add(f"exchange_us_{n}", meter.median(f"exchange_{n}", 0), "exchange of a counter")
    figures.add("push_us", meter.median("push", 0), f"counts from another region, {HOLDERS[-1]} nodes")
    for figure, case in (("take", "take_token_bucket"), ("lease_take", "lease_take"), ("lease", "lease_50"),
                         ("exchange", "exchange_50"), ("push", "push")):
        figures.add(f"{figure}_in_bytes", meter.median(case, 1), "to Redis, per call")
        figures.add(f"{figure}_out_bytes", meter.median(case, 2), "from Redis, per call")


# ---- nodes ----

class Node:
    """A weir serve with one thread, and its Redis if it has no other. Both have a core together, and the load has the
    other core."""

    def __init__(self, stack, store=None):
        self.store = store or central.redis_server(stack)
        self.client = redis.Redis(port=self.store.port)
        folder, self.port = frame.folder(stack, "scale", MEMORY), free_port()
        (folder / "rules.yaml").write_text(RULES)
        argv = [BUILD / "weir", "serve", "--rules", folder / "rules.yaml", "--table", "bench", "--table-dir", folder,
                "--threads", "1", "--redis", f"redis://127.0.0.1:{self.store.port}", "--redis-timeout", "1s",
                "--sync-interval", f"{SYNC_MS}ms", "--resp", f"127.0.0.1:{self.port}"]
        argv += [word for name in ("grpc", "http", "admin") for word in (f"--{name}", "off")]
        self.serve = Process(stack, argv, self.port, core=SERVER_CORE)

    def calls(self):
        stats = self.client.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))

    def load(self, mode, rate, seconds):
        """Sends RATE requests per second to RATE ÷ rate keys at random. Returns the number of requests."""
        argv = (BUILD / "resp-load", self.port, seconds, round(RATE / rate), 8, RATE, "WEIR.CHECK", "bench", mode,
                f"{suffix(rate)}-KEY")
        out = subprocess.run([str(word) for word in argv], check=True, capture_output=True, text=True,
                             preexec_fn=pinned(LOAD_CORE)).stdout.split()
        if int(out[4]):
            sys.exit(f"bench-scale: {mode}: {out[4]} of {out[0]} requests failed")
        return int(out[0])

    def load_zipf(self, mode, seconds):
        """Sends RATE requests per second. Key number i is 1 ÷ i times as frequent as the first key. Returns the number
        of requests."""
        weights = list(itertools.accumulate(1 / i for i in range(1, ZIPF_KEYS + 1)))
        client = redis.Redis(port=self.port)
        begun, count = time.monotonic(), round(seconds * RATE / ZIPF_BATCH)
        for i in range(count):
            time.sleep(max(0, begun + i * ZIPF_BATCH / RATE - time.monotonic()))
            with client.pipeline(transaction=False) as pipe:
                for key in random.choices(range(ZIPF_KEYS), cum_weights=weights, k=ZIPF_BATCH):
                    pipe.execute_command("WEIR.CHECK", "bench", mode, f"zipf-{key}")
                pipe.execute()
        return count * ZIPF_BATCH

    def calls_per_1k(self, load):
        load(WARM_S)
        before = self.calls()
        done = load(RUN_S)
        return (self.calls() - before) / done * 1000


def bench_demand(figures, stack, _rounds):
    for mode, rates in (("lease", LEASE_RATES), ("eventual", EVENTUAL_RATES)):
        node = Node(stack)
        for rate in rates:
            calls = node.calls_per_1k(functools.partial(node.load, mode, rate))
            figures.add(f"{mode}_calls_per_1k_{suffix(rate)}", calls, f"per 1,000 requests, {rate} per second and key")
        node = Node(stack)
        figures.add(f"{mode}_calls_per_1k_zipf", node.calls_per_1k(functools.partial(node.load_zipf, mode)),
                    f"per 1,000 requests, {ZIPF_KEYS} keys, Zipf distribution")


def bench_fleet(figures, stack, _rounds):
    """Real nodes that share a key. The calls without requests are heartbeats."""
    store = central.redis_server(stack)
    nodes = [Node(stack, store) for _ in range(NODES)]
    for mode in ("lease", "eventual"):
        argv = ("1", "1", SHARED_RATE, "WEIR.CHECK", "bench", mode, "shared")
        loads = [subprocess.Popen([str(word) for word in (BUILD / "resp-load", node.port, SHARED_S, *argv)],
                                  stdout=subprocess.DEVNULL, preexec_fn=pinned(LOAD_CORE)) for node in nodes]
        time.sleep(WARM_S)
        begun, before = time.monotonic(), nodes[0].calls()
        time.sleep(SHARED_S - 2 * WARM_S)
        calls, took_s = nodes[0].calls() - before, time.monotonic() - begun
        if any(load.wait() for load in loads):
            sys.exit(f"bench-scale: {mode}: requests of {NODES} nodes failed")
        figures.add(f"nodes{NODES}_{mode}_calls_per_s", calls / took_s / NODES - HEARTBEATS_PER_S,
                    f"calls of each of {NODES} nodes, one key, {SHARED_RATE} requests per second and node")


def bench_nodes(figures, stack, rounds):
    """The processor time of weir serve, which gets requests one by one and decides them in each mode. 100 hot keys have
    leases or are exchanged. Strict requests have 100,000 keys, so that few of them are merged."""
    node, samples, hot = Node(stack), {mode: [] for mode in ("local", "strict", "lease", "eventual")}, []
    for _ in range(max(3, rounds // 4)):
        for mode, us in samples.items():
            begun_ns = node.serve.cpu_ns()
            redis_benchmark(node.port, 1, COUNT, "WEIR.CHECK", "bench", mode, "__rand_int__",
                            keys=100_000 if mode == "strict" else 100)
            us.append((node.serve.cpu_ns() - begun_ns) / COUNT / 1000)
        before = node.calls()
        redis_benchmark(node.port, DEPTH, COUNT, "WEIR.CHECK", "bench", "strict", "hot")
        hot.append((node.calls() - before) / COUNT * 1000)
    for mode, us in samples.items():
        figures.add(f"node_us_{mode}", statistics.median(us), "processor time of weir serve per decision")
    figures.add("strict_calls_per_1k_hot", statistics.median(hot), f"one key, 50 connections, pipeline {DEPTH}")


if __name__ == "__main__":
    os.sched_setaffinity(0, {LOAD_CORE})
    random.seed(1)
    frame.main(__doc__, {"calls": bench_calls, "demand": bench_demand, "fleet": bench_fleet, "nodes": bench_nodes})
