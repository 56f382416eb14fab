#!/usr/bin/python3
"""make bench-clients: 1,000 clients on one limit of 100 requests per second.

The server is nginx with weir. Each polite client is a weir_client of its own and knows only its own responses. For
comparison, the same number of clients runs a naive loop, which waits after a refusal as Retry-After says, and otherwise
sends at once. bench-clients also draws docs/clients-polite.svg and docs/clients-naive.svg if WEIR_DRAW is set.
"""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import frame
from frame import LOAD_CORE, Nginx, pinned

ROOT = Path(__file__).resolve().parent.parent

CLIENTS = 1000
LIMIT = 100
POLITE_S = 300
NAIVE_S = 60
STACK_BYTES = 256 * 1024  # of a thread: each polite client has two

RULES = f"""
domain: api
requests:
- descriptor: [{{key: all, value: "1"}}]
descriptors:
- key: all
  rate_limit: {{unit: second, requests_per_unit: {LIMIT}, algorithm: token_bucket}}
"""


def prepare():
    pinned(LOAD_CORE)()
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, resource.RLIM_INFINITY))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(stack, kind, seconds):
    """Returns the counts of one run as text, and [(admitted, refused)] per second, and the admitted requests of each
    client."""
    nginx = Nginx(stack, kind, "", "weir on; empty_gif;", rules=RULES)
    out = subprocess.run([frame.BUILD / "clients-load", kind, f"http://127.0.0.1:{nginx.port}/", str(CLIENTS),
                          str(seconds)], check=False, capture_output=True, text=True, preexec_fn=prepare)
    if out.returncode:
        sys.exit(f"bench-clients: {out.stderr}")
    lines = [line.split() for line in out.stdout.splitlines()]
    counts = [(int(line[1]), int(line[2])) for line in lines if line[0] != "client"]
    return out.stdout, counts, [int(line[1]) for line in lines if line[0] == "client"]


def draw(text, kind, title):
    if os.environ.get("WEIR_DRAW"):
        subprocess.run([frame.BUILD / "clients-plot", title, ROOT / "docs" / f"clients-{kind}.svg"], input=text,
                       text=True, check=True)


def measure(figures, stack, kind, seconds, title):
    text, counts, clients = run(stack, kind, seconds)
    admitted, refused = (sum(column) for column in zip(*counts))
    figures.add(f"{kind}_refused", refused / (admitted + refused), "refusals ÷ requests")
    figures.add(f"{kind}_used", admitted / LIMIT / seconds, "admitted ÷ limit")
    figures.add(f"{kind}_slowest", min(clients) / max(1, statistics.median(clients)),
                "admitted requests of the slowest client ÷ of the median client")
    figures.add(f"{kind}_requests", (admitted + refused) / seconds, "requests per second")
    draw(text, kind, title)


def bench_polite(figures, stack, _):
    measure(figures, stack, "polite", POLITE_S, "1,000 polite clients, limit of 100 per second")


def bench_naive(figures, stack, _):
    measure(figures, stack, "naive", NAIVE_S, "1,000 naive clients, limit of 100 per second")


if __name__ == "__main__":
    frame.main(__doc__, {"polite": bench_polite, "naive": bench_naive})
