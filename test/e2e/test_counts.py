"""Counts agree exactly with the requests sent through four nginx workers, two services and a program that embeds the
engine, all on one table. Counts stay exact when processes are killed with -9 and restarted."""

import collections
import json
import os
import signal
import subprocess
import sys

import pytest
import redis

from weirtest import ROOT, WEIR, WRAP, Nginx, programs, message, send_pipelined, scaled, wait_for
from weirtest.clock import for_weir
from weirtest.scrape import Metrics
from weirtest.serve import Serve

LIMIT = scaled(400)
RULES = f"""
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}
"""
RULE = "api/user/365d"
CONF = "location / { weir api; }"


@pytest.fixture(autouse=True)
def running(clock):
    """A clock that runs, because statistics need one. No window ends within a test."""
    clock.run()
    return clock


class Embedder:
    """weirtest.library in its own process."""

    def __init__(self, serve):
        self.process = programs.start([sys.executable, "-B", "-m", "weirtest.library", serve.table, serve.rules],
                                    cwd=ROOT / "test/e2e", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    env={**os.environ, "WEIR_BUILD": str(WEIR.parent)})

    def ask(self, user, count):
        self.process.stdin.write(f"{count} user {user}\n".encode())
        self.process.stdin.flush()
        admitted, refused = self.process.stdout.readline().split()
        return {200: int(admitted), 429: int(refused)}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        programs.stop(self.process)


def through_nginx(nginx, user, count):
    """Sends requests of the user through nginx. Returns {status: count}."""
    return send_pipelined(nginx.port, (message("GET", "/", {"X-User": user}) for _ in range(count)), connections=16,
                depth=10)


def through_http(serve, user, count):
    """Sends requests of the user to /check. Returns {status: count}."""
    head = message("GET", "/check/api", {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-User": user})
    return send_pipelined(serve.http_port, (head for _ in range(count)))


def through_resp(serve, user, count):
    """Sends requests of the user over RESP. Returns {200: admitted, 429: refused}."""
    counts = collections.Counter()
    with redis.Redis(port=serve.resp_port) as client:
        pipe = client.pipeline(transaction=False)
        for _ in range(count):
            pipe.execute_command("WEIR.CHECK", "api", "user", user)
        for answer in pipe.execute():
            reported = dict(zip(answer[::2], answer[1::2]))
            counts[200 if reported[b"verdict"] == b"admit" else 429] += 1
    return counts


def counts_of_top(serve):
    """Returns the counts of `weir top`, which reads the table itself."""
    done = subprocess.run([WEIR, "top", "--json", "--dir", serve.table], check=True, capture_output=True,
                          env=for_weir())
    rule = next(r for r in json.loads(done.stdout)["rules"] if r["rule"] == RULE)
    return {200: rule["admitted"], 429: rule["refused"]}


def counts_of_metrics(serve):
    """Returns the counts of /metrics as {200: admitted, 429: refused}."""
    metrics = Metrics(serve.admin_port)
    return {200: metrics.value("weir_decisions_total", rule=RULE, result="admitted"),
            429: metrics.value("weir_decisions_total", rule=RULE, result="refused")}


class Sum:
    """The responses so far, and their expected sums."""

    def __init__(self, clock):
        self.clock = clock
        self.answers = collections.Counter()
        self.users = set()
        self.sent = 0

    def add(self, user, counts, sent):
        assert sum(counts.values()) == sent and set(counts) <= {200, 429}
        self.answers.update(counts)
        self.users.add(user)
        self.sent += sent

    def check(self, *serves):
        """Every interface and the table itself report the same counts."""
        assert sum(self.answers.values()) == self.sent
        wanted = {200: self.answers[200], 429: self.answers[429]}
        for serve in serves:
            assert counts_of_metrics(serve) == wanted
        assert counts_of_top(serves[0]) == wanted


@pytest.mark.seconds(240)
def test_counts_are_exact_across_processes_kills_and_restarts(running):
    """Admissions and refusals of all processes add up exactly, after each of several rounds with kills and
    restarts."""
    total = Sum(running)
    each = scaled(300)
    with Serve(rules=RULES, http=True, admin=True, threads=2) as one, \
            Serve(rules=RULES, resp=True, admin=True, table=one.table, threads=2) as two, \
            Nginx(rules_path=one.rules, table=f"weir_table default dir={one.table};", workers=4,
                  reuseport=True, conf_server=CONF) as nginx:
        embedder = None if WRAP else Embedder(one)

        def round_of(user):
            """All processes ask about one user, who is admitted LIMIT times in total."""
            before = total.answers[200]
            total.add(user, through_nginx(nginx, user, each), each)
            total.add(user, through_http(one, user, each), each)
            total.add(user, through_resp(two, user, each), each)
            if embedder:
                total.add(user, embedder.ask(user, each), each)
            assert total.answers[200] - before == LIMIT
            total.check(one, two)

        try:
            round_of("a")
            workers = nginx.workers()
            assert len(workers) == 4
            for pid in workers[:2]:
                os.kill(pid, signal.SIGKILL)
            nginx.allow += [r"exited on signal 9"]
            wait_for(lambda: len(nginx.workers()) == 4 and not set(workers[:2]) & set(nginx.workers()),
                     "new workers")
            two.kill()
            if embedder:
                embedder.kill()
                embedder.stop()
                embedder = Embedder(one)
            total.check(one)
            two.start()
            round_of("b")
            one.kill()
            one.start()
            nginx.reload()
            round_of("c")
            one.stop()
            one.start()
            total.check(one, two)
        finally:
            if embedder:
                embedder.stop()


@pytest.mark.seconds(120)
def test_counts_after_a_kill_under_load():
    """Some responses are lost: the count is at least the number of responses and at most the number of requests."""
    counted = 0
    with Serve(rules=RULES, http=True, admin=True, threads=2) as serve:
        for turn in range(3):
            process = programs.start([sys.executable, "-B", "-c", f"""
import sys
sys.path.insert(0, {str(ROOT / "test/e2e")!r})
from weirtest import connect, message
stream = connect({serve.http_port})
sent = answered = 0
try:
    while True:
        stream.sendall(message("GET", "/check/api", {{"X-Forwarded-Method": "GET",
                               "X-Forwarded-Uri": "/", "X-User": "{turn}"}}))
        sent += 1
        answered += b"\\r\\n\\r\\n" in stream.recv(65536)
        print(sent, answered, flush=True)
except OSError:
    print(sent, answered, flush=True)
"""], stdout=subprocess.PIPE, text=True)
            for _ in range(200):
                last = process.stdout.readline()
            serve.kill()
            rest = process.stdout.read().split("\n")
            programs.stop(process)
            sent, answered = map(int, ([last] + rest)[-2].split())
            serve.start()
            reported = sum(counts_of_metrics(serve).values())
            assert counted + answered <= reported <= counted + sent
            counted = reported
