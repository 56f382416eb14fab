#!/usr/bin/python3
"""make bench-cost: what it costs to settle requests by their responses.

The first part measures calls of the engine (cost_local.c). The other parts measure nginx with the module. Two servers
run on one core and get load in turn, each for 40 ms. A figure is the ratio of the CPU times per request, which is the
ratio of the rates that a core can serve. The servers are started anew for each round, because two equal servers can
differ by some percent, depending on where their memory is. gateway_noise is the figure of a server against an equal
one. The baseline has the same limit, and every request costs 1. The API server sends static files: a JSON text or
server-sent events of 10 KB, with the token count at the end.

The last part compares the module with that of an earlier commit, for requests that settle nothing. The variable
WEIR_BENCH_BEFORE selects the commit. The module of that commit is built once, below the build folder.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import urllib.request
from pathlib import Path

import frame
import gateway
from frame import BUILD, LOAD_CORE, SERVER_CORE, Nginx, pinned

ROOT = Path(__file__).resolve().parent.parent
BEFORE = os.environ.get("WEIR_BENCH_BEFORE", "241fd6c1")  # the last commit in which every request costs 1
KEYS = 1000
SECONDS = 2  # of load in a round
LIMIT = 4_000_000_000
RESERVED, ACTUAL = 600, 500

# No request reaches the limit.
RULES = f"""
domain: api
requests:
- descriptor: [{{key: user, from: header.x-user-id}}]
%s
descriptors:
- key: user
  rate_limit: {{unit: day, requests_per_unit: {LIMIT}}}
