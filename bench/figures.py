#!/usr/bin/python3
"""make figures: runs every benchmark and writes docs/figures.md.

    bench/figures.py JSON_FOLDER FIGURES.md     writes the document from results that are already there

The document has one table per benchmark. A figure that a benchmark no longer writes is an error, so a table
never shows an old value. A result that was written more than a day before another one is an error too.
"""

import argparse
import json
import os
import platform
import re
import sys
import time
from pathlib import Path

DAY_S = 86400

# The numbers of nodes that bench/scale.py measures.
NODES = (("1", "one node has"), ("10", "10 nodes have"), ("50", "50 nodes have"), ("100", "100 nodes have"),
         ("1000", "1,000 nodes have"))

# Per benchmark: what it compares, then rows of (figure, meaning, goal or None).
TABLES = {
    "engine": (
        "This benchmark measures decisions of the engine. The *floor* is a loop that hashes the same keys and does "
        "one load\nand one 16-byte compare-and-swap at a random cell. [engine.md](engine.md) explains why a decision "
        "takes longer\nthan the floor.", [
            ("hot_key_ns", "one hot key, ns", None),
            ("hot_key_vs_floor", "one hot key ÷ floor", "≤ 1.8"),
            ("uniform_1m_ns", "a million keys, all equally frequent, ns", None),
            ("uniform_1m_vs_floor", "a million keys, all equally frequent ÷ floor", "≤ 1.8"),
            ("uniform_1m_find_vs_floor", "the part for finding the key ÷ floor", None),
            ("uniform_1m_many_vs_floor", "the same by `weir_take_many`, 16 at once ÷ floor", "≤ 1.2"),
            ("zipf_1m_ns", "a million keys, Zipf distribution, ns", None),
            ("zipf_1m_vs_floor", "a million keys, Zipf distribution ÷ floor", "≤ 1.8"),
            ("zipf_1m_many_vs_floor", "the same by `weir_take_many`, 16 at once ÷ floor", None),
            ("two_threads_vs_floor_scaling", "speedup by a second thread ÷ the floor's speedup", "≥ 0.95"),
            ("processes_one_key_vs_floor", "two processes on one key ÷ floor", "≤ 1.5"),
            ("bytes_per_key", "bytes of the table per key", "≤ 44"),
            ("alloc_per_decision", "allocations per decision", "0"),
        ]),
    "rules": (
        "This benchmark measures the matching of descriptors, and whole decisions about HTTP requests.", [
            ("match_10_ns", "match, 10 rules, ns", None),
            ("match_100k_ns", "match, 100,000 rules, 10 of them in use, ns", None),
            ("match_100k_vs_10", "100,000 rules ÷ 10 rules", "≤ 1.5"),
            ("match_100k_all_live_vs_10", "100,000 rules, all in use ÷ 10 rules", None),
            ("load_100k_s", "load 100,000 rules, s", None),
            ("bytes_per_rule", "bytes per compiled rule", None),
            ("decide_ns", "HTTP request, two limits, 100,000 clients, ns", None),
            ("two_takes_ns", "two calls of `weir_take` with the same keys, ns", None),
            ("decide_vs_take", "HTTP request ÷ two calls of `weir_take`", "≤ 3"),
            ("decide_vs_take_one_client", "the same ratio for one client", None),
            ("ban_admit_vs_plain", "admission, rule with `ban` ÷ rule without", None),
            ("refuse_ns", "refusal, rule without `ban`, ns", None),
            ("ban_refusal_adds_ns", "a refusal that counts for a `ban`, additional ns", None),
            ("banned_vs_refused", "refusal by a ban ÷ refusal, rule without `ban`", None),
        ]),
    "gateway": (
        "This benchmark compares nginx with weir to other nginx configurations, on one core.", [
            ("vs_bare_proxy", "requests per second, two limits, all header fields ÷ nginx alone", "≥ 0.95"),
            ("vs_bare_proxy_cpu_us", "CPU time per request with weir, µs", None),
            ("added_cpu_us", "CPU time that weir adds to a request, µs", "≤ 3"),
            ("vs_limit_req", "requests per second, one limit, no header fields ÷ `limit_req`", "≥ 1.05"),
            ("refusal_vs_return_429", "refused requests per second ÷ `return 429` with the same response", "≥ 0.9"),
            ("accuracy_1000rps", "admitted ÷ limit of 1,000 per second, offered 3,000", "0.999–1.001"),
            ("accuracy_1000rps_limit_req", "the same for `limit_req`", None),
        ]),
    "serve": (
        "`weir serve` runs with one thread on one core. The program that sends requests runs on the other core.", [
            ("grpc_per_s", "gRPC decisions per second", None),
            ("grpc_vs_bare_nghttp2", "gRPC decisions ÷ nghttp2 with a constant response", "≥ 0.7"),
            ("grpc_vs_nginx_h2", "gRPC decisions ÷ nginx `return 200` over h2c", "≥ 2"),
            ("p99_ms_half_load", "p99 of a gRPC decision at half load, ms", None),
            ("p99_vs_bare", "p99 at half load ÷ p99 of nghttp2 with a constant response", "≤ 2"),
            ("resp_p16_vs_redis_ping", "`CL.THROTTLE` ÷ `PING` of redis-server, pipeline 16", "≥ 0.8"),
            ("resp_p1_vs_redis_ping", "`CL.THROTTLE` ÷ `PING` of redis-server, no pipeline", "≥ 0.95"),
            ("check_http_vs_mhd_hello", "`/v1/check` ÷ libmicrohttpd with a constant response", "≥ 0.8"),
            ("rss_mb_1m_keys", "resident memory with a million keys and `--memory 48M`, MB", "≤ 64"),
        ]),
    "redis": (
        "This benchmark measures strict counters in Redis. Redis has one core. In a *raw* call, redis-benchmark calls "
        "weir's\nscript in Redis, without `weir serve`.", [
            ("strict_per_s", "decisions per second through `weir serve`, pipeline 16", None),
            ("strict_vs_raw_evalsha", "decisions ÷ raw calls, pipeline 16", "≥ 0.9"),
            ("strict_redis_us", "CPU time of Redis per decision, µs", None),
            ("raw_redis_us", "CPU time of Redis per raw call, µs", None),
            ("strict_p99_vs_raw", "p99 of a gRPC decision ÷ p99 of a raw call, 2,000 per second", "≤ 2.5"),
            ("gateway_strict_vs_local", "gateway, counters in Redis ÷ counters in the table", None),
            *((f"bytes_per_key_{case}{suffix}", f"bytes per key, {text}, {layout}", None)
              for case, text in (("token_bucket", "token bucket"), ("leaky_bucket", "leaky bucket"),
                                 ("fixed_window", "fixed window"), ("sliding_window_counter", "sliding counter"),
                                 ("sliding_window_log", "log of 5 entries"), ("sliding_window_log_1000", "log of 1,000 entries"))
              for suffix, layout in (("", "weir"), ("_classic", "usual layout"))),
        ]),
    "lease": (
        "With a lease, Redis grants units of a shared limit to a node ahead of time. The node counts these units in "
        "its table.", [
            ("lease_vs_local", "decisions on 100 hot keys, by lease ÷ in the table alone", "≥ 0.9"),
            ("redis_ops_per_1k_lease", "calls of Redis per 1,000 decisions, 100 per second and key", "≤ 20"),
            ("gateway_lease_vs_local", "gateway, 100 hot keys, by lease ÷ in the table", "≥ 0.95"),
            ("sim_requests_per_s", "requests per second of the simulated fleet", None),
        ]),
    "scale": (
        "This benchmark measures what a call costs Redis, and how many calls a node makes. [scale.md](scale.md) "
        "computes from\nthese figures what a fleet needs. Redis reads many calls at once, except for `take_single_us`.",
        [
            *((f"take_us_{name}", f"CPU time of Redis, strict decision, {text}, µs", None)
              for name, text in (("token_bucket", "token bucket"), ("fixed_window", "fixed window"),
                                 ("sliding_window_counter", "sliding counter"),
                                 ("sliding_window_log", "log of 100 entries"))),
            ("take_single_us", "the same, token bucket, Redis reads the calls one by one, µs", None),
            ("lease_take_us", "the same decision by the lease script, without a lease, µs", None),
            *((f"lease_us_{n}", f"CPU time of Redis, renewal of a lease, {text} a lease, µs", None)
              for n, text in NODES),
            *((f"exchange_us_{n}", f"CPU time of Redis, exchange of a counter, {text} counts, µs", None)
              for n, text in NODES),
            ("push_us", "CPU time of Redis, counts from another region, µs", None),
            *((f"{call}_{way}_bytes", f"bytes per call {text} Redis, {what}", None)
              for call, what in (("take", "strict decision"), ("lease_take", "the same by the lease script"),
                                 ("lease", "renewal of a lease"), ("exchange", "exchange, 8 peers"),
                                 ("push", "counts from another region"))
              for way, text in (("in", "to"), ("out", "from"))),
            *((f"lease_record_bytes_{n}", f"bytes in Redis, leases of a counter, {text} a lease", None)
              for n, text in NODES),
            *((f"exchange_bytes_{n}", f"bytes in Redis, exchanged counter, {text} counts", None) for n, text in NODES),
            *((f"{mode}_calls_per_1k_{rate.replace('.', '_')}",
               f"calls of Redis per 1,000 decisions, `{mode}`, {rate} per second and key", None)
              for mode, rates in (("lease", "0.2 0.5 1 2 5 10 100"), ("eventual", "2 10 100"))
              for rate in rates.split()),
            *((f"{mode}_calls_per_1k_zipf",
               f"calls of Redis per 1,000 decisions, `{mode}`, 2,000 per second, 4,000 keys, Zipf distribution", None)
              for mode in ("lease", "eventual")),
            *((f"nodes8_{mode}_calls_per_s",
               f"calls per second of each of eight nodes, `{mode}`, one key, 50 requests per second and node", None)
              for mode in ("lease", "eventual")),
            ("strict_calls_per_1k_hot", "calls of Redis per 1,000 decisions, `strict`, one key, pipeline 16", None),
            *((f"node_us_{mode}", f"CPU time of `weir serve` per decision, `{mode}`, µs", None)
              for mode in ("local", "strict", "lease", "eventual")),
        ]),
    "queue": (
        "This benchmark measures deferred requests, with the queue in an SQLite file.", [
            ("enqueue_per_s", "durable 202 responses per second, 64 clients", None),
            ("fsync_per_s", "syncs of one appended page per second", None),
            ("enqueue_vs_fsync", "durable 202 responses ÷ syncs", "≥ 4"),
            ("enqueue_vs_fsync_slow_disk", "the same, each sync 1 ms longer", None),
            ("deliver_per_s", "deliveries per second, 32 connections", None),
            ("deliver_vs_curl_multi", "deliveries ÷ a minimal loop on libcurl", "≥ 0.7"),
        ]),
    "cost": (
        "This benchmark measures requests that are charged when they arrive and settled by their responses "
        "([cost.md](cost.md)).\nA *plain* request has the same limit and costs 1. The responses have 10 KB. The\n"
        "ratios of the gateway are those of the CPU times per request. A ratio of two equal servers shows the noise.", [
            ("take_ns", "`weir_take` of a token bucket, 100 hot keys, ns", None),
            ("reserve_commit_vs_take", "`weir_reserve` and `weir_settle` ÷ `weir_take`, token bucket", "≤ 2.2"),
            ("log_take_ns", "`weir_take` of a sliding window log of 20 with 10 entries, ns", None),
            ("concurrent_vs_log_take", "`weir_take` of a slot, 10 of 20 in use ÷ `weir_take` of that log", "≤ 1.2"),
            ("concurrent_release_ns", "`weir_settle`, which frees the slot, ns", None),
            ("gateway_settle_header_vs_plain", "requests per core, cost in a header field ÷ plain", "≥ 0.95"),
            ("gateway_settle_json_10k_vs_plain", "requests per core, cost in JSON ÷ plain", "≥ 0.90"),
            ("gateway_sse_vs_plain", "requests per core, cost in server-sent events ÷ plain", "≥ 0.90"),
            ("gateway_settle_json_10k_added_us", "CPU time that settling by JSON adds to a request, µs", None),
            ("gateway_sse_added_us", "CPU time that settling by events adds to a request, µs", None),
            ("gateway_noise", "requests per core, a server ÷ an equal server", None),
            ("gateway_unused_vs_before", "requests per core, nothing to settle ÷ the module before costs", "≥ 0.99"),
        ]),
    "clients": (
        "This benchmark runs 1,000 clients on one limit of 100 requests per second in nginx "
        "([clients.md](clients.md)). The polite\nclients are instances of `weir_client`. The naive clients wait as "
        "`Retry-After` says.", [
            ("polite_refused", "polite: refusals ÷ requests", "≤ 0.05"),
            ("polite_used", "polite: admitted ÷ limit", "≥ 0.95"),
            ("polite_slowest", "polite: slowest client ÷ median client", "≥ 0.5"),
            ("polite_requests", "polite: requests per second", None),
            ("naive_refused", "naive: refusals ÷ requests", None),
            ("naive_used", "naive: admitted ÷ limit", None),
            ("naive_slowest", "naive: slowest client ÷ median client", None),
            ("naive_requests", "naive: requests per second", None),
        ]),
    "lab": (
        "This benchmark replays a log of 10 million lines and 2 GB, which is in memory. The rules have one limit per "
        "client and\nminute. The programs for awk count the requests of each client and minute; the second one "
        "forgets the counts of a\nminute when the next minute begins.", [
            ("replay_lines_per_s", "lines per second of `weir replay`", None),
            ("replay_vs_wc", "time of `wc -l` ÷ time of `weir replay`", "≥ 0.05"),
            ("replay_vs_awk", "time of awk ÷ time of `weir replay`", "≥ 2"),
            ("replay_vs_awk_in_order", "time of awk that relies on the order of lines ÷ time of `weir replay`", None),
            ("replay_memory_mb_10m_lines", "peak of resident memory with the table, MB", "≤ 256"),
            ("json_lines_per_s", "lines per second of `weir replay`, JSON", None),
            ("gz_lines_per_s", "lines per second of `weir replay`, compressed with gzip", None),
            ("tune_lines_per_s", "lines per second of `weir tune`", None),
            ("simulate_local_per_minute", "simulated requests per minute of one core, mode local", "≥ 10,000,000"),
            ("simulate_eventual_per_minute", "the same, mode eventual, 3 nodes, 100 clients", "≥ 10,000,000"),
            ("simulate_eventual_1k_clients_per_minute", "the same, 1,000 clients", None),
        ]),
    "shield": (
        "This benchmark compares refusals in the kernel (`weir shield`) with refusals in nginx. A client that gets no "
        "answer\nwithin 10 seconds sends 4 packets in one attempt; in a flood, each packet is an attempt. The kernel's "
        "set has 100,000\nother addresses.", [
            ("nginx_refusal_us", "CPU time of a refusal in nginx on a new connection, µs", None),
            ("nginx_keepalive_us", "the same on a kept connection, µs", None),
            ("kernel_packet_us", "CPU time of a dropped packet, µs", None),
            ("kernel_attempt_us", "CPU time of an attempt of 4 packets, µs", None),
            ("kernel_reject_us", "CPU time of a packet that the kernel answers with RST (`--reject`), µs", None),
            ("nginx_vs_packet", "refusal in nginx ÷ dropped packet", "≥ 20"),
            ("nginx_vs_attempt", "refusal in nginx ÷ attempt of 4 packets", None),
            ("nginx_vs_reject", "refusal in nginx ÷ packet that is answered with RST", None),
            ("keepalive_vs_packet", "refusal on a kept connection ÷ dropped packet", None),
            ("carry_100k_s", "100,000 bans are written and carried into the kernel, s", "≤ 10"),
            ("start_100k_s", "a shield starts with 100,000 bans, s", "≤ 10"),
            ("ban_to_drop_s", "from a ban to its first dropped packet, s", "≤ 1"),
            ("ban_to_drop_max_s", "the longest of the rounds, s", "≤ 1"),
        ]),
    "watch": (
        "This benchmark measures the cost of writing and of reading statistics.", [
            ("engine_with_stats_vs_without", "decision, a million keys, with statistics ÷ without", "≤ 1.10"),
            ("hot_key_with_stats_vs_without", "decision, one key, with statistics ÷ without", "≤ 1.3"),
            ("scrape_5k_rules_ms", "write `/metrics` of 5,000 rules, ms", "≤ 50"),
            ("tick_5k_rules_ms", "update the statistics of 5,000 rules once a second, ms", None),
            ("bytes_per_active_rule", "bytes of the table per active rule, four threads", "≤ 20,480"),
        ]),
}
ALGORITHMS = ("token_bucket", "leaky_bucket", "fixed_window", "sliding_window_counter", "sliding_window_log")
SIZES = (("1k", "1,000"), ("10k", "10,000"), ("100k", "100,000"), ("1m", "a million"), ("10m", "10 million"))


