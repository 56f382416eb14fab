#!/usr/bin/python3
"""make bench-lease: the cost of a decision from leased units.

The baseline is the same limit in the table alone. A round runs both in turn. A figure is the median of the ratios of
all rounds.
"""

import json
import re
import subprocess
import sys
import time

import redis

import central
import frame
import gateway
from frame import BUILD, LOAD_CORE, SERVER_CORE, Nginx, free_port, pinned

KEYS = 1000
EACH = 100  # requests per second for each key
SECONDS = 10
HOT = 100  # number of keys in the benchmark of the gateway
ATTEMPTS = 3
SEEDS = 200

# The limit of a key is 60,000 per minute, ten times its EACH requests per second.
RULES = """
domain: bench
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 60000, algorithm: %s, consistency: lease}
"""
ONE_LIMIT = """
domain: api
requests:
- descriptor: [{key: user, from: header.x-user-id}]
descriptors:
- key: user
  rate_limit: {unit: minute, requests_per_unit: 60000000, consistency: %s}
"""


def bench_spend(figures, stack, _rounds):
    """Compares the table alone with the table and a lease, without a server."""
    out = frame.folder(stack, "spend") / "figures.json"
    subprocess.run([BUILD / "lease-local", out], check=True, stdout=subprocess.DEVNULL, preexec_fn=pinned(SERVER_CORE))
    for name, value in json.loads(out.read_text()).items():
        remark = "ns" if name.endswith("_ns") else "decisions that needed Redis" if name.endswith("_waited") else \
            "decisions per second ÷ the table alone" + ("; to reach: >= 0.9" if name == "lease_vs_local" else "")
        figures.add(name, value, remark)


def commands(store):
    """Returns the number of script calls so far."""
    stats = redis.Redis(port=store).info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def ask(port, seconds):
    """Sends decisions at KEYS * EACH per second, or as fast as the machine can. Returns their number and rate."""
    out = subprocess.run([str(a) for a in (BUILD / "resp-load", port, seconds, KEYS, 8, KEYS * EACH, "WEIR.CHECK",
                                           "bench", "user", "KEY")],
                         check=True, capture_output=True, text=True, preexec_fn=pinned(LOAD_CORE)).stdout.split()
    if int(out[4]):
        sys.exit(f"bench-lease: {out[4]} of {out[0]} failed")
    return int(out[0]), float(out[1])


def bench_calls(figures, stack, _rounds):
    for algorithm in ("fixed_window", "token_bucket"):
        store = central.redis_server(stack).port
        port = central.serve(stack, store, SERVER_CORE, rules=RULES % algorithm, resp=f"127.0.0.1:{free_port()}")
        ask(port, 2)
        for _ in range(ATTEMPTS):  # several attempts, because a busy machine may not reach the rate
            before = commands(store)
            done, rate = ask(port, SECONDS)
            calls = commands(store) - before
            if rate >= 0.95 * KEYS * EACH:
                break
        name = "redis_ops_per_1k_lease" + ("" if algorithm == "fixed_window" else f"_{algorithm}")
        figures.add(name, calls / done * 1000, f"{KEYS} keys, {rate / KEYS:.0f} per second each; to reach: <= 20")
        if rate < 0.95 * KEYS * EACH:
            print(f"  (the machine was too busy for {EACH} per second and key)")


def script(stack):
    path = frame.folder(stack, "wrk") / "keys.lua"
    path.write_text(gateway.WRK % ("false", HOT))
    return path


def bench_gateway(figures, stack, rounds):
    api, keys, store = gateway.api_server(stack), script(stack), central.redis_server(stack).port
    folder, rules = frame.folder(stack, "lease"), ONE_LIMIT % "lease"
    socket, key = f"unix:{folder}/weir.sock", frame.link_key(stack)
    lease = Nginx(stack, "lease", gateway.upstream(api, f"weir_link_key {key}; weir_central {socket} timeout=1s;"),
                  "weir on;" + gateway.PROXY, rules=rules, main="user root;")
    argv = [BUILD / "weir", "serve", "--rules", lease.dir / "rules.yaml", "--table", "bench", "--table-dir", lease.table_dir,
            "--threads", "1", "--redis", f"redis://127.0.0.1:{store}", "--redis-timeout", "1s", "--resp", socket,
            "--link-key", key, "--grpc", "off", "--http", f"127.0.0.1:{free_port()}", "--admin", "off"]
    frame.Process(stack, argv, int(argv[-3].rpartition(":")[2]), core=LOAD_CORE)
    local = Nginx(stack, "local", gateway.upstream(api), "weir on;" + gateway.PROXY, rules=ONE_LIMIT % "local")
    deadline = time.monotonic() + 20
    while commands(store) < 10:  # wait until nginx's worker has connected to the service
        gateway.wrk(lease, keys)
        if time.monotonic() > deadline:
            sys.exit("bench-lease: nginx does not ask Redis")
    ratio = frame.interleaved(rounds, lambda: gateway.wrk(lease, keys)[0], lambda: gateway.wrk(local, keys)[0])
    figures.add("gateway_lease_vs_local", ratio, "requests per second, by lease ÷ in the table; to reach: >= 0.95")


def bench_sim(figures, _stack, _rounds):
    """Reads the speed of the simulated fleet from its output."""
    out = subprocess.run([BUILD / "lease-sim", "--mode", "lease", "--seeds", str(SEEDS)], check=True,
                         capture_output=True, text=True, preexec_fn=pinned(SERVER_CORE)).stdout
    figures.add("sim_requests_per_s", float(re.search(r"([\d.]+) requests/s", out)[1]),
                f"of a simulated fleet, {SEEDS} seeds")


if __name__ == "__main__":
    frame.main(__doc__, {"spend": bench_spend, "calls": bench_calls, "gateway": bench_gateway, "sim": bench_sim})