"""
SETTLED = f"  cost: {{reserve: {RESERVED}, actual: {{from: %s, default: reserved}}}}"
USAGE = {"prompt_tokens": 100, "completion_tokens": ACTUAL - 100, "total_tokens": ACTUAL}


def answer_10k():
    """Returns a JSON answer of 10 KB whose last member is the usage."""
    text = "Water flows over the weir, and the weir keeps the level of the water. "
    head = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": text * 140}, "finish_reason": "stop"}]}
    return json.dumps({**head, "usage": USAGE}) + "\n"


def events_10k():
    """Returns 10 KB of events: one for each word, one with the usage, and [DONE]."""
    def event(choices, usage):
        return "data: " + json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": choices,
                                      "usage": usage}) + "\n\n"
    word = event([{"index": 0, "delta": {"content": "water "}, "finish_reason": None}], None)
    return word * (10_000 // len(word)) + event([], USAGE) + "data: [DONE]\n\n"


def file_server(stack, content_type, body):
    """Starts an nginx that sends the body from a file, with the cost in a header field."""
    folder = frame.folder(stack, "files")
    folder.chmod(0o755)
    (folder / "body").write_text(body)
    return Nginx(stack, "api", "open_file_cache max=10;",
                 f"root {folder}; try_files /body =404; default_type {content_type}; add_header X-Cost {ACTUAL};",
                 core=LOAD_CORE)


def script(stack):
    path = frame.folder(stack, "wrk") / "keys.lua"
    path.write_text(gateway.WRK % ("false", KEYS))
    return path


def remaining(nginx):
    request = urllib.request.Request(f"http://127.0.0.1:{nginx.port}/", headers={"x-user-id": "probe"})
    with urllib.request.urlopen(request) as response:
        response.read()
        return int(response.headers["X-Ratelimit-Remaining"])


def check_settled(name, nginx):
    """Exits if requests are not settled: the figure would be of something else."""
    found = [remaining(nginx), remaining(nginx)]
    if found != [LIMIT - RESERVED, LIMIT - ACTUAL - RESERVED]:
        sys.exit(f"bench-cost: {name}: units left are {found}")


def compare(figures, name, rounds, start, remark):
    """Adds the ratio of CPU times, and both CPU times. start(stack) starts the two servers, and returns them and the
    script for wrk. Returns the CPU time that ours adds to a request."""
    found = []
    for i in range(rounds):
        with contextlib.ExitStack() as stack:
            ours, theirs, keys = start(stack)
            if i % 2:
                found.append(gateway.alternate([ours, theirs], keys, SECONDS))
            else:
                found.append(gateway.alternate([theirs, ours], keys, SECONDS)[::-1])
    ours_us, theirs_us = zip(*found)
    figures.add(name, statistics.median(b / a for a, b in found), remark)
    figures.add(f"{name}_cpu_us", statistics.median(ours_us), "CPU time per request, with weir")
    figures.add(f"{name}_peer_cpu_us", statistics.median(theirs_us), "CPU time per request, baseline")
    return statistics.median(a - b for a, b in found)


def settling(name, source, content_type, body, remark):
    """Returns a part that compares settled requests with requests that cost 1."""
    def start(stack):
        api, keys = file_server(stack, content_type, body), script(stack)
        ours = Nginx(stack, "settled", gateway.upstream(api), "weir on;" + gateway.PROXY, rules=RULES % (SETTLED % source))
        plain = Nginx(stack, "plain", gateway.upstream(api), "weir on;" + gateway.PROXY, rules=RULES % "")
        check_settled(name, ours)
        return ours, plain, keys

    def part(figures, _stack, rounds):
        added = compare(figures, name, rounds, start, remark)
        figures.add(f"{name.removesuffix('_vs_plain')}_added_us", added, "CPU time added to a request")
    return part


def bench_engine(figures, stack, _rounds):
    """Runs cost-local, without a server."""
    out = frame.folder(stack, "local") / "figures.json"
    subprocess.run([BUILD / "cost-local", out], check=True, preexec_fn=pinned(SERVER_CORE))
    figures.values.update(json.loads(out.read_text()))


def build_before(commit):
    """Returns the module of a commit, and builds it if that was not done before."""
    folder = BUILD / "before" / commit
    module = folder / "build" / "ngx_http_weir_module.so"
    if not module.exists():
        print(f"  building the module of {commit}", flush=True)
        (folder / "source").mkdir(parents=True, exist_ok=True)
        tree = subprocess.run(["git", "-C", ROOT, "archive", commit], check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "-C", folder / "source"], input=tree, check=True)
        subprocess.run(["cmake", "-S", folder / "source", "-B", folder / "build", "-G", "Ninja", "-DBUILD_TESTING=OFF", "-Wno-dev",
                        "--log-level=WARNING"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["cmake", "--build", folder / "build", "--target", "ngx_http_weir_module"], check=True,
                       stdout=subprocess.DEVNULL)
    return module


def bench_noise(figures, _stack, rounds):
    def start(stack):
        api, keys = gateway.api_server(stack), script(stack)
        return *(Nginx(stack, f"weir{i}", gateway.upstream(api), "weir on;" + gateway.PROXY, rules=gateway.TWO_LIMITS)
                 for i in range(2)), keys

    compare(figures, "gateway_noise", rounds, start, "a server ÷ an equal server")


def bench_before(figures, _stack, rounds):
    module = build_before(BEFORE)

    def start(stack):
        api, keys = gateway.api_server(stack), script(stack)
        ours = Nginx(stack, "weir", gateway.upstream(api), "weir on;" + gateway.PROXY, rules=gateway.TWO_LIMITS)
        before = Nginx(stack, "before", gateway.upstream(api), "weir on;" + gateway.PROXY, rules=gateway.TWO_LIMITS,
                       module=module)
        return ours, before, keys

    compare(figures, "gateway_unused_vs_before", rounds, start,
            f"÷ the module of {BEFORE}, nothing to settle; to reach: >= 0.99")


HEADER = settling("gateway_settle_header_vs_plain", "response.header.x-cost", "application/json", answer_10k(),
                  "cost in a header field; to reach: >= 0.95")
JSON = settling("gateway_settle_json_10k_vs_plain", "response.json./usage/total_tokens", "application/json", answer_10k(),
                "cost in 10 KB of JSON; to reach: >= 0.90")
EVENTS = settling("gateway_sse_vs_plain", "response.json./usage/total_tokens", "text/event-stream", events_10k(),
                  "cost in 10 KB of events; to reach: >= 0.90")

if __name__ == "__main__":
    frame.main(__doc__, {"engine": bench_engine, "header": HEADER, "json": JSON, "events": EVENTS,
                         "noise": bench_noise, "before": bench_before})
