"""A `weir serve` with a queue. Tests send requests to it with WEIR.DEFER, as nginx does."""

import json
import struct
import subprocess

from . import env, tokens
from .http1 import fetch
from .openapi import check_answer, check_question
from .resp import Error, Resp
from .serve import Serve
from .waiting import wait_for

RULES = """
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: second, requests_per_unit: 100000}
  - key: slow
    rate_limit: {unit: second, requests_per_unit: 5, algorithm: token_bucket, burst: 1}
  - key: daily
    rate_limit: {unit: day, requests_per_unit: 1}
  - key: shut
    rate_limit: {unit: day, requests_per_unit: 0}
"""


def record(key, value, cost=1):
    """Returns one descriptor as weir_ask_record writes it."""
    text = lambda s: struct.pack("<I", len(s)) + s.encode()
    return struct.pack("<BqB", 1, cost, 1) + text(key) + text(value) + text("")


def linked(serve):
    """Returns a RESP connection that has sent the link key."""
    link = Resp(str(serve.folder / "weir.sock"))
    assert link.call("WEIR.LINK", (serve.folder / "link.key").read_text(encoding="ascii").strip()) == "OK"
    return link


class QueueServer:
    """A `weir serve` with a queue, and a connection that sends deferred requests to it."""

    def __init__(self, api, *args, target=None, queue="file:{folder}/queue", **kwargs):
        args = ["--queue", queue, "--queue-target", target or f"http://127.0.0.1:{api.port}", *args]
        self.serve = Serve(rules=RULES, resp="unix:{folder}/weir.sock", admin=True,
                           args=[*args, "--link-key", "{folder}/link.key"], **kwargs)
        self.link = None

    def __enter__(self):
        self.serve.__enter__()
        return self

    def __exit__(self, *what):
        if self.link:
            self.link.close()
        return self.serve.__exit__(*what)

    def connect(self):
        """Connects as a worker of nginx does, with the link key that the service has created."""
        return linked(self.serve)

    def call(self, *words):
        self.link = self.link or self.connect()
        return self.link.call(*words)

    def again(self):
        """Connects again after the service was restarted."""
        if self.link:
            self.link.close()
        self.link = None

    @staticmethod
    def words(uri, key="user", value="7", body=b"one, please", fields=(), method="POST", **more):
        """Returns the words of a WEIR.DEFER command."""
        line = {"max_waiting": 1000, "max_age_s": 3600, "max_tries": 20, "wait_ns": 0, "interval_ns": 0, **more}
        names = ("max_waiting", "max_age_s", "max_tries", "wait_ns", "interval_ns")
        fields = [("host", "shop.example"), *fields]
        return ["WEIR.DEFER", "1", "shop", f"shop/{key}", f"{key}-{value}".ljust(16)[:16], method, uri,
                record(key, value), *(str(line[n]) for n in names), body, *(w for f in fields for w in f)]

    def defer(self, uri, **kwargs):
        """Defers a request. Returns (ticket, position, expected seconds)."""
        reply = self.call(*self.words(uri, **kwargs))
        assert not isinstance(reply, Error), reply
        return reply[0], reply[1], reply[2] / 1e9

    def ticket(self, ticket):
        """Returns the state of a ticket, or None if it is unknown."""
        reply = self.call("WEIR.TICKET", ticket)
        return json.loads(reply) if reply is not None else None

    def wait_ticket(self, ticket, status, seconds=30):
        """Waits until the ticket has this status. Returns its state."""
        def seen():
            reply = self.ticket(ticket)
            return reply if reply["status"] == status else None
        return wait_for(seen, f"a ticket to be {status}", seconds)

    def retry(self):
        """Retries waiting requests now. Dead requests are not retried: they would wait again."""
        assert self.admin("POST", "/v1/queue/retry", {"state": "waiting"})[0] == 200

    def retry_until_ticket(self, ticket, status, seconds=30):
        """Retries waiting requests until the ticket has this status. Returns the ticket's state."""
        def seen():
            reply = self.ticket(ticket)
            return reply if reply["status"] == status else self.retry()
        return wait_for(seen, f"a ticket to be {status}", seconds, every=0.03)

    def admin(self, method, path, body=None):
        """Sends a request to the admin API. Returns (status, JSON)."""
        text = json.dumps(body).encode() if body is not None else b""
        if body is not None:
            check_question(path, body)
        answer = fetch(self.serve.admin_port, method, path, [("Content-Type", "application/json")], text)
        check_answer(method, path, answer)
        return answer.status, json.loads(answer.body)

    def waiting(self):
        """Returns the waiting requests as the admin API lists them."""
        return self.admin("GET", "/v1/queue/requests?state=waiting")[1]["requests"]

    def stats(self):
        return self.admin("GET", "/v1/queue")[1]["queue"]

    def weir(self, *words):
        """Runs `weir queue`. Returns (exit code, stdout, stderr)."""
        done = subprocess.run([env.WEIR, "queue", *words, *tokens.flags(self.serve.admin_port)], text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr
