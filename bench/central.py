#!/usr/bin/python3
"""make bench-redis: the cost of a decision whose counter is in Redis.

Redis has its own core and session. The baseline is redis-benchmark, which calls the same script with the same arguments
without weir. A round runs both in turn. A figure is the median of the ratios of all rounds.
"""

import re
import statistics
import subprocess
import sys
import time

import redis

import frame
import gateway
import redis_bytes
from frame import BUILD, LOAD_CORE, SERVER_CORE, Nginx, Process, free_port, pinned

KEYS = 100_000
DEPTH = 16
COUNT = 150_000  # requests per round
RATE = 2000  # gRPC calls per second, and EVALSHA calls per second of the baseline
RULES = """
domain: bench
descriptors:
- key: service
  value: api
  descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 1000000, algorithm: token_bucket}
"""
ONE_LIMIT = gateway.ONE_LIMIT
TOKEN_BUCKET, MILLION, SECOND_US = "1", "1000000", "1000000"


def redis_server(stack):
    """Starts Redis in its own session, so that weir and the load take no time from the core of Redis."""
    port = free_port()
    return Process(stack, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
                   port, apart=True)


def serve(stack, store, core, rules=RULES, key=None, **ports):
    """Starts weir serve with one thread and its counters in Redis. `ports` are the active listeners. The last one uses
    TCP, and its port is returned."""
    folder = frame.folder(stack, "serve", frame.MEMORY)
    (folder / "rules.yaml").write_text(rules)
    argv = [BUILD / "weir", "serve", "--rules", folder / "rules.yaml", "--table", "bench", "--table-dir", folder,
            "--threads", "1", "--redis", f"redis://127.0.0.1:{store}", "--redis-timeout", "1s"]
    argv += ["--link-key", key] if key else []
    for name in ("grpc", "http", "resp", "admin"):
        argv += [f"--{name}", ports.get(name, "off")]
    port = int(list(ports.values())[-1].rpartition(":")[2])
    Process(stack, argv, port, core=core)
    return port


def own_script(port):
    """Loads weir's script. Returns the EVALSHA command that weir sends."""
    sha1 = redis.Redis(port=port).script_load((BUILD / "src/redis/take.lua").read_text())
    return ["EVALSHA", sha1, "1", "weir:1:{%s}:token_bucket/1s", TOKEN_BUCKET, "1", MILLION, SECOND_US, MILLION]


def named(command, key):
    """Returns the command with a key as long as weir's, whose hash has 22 characters. `key` becomes 12 digits."""
    return [word.replace("%s", "0" * (22 - 12) + key) for word in command]


def redis_benchmark(port, *command):
    out = subprocess.run(["redis-benchmark", "-p", str(port), "-c", "50", "-n", str(COUNT), "-P", str(DEPTH), "-r",
                          str(KEYS), "--csv", *command], check=True, capture_output=True, text=True,
                         preexec_fn=pinned(LOAD_CORE)).stdout
    return float(re.findall(r'^"[^"]*","([\d.]+)"', out, re.M)[-1])


class Watched:
    """Runs of one command by redis-benchmark, with the processor time and idle time of Redis."""

    def __init__(self, store, port, *command):
        self.store, self.port, self.command = store, port, command
        self.rates, self.us, self.idle = [], [], []

    def run(self):
        begun, (ran, waited) = time.monotonic_ns(), self.store.schedstat_ns()
        self.rates.append(redis_benchmark(self.port, *self.command))
        took = time.monotonic_ns() - begun
        ran, waited = (now - then for now, then in zip(self.store.schedstat_ns(), (ran, waited), strict=True))
        self.us.append(ran / COUNT / 1000)
        self.idle.append(max(0, 1 - (ran + waited) / took))
        return self.rates[-1]


def bench_throughput(figures, stack, rounds):
    store = redis_server(stack)
    port = serve(stack, store.port, LOAD_CORE, resp=f"127.0.0.1:{free_port()}")
    check = ["WEIR.CHECK", "bench", "service", "api", "user", "__rand_int__"]
    answer = redis.Redis(port=port).execute_command(*check)
    if b"admit" not in answer:
        sys.exit(f"bench-redis: {answer}")
    ours = Watched(store, port, *check)
    raw = Watched(store, store.port, *named(own_script(store.port), "__rand_int__"))
    ratio = frame.interleaved(rounds, ours.run, raw.run)
    calls = redis.Redis(port=store.port).info("commandstats")["cmdstat_evalsha"]["calls"]
    if calls < 0.9 * 2 * rounds * COUNT:  # a call may carry several decisions
        sys.exit(f"bench-redis: Redis received only {calls} calls")
    figures.add("strict_vs_raw_evalsha", ratio, f"÷ EVALSHA of the same script, pipeline {DEPTH}; to reach: >= 0.9")
    figures.add("strict_per_s", statistics.median(ours.rates), "decisions per second")
    for name, side in ("strict", ours), ("raw", raw):
        figures.add(f"{name}_redis_us", statistics.median(side.us), "processor time of Redis per decision")
        figures.add(f"{name}_redis_idle", statistics.median(side.idle), "share of time that Redis was idle")


def p99_ms(*argv):
    out = subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True,
                         preexec_fn=pinned(LOAD_CORE)).stdout.split()
    if int(out[4]):
        sys.exit(f"bench-redis: {argv[0].name}: {out[4]} of {out[0]} failed")
    return float(out[3])


def bench_latency(figures, stack, rounds):
    store = redis_server(stack).port
    port = serve(stack, store, SERVER_CORE, grpc=f"127.0.0.1:{free_port()}")
    raw = named(own_script(store), "000000KEY")
    pairs = []
    for _ in range(max(3, rounds // 3)):
        pairs.append((p99_ms(BUILD / "grpc-load", port, 2, KEYS, 8, 32, RATE),
                      p99_ms(BUILD / "resp-load", store, 2, KEYS, 8, RATE, *raw)))
    mine, theirs = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    figures.add("strict_p99_vs_raw", statistics.median(a / b for a, b in pairs),
                f"gRPC ÷ EVALSHA, {RATE} per second; to reach: <= 2.5")
    figures.add("strict_p99_ms", mine, "gRPC, the counter in Redis")
    figures.add("raw_p99_ms", theirs, "EVALSHA")


def bench_gateway(figures, stack, rounds):
    api, keys, store = gateway.api_server(stack), gateway.script(stack, in_turn=False), redis_server(stack).port
    socket = f"unix:{frame.folder(stack, 'sock')}/weir.sock"
    key = frame.link_key(stack)
    serve(stack, store, LOAD_CORE, rules=ONE_LIMIT, key=key, resp=socket, http=f"127.0.0.1:{free_port()}")
    strict = Nginx(stack, "strict", gateway.upstream(api, f"weir_link_key {key}; weir_central {socket} timeout=1s;"),
                   "weir on;" + gateway.PROXY, rules=ONE_LIMIT, main="user root;")
    local = Nginx(stack, "local", gateway.upstream(api), "weir on;" + gateway.PROXY, rules=ONE_LIMIT)
    ratio = frame.interleaved(rounds, lambda: gateway.wrk(strict, keys)[0], lambda: gateway.wrk(local, keys)[0])
    figures.add("gateway_strict_vs_local", ratio, "requests per second, counters in Redis ÷ in the table")


def bench_bytes(figures, _stack, _rounds):
    with redis_bytes.own_redis() as client:
        redis_bytes.add_figures(figures, client)


if __name__ == "__main__":
    frame.main(__doc__, {"throughput": bench_throughput, "latency": bench_latency, "gateway": bench_gateway,
                         "bytes": bench_bytes})
