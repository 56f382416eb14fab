"""`weir serve` is frozen while nginx waits for it: on_store_failure decides, and Redis executes the takes when the
service continues. Redis must then have counted each request that `local` admitted once, and no other."""

import os
import signal
import time
from pathlib import Path

import pytest
from weirtest import Nginx, full, patience, count_statuses, send_at_once, wait_for
from weirtest.nginx import worker_user
from weirtest.redis import Redis
from weirtest.serve import Serve

pytestmark = full("requests that wait in nginx for a frozen service until a timeout, in real time")

CROWD = 12
QUIET = 1.5  # seconds in which reports (0.2 s) and returns (0.2 s) would have changed a counter

RULES = """
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {{unit: year, requests_per_unit: 100, on_store_failure: {policy}}}
"""

SERVER = """
	location / { weir on; add_header X-Remaining $weir_remaining always; proxy_pass http://api; }
"""

USER = {"X-User": "7"}


def serve_with(redis, rules):
    """A service that runs as the user of nginx's workers: other users may not use its socket."""
    user = ["--user", worker_user()] if os.getuid() == 0 else []
    return Serve(rules=rules, resp="unix:{folder}/weir.sock",
                 args=["--redis", redis.url(), "--redis-timeout", "20s", "--link-key", "{folder}/link.key", *user])


def nginx_with(serve, rules, api):
    os.chmod(serve.folder, 0o755)
    conf = (f"weir_link_key {serve.folder}/link.key;"
            f"weir_central unix:{serve.folder}/weir.sock timeout={max(1000, int(patience(1) * 1000))}ms;")
    return Nginx(rules=rules, conf_http=conf, conf_server=SERVER, api=api)


def freeze(serve):
    """Stops the service with SIGSTOP and waits until it has stopped."""
    serve.signal(signal.SIGSTOP)
    wait_for(lambda: Path(f"/proc/{serve.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T",
             "the service to stand still")


def counted(redis):
    """Returns the value of the only counter after it has not changed for a while."""
    value, since = None, time.monotonic()
    while time.monotonic() - since < QUIET:
        now = [redis.client().get(key) for key in redis.keys("weir:1:{*}:fixed_window/*")]
        if now != value:
            value, since = now, time.monotonic()
        time.sleep(0.02)
    return [int(v) for v in value]


@pytest.mark.parametrize("link", ["kept", "lost"])
@pytest.mark.parametrize("policy, status, counts", [("local", 200, CROWD), ("allow", 200, 0), ("deny", 429, 0)])
def test_frozen_service_counts_each_request_at_most_once(api, policy, status, counts, link):
    """`allow` and `deny` count nothing without Redis. nginx closes a link without a reply for two seconds more than the
    timeout."""
    rules = RULES.format(policy=policy)
    with Redis() as redis, serve_with(redis, rules) as serve, nginx_with(serve, rules, api) as nginx:
        nginx.wait_logged('"weir_central" is (up|back)')
        assert nginx.get("/", USER).get("X-Remaining") == "99"
        freeze(serve)
        try:
            results = send_at_once(nginx.port, [("GET", "/", USER)] * CROWD)
            if link == "lost":
                nginx.wait_logged("lost: no reply")
        finally:
            serve.signal(signal.SIGCONT)
        assert count_statuses(results) == {status: CROWD}
        if link == "lost":
            nginx.wait_logged('"weir_central" is back')
        assert counted(redis) == [1 + counts]
        assert nginx.get("/", USER).get("X-Remaining") == str(98 - counts)