def reached(value, goal):
    """Returns whether a value meets its goal: "≤ 2", "≥ 0.9", "0.999–1.001" or a plain number."""
    numbers = [float(n) for n in re.findall(r"[\d.]+", goal.replace(",", ""))]
    if goal.startswith("≤"):
        return value <= numbers[0]
    if goal.startswith("≥"):
        return value >= numbers[0]
    return numbers[0] <= value <= numbers[-1]


def shown(value, goal=None):
    """Formats a number with three significant digits, and whole numbers from 1,000 on with separators. A number near
    its goal gets as many digits as it takes to see on which side of the goal it is."""
    if value >= 1000:
        return f"{value:,.0f}"
    for digits in range(3, 7):
        text = f"{value:.0f}" if value >= 100 else f"{value:.{digits}g}"
        if goal is None or reached(float(text), goal) == reached(value, goal):
            break
    return text


def table(figures, rows):
    lines = ["| figure | meaning | goal | measured |", "|---|---|---|---|"]
    for name, meaning, goal in rows:
        value = figures[name]
        mark = "" if goal is None or reached(value, goal) else ", not reached"
        lines.append(f"| `{name}` | {meaning} | {goal or '–'} | {shown(value, goal)}{mark} |")
    return "\n".join(lines)


def by_keys(figures):
    """The cost of a decision for each algorithm and number of keys, as a multiple of the floor."""
    lines = ["Decision ÷ floor by number of keys (`vs_floor_by_keys_…`; goal: equal in each row):", "",
             "| algorithm | " + " | ".join(text for _, text in SIZES) + " |", "|---|" + "---|" * len(SIZES)]
    for algorithm in ALGORITHMS:
        values = (shown(figures[f"vs_floor_by_keys_{algorithm}_{size}"]) for size, _ in SIZES)
        lines.append(f"| {algorithm.replace('_', ' ')} | " + " | ".join(values) + " |")
    return "\n".join(lines)


