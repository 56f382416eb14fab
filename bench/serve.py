#!/usr/bin/python3
"""make bench-serve: the cost of a decision over the network.

weir serve with one thread and the server that it is compared with use one core, the load uses the other. A round is one
second of each in turn. A figure is the median of the ratios of all rounds.
"""

import re
import socket
import statistics
import subprocess
import sys

import frame
from frame import BUILD, LOAD_CORE, Nginx, Process, free_port, pinned

KEYS = 100_000
RULES = """
domain: bench
descriptors:
- key: service
  value: api
  descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 1000000, algorithm: token_bucket}
"""
CHECK = '{"domain":"bench","descriptors":[{"entries":[{"key":"service","value":"api"},{"key":"user","value":"u%06d"}]}]}'
WRK = """
local bodies = {}
init = function()
  for i = 1, %d do
    bodies[i] = wrk.format("POST", "/v1/check", {["content-type"] = "application/json"},
                           string.format('%s', i))
  end
end
request = function() return bodies[math.random(#bodies)] end
"""


def serve(stack, memory="64M", **ports):
    """Starts weir serve with one thread. `ports` names the active listener and its port."""
    folder = frame.folder(stack, "serve", frame.MEMORY)
    (folder / "rules.yaml").write_text(RULES)
    argv = [BUILD / "weir", "serve", "--rules", folder / "rules.yaml", "--table", "bench", "--table-dir", folder,
            "--memory", memory, "--threads", "1"]
    for name in ("grpc", "http", "resp", "admin"):
        argv += [f"--{name}", f"127.0.0.1:{ports[name]}" if name in ports else "off"]
    return Process(stack, argv, next(iter(ports.values())))


def grpc_load(port, seconds=1, rate=0):
    """Returns requests per second, p50 and p99 in ms, and the number of failed calls."""
    out = subprocess.run([BUILD / "grpc-load", str(port), str(seconds), str(KEYS), "8", "32", str(rate)], check=True,
                         capture_output=True, text=True, preexec_fn=pinned(LOAD_CORE)).stdout.split()
    return float(out[1]), float(out[2]), float(out[3]), int(out[4])


def grpc_rate(port, expect_grpc=True):
    rate, _, _, failed = grpc_load(port)
    if expect_grpc and failed:
        sys.exit(f"bench-serve: {failed} calls failed")
    return rate


def bare_nghttp2(stack):
    port = free_port()
    return Process(stack, [BUILD / "bare-nghttp2", port], port)


def bench_grpc(figures, stack, rounds):
    ours, bare = serve(stack, grpc=free_port()), bare_nghttp2(stack)
    port = free_port()
    nginx = Nginx(stack, "h2", f"server {{ listen 127.0.0.1:{port} http2; location / {{ return 200; }} }}")
    figures.add("grpc_vs_bare_nghttp2",
                frame.interleaved(rounds, lambda: grpc_rate(ours.port), lambda: grpc_rate(bare.port)),
                "÷ nghttp2 with a constant response; to reach: >= 0.7")
    figures.add("grpc_vs_nginx_h2",
                frame.interleaved(rounds, lambda: grpc_rate(ours.port), lambda: grpc_rate(port, False)),
                "÷ nginx `return 200` over h2c; to reach: >= 2")
    rates = [grpc_rate(ours.port) for _ in range(5)]
    figures.add("grpc_per_s", statistics.median(rates), "ShouldRateLimit per second, one thread")
    bench_latency(figures, ours, bare, statistics.median(rates) / 2, rounds)


def bench_latency(figures, ours, bare, rate, rounds):
    both = {ours: [], bare: []}
    for _ in range(max(3, rounds // 3)):
        for server, values in both.items():
            values.append(grpc_load(server.port, seconds=2, rate=rate)[2])
    mine, theirs = (statistics.median(both[s]) for s in (ours, bare))
    figures.add("p99_ms_half_load", mine, f"at {rate:.0f} calls per second, open loop")
    figures.add("p99_ms_half_load_bare", theirs, "the bare server at the same rate")
    figures.add("p99_vs_bare", mine / theirs, "to reach: <= 2")


def redis_benchmark(port, pipeline, *command):
    count = 400_000 if pipeline > 1 else 60_000
    out = subprocess.run(["redis-benchmark", "-p", str(port), "-c", "50", "-n", str(count), "-P", str(pipeline),
                          "-r", str(KEYS), "--csv", *command], check=True, capture_output=True, text=True,
                         preexec_fn=pinned(LOAD_CORE)).stdout
    return float(re.findall(r'^"[^"]*","([\d.]+)"', out, re.M)[-1])


THROTTLE = ("CL.THROTTLE", "user:__rand_int__", "1000000", "1000000", "1")


def bench_resp(figures, stack, rounds):
    ours, port = serve(stack, resp=free_port()), free_port()
    Process(stack, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], port)
    for pipeline, reach in ((16, 0.8), (1, 0.95)):
        ratio = frame.interleaved(rounds, lambda: redis_benchmark(ours.port, pipeline, *THROTTLE),
                                  lambda: redis_benchmark(port, pipeline, "PING"))
        figures.add(f"resp_p{pipeline}_vs_redis_ping", ratio,
                    f"CL.THROTTLE ÷ redis-server PING, pipeline {pipeline}; to reach: >= {reach}")


def wrk(port, script):
    out = subprocess.run(["wrk", "-t1", "-c32", "-d1s", "-s", script, f"http://127.0.0.1:{port}/"], check=True,
                         capture_output=True, text=True, preexec_fn=pinned(LOAD_CORE)).stdout
    if "Non-2xx" in out:
        sys.exit(f"bench-serve: {out}")
    return float(re.search(r"Requests/sec: +([\d.]+)", out)[1])


def bench_http(figures, stack, rounds):
    ours, port = serve(stack, http=free_port()), free_port()
    Process(stack, [BUILD / "bare-mhd", port], port)
    script = frame.folder(stack, "wrk") / "check.lua"
    script.write_text(WRK % (KEYS, CHECK))
    figures.add("check_http_vs_mhd_hello",
                frame.interleaved(rounds, lambda: wrk(ours.port, script), lambda: wrk(port, script)),
                "/v1/check ÷ libmicrohttpd with a constant response; to reach: >= 0.8")


def fill(port, keys):
    """Sends one request for each key, in pipelines."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        reader = s.makefile("rb")
        for first in range(0, keys, 1000):
            s.sendall(b"".join(b"CL.THROTTLE user:%d 100 100 86400\r\n" % k for k in range(first, first + 1000)))
            for _ in range(6 * 1000):
                reader.readline()


def bench_memory(figures, stack, _):
    ours = serve(stack, memory="48M", resp=free_port())
    fill(ours.port, 1_000_000)
    figures.add("rss_mb_1m_keys", ours.resident_mb(), "MB resident, --memory 48M; to reach: <= 64")


if __name__ == "__main__":
    frame.main(__doc__, {"grpc": bench_grpc, "resp": bench_resp, "http": bench_http, "memory": bench_memory})
