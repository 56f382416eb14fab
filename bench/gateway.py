#!/usr/bin/python3
"""make bench-gateway: the cost of weir inside nginx.

Two nginx servers that differ in one setting run on one core. wrk and the API server share the other core.
A round is one second of load on each server. A figure is the median of the ratios of all rounds. CPU time
is that of the worker, from /proc/PID/schedstat.
"""

import re
import signal
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

import frame
from frame import LOAD_CORE, Nginx, pinned

KEYS = 100_000
ACCURACY_S = 30
BURST = 20

# One limit for each user and one limit for all users together. The limits are never reached.
TWO_LIMITS = """
domain: api
requests:
- descriptor: [{key: user, from: header.x-user-id}]
- descriptor: [{key: all, value: "1"}]
descriptors:
- key: user
  rate_limit: {unit: second, requests_per_unit: 1000000, algorithm: token_bucket}
- key: all
  rate_limit: {unit: second, requests_per_unit: 100000000, algorithm: token_bucket}
"""
ONE_LIMIT = """
domain: api
requests:
- descriptor: [{key: user, from: header.x-user-id}]
descriptors:
- key: user
  rate_limit: {unit: second, requests_per_unit: 1000000, algorithm: token_bucket}
"""
ONE_A_DAY = """
domain: api
requests:
- descriptor: [{key: user, from: header.x-user-id}]
descriptors:
- key: user
  rate_limit: {unit: day, requests_per_unit: 1}
"""
THOUSAND_A_SECOND = f"""
domain: api
requests:
- descriptor: [{{key: all, value: "1"}}]
descriptors:
- key: all
  rate_limit: {{unit: second, requests_per_unit: 1000, algorithm: token_bucket, burst: {BURST}}}
"""

# A script for wrk. If in_turn is true, the requests use the keys in order, otherwise at random.
WRK = """
local requests = {}
local at = 0
local in_turn = %s
init = function()
  math.randomseed(os.time())
  for i = 1, %d do
    requests[i] = wrk.format("GET", "/", {["x-user-id"] = "user-" .. i})
  end
end
request = function()
  at = in_turn and at %% #requests + 1 or math.random(#requests)
  return requests[at]
end
"""


def wrk(nginx, script, seconds=1, connections=32):
    """Returns requests per second, CPU time of the worker per request in µs, and the share of responses that are neither
    2xx nor 3xx."""
    before = nginx.cpu_ns()
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script,
                          f"http://127.0.0.1:{nginx.port}/"], check=True, capture_output=True, text=True,
                         preexec_fn=pinned(LOAD_CORE)).stdout
    cpu_ns = nginx.cpu_ns() - before
    count = int(re.search(r"(\d+) requests in", out)[1])
    rate = float(re.search(r"Requests/sec: +([\d.]+)", out)[1])
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    if re.search(r"Socket errors", out):
        sys.exit(f"bench-gateway: {out}")
    return rate, cpu_ns / count / 1000, int(errors[1]) / count if errors else 0


def run_rounds(name, ours, theirs, script, rounds, expect_refused=False):
    """Returns for each round: the rate of ours ÷ theirs, and the CPU time per request of both in µs."""
    found = []
    for i in range(rounds):
        results = {}
        for nginx in (ours, theirs) if i % 2 else (theirs, ours):
            rate, cpu_us, share = wrk(nginx, script)
            if share != expect_refused:
                sys.exit(f"bench-gateway: {name}: unexpected share of refusals: {share}")
            results[nginx] = rate, cpu_us
        found.append((results[ours][0] / results[theirs][0], results[ours][1], results[theirs][1]))
    return found


def alternate(servers, script, seconds, connections=32, slice_s=0.04):
    """Loads the servers in turn, each for 40 ms, so that noise of the machine affects all of them alike. A wrk for each
    server runs all the time, and is stopped while it is not its turn. Returns the CPU time of each worker per request
    in µs."""
    clients, before = [], [nginx.cpu_ns() for nginx in servers]
    try:
        for nginx in servers:
            clients.append(subprocess.Popen(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script,
                                             f"http://127.0.0.1:{nginx.port}/"], stdout=subprocess.PIPE, text=True,
                                            preexec_fn=pinned(LOAD_CORE)))
            clients[-1].send_signal(signal.SIGSTOP)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for client in clients + clients[::-1]:
                client.send_signal(signal.SIGCONT)
                time.sleep(slice_s)
                client.send_signal(signal.SIGSTOP)
    finally:
        for client in clients:
            client.send_signal(signal.SIGCONT)
    outputs = [client.communicate()[0] for client in clients]
    counts = [count_served(out) for out in outputs]
    return [(nginx.cpu_ns() - was) / count / 1000 for nginx, was, count in zip(servers, before, counts)]


def count_served(out):
    """Returns the number of requests in the output of wrk. Exits if a request failed or was refused."""
    if re.search(r"Socket errors|Non-2xx or 3xx", out):
        sys.exit(f"bench-gateway: {out}")
    return int(re.search(r"(\d+) requests in", out)[1])


def add_medians(figures, name, found, remark):
    """Adds the medians of the rounds. Returns the median of the CPU time that ours adds to a request."""
    ratios, cpu_ours, cpu_theirs = zip(*found)
    figures.add(name, statistics.median(ratios), remark)
    figures.add(f"{name}_cpu_us", statistics.median(cpu_ours), "CPU time per request, with weir")
    figures.add(f"{name}_peer_cpu_us", statistics.median(cpu_theirs), "CPU time per request, baseline")
    return statistics.median(ours - theirs for ours, theirs in zip(cpu_ours, cpu_theirs))