def machine():
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", info)
    release = re.search(r'PRETTY_NAME="(.*)"', Path("/etc/os-release").read_text())
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kind = " (virtual machine)" if " hypervisor" in info else ""
    return (f"{os.cpu_count()} cores of {'an ' if model and model[1][0] in 'AEIOU' else 'a '}"
            f"{model[1] if model else platform.machine()}{kind}, {gib:.0f} GiB, "
            f"{release[1] if release else platform.system()}, Linux {platform.release().split('-')[0]}")


def load(folder):
    """Returns the figures of each benchmark and the date of the oldest result. Exits if results are missing or old."""
    paths = {name: folder / f"{name}.json" for name in TABLES}
    absent = [name for name, path in paths.items() if not path.exists()]
    if absent:
        sys.exit(f"figures: {folder} has no results of {', '.join(absent)}; run make bench-{absent[0]} first")
    times = {name: path.stat().st_mtime for name, path in paths.items()}
    oldest = min(times, key=times.get)
    if max(times.values()) - times[oldest] > DAY_S:
        sys.exit(f"figures: the results of {oldest} are more than a day older than others; run make bench-{oldest} again")
    return {name: json.loads(path.read_text()) for name, path in paths.items()}, times[oldest]


def document(results, date):
    parts = [f"# Figures\n\nMeasured on {time.strftime('%Y-%m-%d', time.gmtime(date))}: {machine()}.\n\n"
             "`make figures` runs every benchmark and writes this page. `make bench-NAME` runs one benchmark.\n"
             "A ratio compares two measurements. Each round makes both measurements in turn and divides them.\n"
             "The ratio on this page is the median of all rounds."]
    for name, (text, rows) in TABLES.items():
        parts.append(f"## `make bench-{name}`\n\n{text}\n\n{table(results[name], rows)}")
        if name == "engine":
            parts.append(by_keys(results[name]))
    return "\n\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path, help="the folder of the JSON files that the benchmarks wrote")
    parser.add_argument("document", type=Path, help="the document to write")
    opts = parser.parse_args()
    results, date = load(opts.results)
    try:
        text = document(results, date)
    except KeyError as missing:
        sys.exit(f"figures: no benchmark wrote the figure {missing}")
    opts.document.write_text(text)


if __name__ == "__main__":
    main()