def compare(figures, name, ours, theirs, script, rounds, remark, expect_refused=False):
    """Adds the median over rounds of ours ÷ theirs and the CPU time per request of both. Returns the added CPU time."""
    return add_medians(figures, name, run_rounds(name, ours, theirs, script, rounds, expect_refused), remark)


def upstream(api, extra=""):
    return f"upstream api {{ server 127.0.0.1:{api.port}; keepalive 64; }} {extra}"


PROXY = 'proxy_pass http://api; proxy_http_version 1.1; proxy_set_header Connection "";'


def api_server(stack):
    return Nginx(stack, "api", "", "return 200 ok;", core=LOAD_CORE)


def script(stack, in_turn):
    path = frame.folder(stack, "wrk") / "keys.lua"
    path.write_text(WRK % ("true" if in_turn else "false", KEYS))
    return path


def meet_all(nginx, in_turn):
    """Sends requests for all keys once, so that the measurement does not include first requests of keys."""
    rate = wrk(nginx, in_turn)[0]
    wrk(nginx, in_turn, seconds=int(1.5 * KEYS / rate) + 2)


def bench_proxy(figures, stack, rounds):
    api, random_keys, in_turn = api_server(stack), script(stack, False), script(stack, True)
    bare = Nginx(stack, "bare", upstream(api), PROXY)
    ours = Nginx(stack, "weir", upstream(api), "weir on;" + PROXY, rules=TWO_LIMITS)
    meet_all(ours, in_turn)
    added = compare(figures, "vs_bare_proxy", ours, bare, random_keys, rounds,
                    "÷ the same nginx without weir; to reach: >= 0.95")
    figures.add("added_cpu_us", added, "CPU time added to a request; to reach: <= 3")


def bench_limit_req(figures, stack, rounds):
    api, random_keys, in_turn = api_server(stack), script(stack, False), script(stack, True)
    theirs = Nginx(stack, "limit-req",
                   upstream(api, "limit_req_zone $http_x_user_id zone=z:64m rate=1000000r/s;"),
                   "limit_req zone=z burst=100000 nodelay;" + PROXY)
    ours = Nginx(stack, "weir", upstream(api), "weir on; weir_headers none;" + PROXY, rules=ONE_LIMIT)
    meet_all(ours, in_turn)
    meet_all(theirs, in_turn)
    compare(figures, "vs_limit_req", ours, theirs, random_keys, rounds,
            "÷ limit_req, one limit, no headers; to reach: >= 1.05")


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$dollar") + '"'


def return_429(port):
    """Returns an nginx configuration with the same response as weir's, byte for byte except the time to wait."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"x-user-id": "user-1"})
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        body = error.read().decode()
        own = {"server", "date", "content-type", "content-length", "connection"}
        fields = [(k, v) for k, v in error.headers.items() if k.lower() not in own]
        return "".join(f"add_header {k} {quoted(v)} always;" for k, v in fields) + \
            f"default_type {error.headers['content-type']}; return {error.code} {quoted(body)};"
    sys.exit("bench-gateway: a request was admitted that should be refused")


def bench_refusal(figures, stack, rounds):
    api, random_keys, in_turn = api_server(stack), script(stack, False), script(stack, True)
    ours = Nginx(stack, "weir", upstream(api), "weir on;" + PROXY, rules=ONE_A_DAY)
    meet_all(ours, in_turn)  # uses up the limit of each key, so that all later requests are refused
    theirs = Nginx(stack, "return", 'geo $dollar { default "$"; }', return_429(ours.port))
    compare(figures, "refusal_vs_return_429", ours, theirs, random_keys, rounds,
            "÷ nginx `return 429` with the same response; to reach: >= 0.9", expect_refused=True)


def admitted_rate(nginx, log):
    """Returns the admitted requests per second beyond the burst, counted at the API server, at three times the limit."""
    log.write_text("")
    subprocess.run(["hey", "-z", f"{ACCURACY_S}s", "-c", "30", "-q", "100", f"http://127.0.0.1:{nginx.port}/"],
                   check=True, capture_output=True, preexec_fn=pinned(LOAD_CORE))
    time.sleep(0.3)  # nginx writes its log every 100 ms
    stamps = [float(line) for line in log.read_text().split()]
    return (len(stamps) - BURST - 1) / (max(stamps) - min(stamps))


def bench_accuracy(figures, stack, _):
    folder = frame.folder(stack, "log")
    folder.chmod(0o755)
    log = folder / "arrivals"
    log.touch(mode=0o666)
    log.chmod(0o666)
    api = Nginx(stack, "api-log", "log_format stamp $msec;",
                f"access_log {log} stamp buffer=64k flush=100ms; return 200 ok;", core=LOAD_CORE)
    ours = Nginx(stack, "weir", upstream(api), "weir on; weir_headers none;" + PROXY,
                 rules=THOUSAND_A_SECOND)
    theirs = Nginx(stack, "limit-req",
                   upstream(api, "limit_req_zone $server_addr zone=z:1m rate=1000r/s;"),
                   f"limit_req zone=z burst={BURST} nodelay;" + PROXY)
    figures.add("accuracy_1000rps", admitted_rate(ours, log) / 1000,
                "admitted ÷ 1000 per second; to reach: 0.999 to 1.001")
    figures.add("accuracy_1000rps_limit_req", admitted_rate(theirs, log) / 1000, "the same, limit_req")


if __name__ == "__main__":
    frame.main(__doc__, {"proxy": bench_proxy, "limit_req": bench_limit_req, "refusal": bench_refusal,
                         "accuracy": bench_accuracy})
