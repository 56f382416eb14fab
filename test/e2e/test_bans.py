"""Automatic bans through the gateway: the refusal that bans, the text, the end, and other processes."""

import json
import subprocess

from weirtest import WEIR, Nginx, fetch, free_port, needs, patience
from weirtest.clock import for_weir
from weirtest.gateway import Gateway
from weirtest.serve import Serve

# Three refusals within a minute ban an address for ten minutes.
RULES = """
domain: api
requests:
  - descriptor: [{key: client, from: remote_address}]
descriptors:
  - key: client
    rate_limit: {unit: second, requests_per_unit: 1, ban: {after: 3, within: 1m, for: 10m, grow: 2}}
"""
BANNED = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"


def refuse_three(gateway):
    """Sends the admitted request and the three refused requests that lead to a ban."""
    assert [gateway.get("/").status for _ in range(4)] == [200, 429, 429, 429]


def problem(response):
    return json.loads(response.body)


def test_third_refusal_bans(api, clock):
    """The clock stands 1 ns after 12:00:30. The end of a ban is rounded up to a second, so the ban takes 601 s."""
    with Gateway(api.port, rules=RULES) as gateway:
        refuse_three(gateway)
        refused = gateway.get("/")
        assert refused.status == 429
        assert refused.get("retry-after") == "601"
        body = problem(refused)
        assert body["type"] == BANNED
        until = body["banned-until"]
        assert until.endswith("T12:10:31Z")
        assert body["detail"] == f"This client is banned until {until}. Try again in 601 s."
        text = gateway.get("/", {"Accept": "text/plain"}).body.decode()
        assert text == f"This client is banned until {until}. Try again in 601 s. Limit: client/1s.\n"
        html = gateway.get("/", {"Accept": "text/html"}).body.decode()
        assert f"This client is banned until {until}." in html
        clock.advance(600)
        gateway.get("/")
        refused = gateway.get("/")
        assert (refused.status, refused.get("retry-after")) == (429, "1")
        clock.advance(1)
        gateway.get("/")  # nginx reads the clock between two requests
        clock.advance(1)
        gateway.get("/")
        clock.advance(1)
        assert gateway.get("/").status == 200


def test_an_ordinary_refusal_is_no_ban(api, clock):
    del clock
    with Gateway(api.port, rules=RULES) as gateway:
        assert [gateway.get("/").status for _ in range(3)] == [200, 429, 429]
        body = problem(gateway.get("/"))  # the refusal that starts the ban
        assert "banned-until" not in body
        assert body["type"] != BANNED


def test_dry_run_starts_bans_in_shadow_mode_only(api, clock):
    """A trial of rules must not cut clients off afterwards, nor by weir shield."""
    with Gateway(api.port, "--dry-run", rules=RULES) as gateway:
        assert [gateway.get("/").status for _ in range(8)] == [200] * 8
        listed = json.loads(subprocess.run([WEIR, "ban", "list", "--json", "--admin", f"unix:/run/weir/weirtest-{gateway.port}.admin"], check=True,
                                           capture_output=True, timeout=patience(60)).stdout)
        assert [(b["rule"], b["shadow"]) for b in listed["bans"]] == [("api/client/1s", True)]


def test_new_workers_and_a_restart_keep_the_ban(api, clock):
    with Gateway(api.port, rules=RULES) as gateway:
        refuse_three(gateway)
        gateway.renew_workers()
        assert problem(gateway.get("/"))["type"] == BANNED
        clock.advance(60)
        gateway.get("/")
        assert gateway.get("/").get("retry-after") == "541"


def test_the_second_ban_is_twice_as_long(api, clock):
    with Gateway(api.port, rules=RULES) as gateway:
        refuse_three(gateway)
        clock.advance(700)
        gateway.get("/")
        clock.advance(10)
        gateway.get("/")
        clock.advance(10)
        refuse_three(gateway)
        assert gateway.get("/").get("retry-after") == "1201"


def check(serve):
    body = {"domain": "api", "descriptors": [{"entries": [{"key": "client", "value": "192.0.2.1"}]}]}
    answer = fetch(serve.http_port, "POST", "/v1/check", {"Content-Type": "application/json"}, json.dumps(body).encode())
    return json.loads(answer.body)


def test_a_second_process_sees_the_ban(clock):
    del clock
    with Serve(RULES, http=True) as first, Serve(RULES, http=True, table=first.table) as second:
        assert [check(first)["admitted"] for _ in range(4)] == [True, False, False, False]
        answer = check(second)
        assert answer["retry_after"] == 601
        assert answer["banned_until"].endswith("T12:10:31.000Z")


@needs("ipv6")
def test_ipv4_client_of_a_socket_for_both_families(api, clock):
    """nginx writes the address of such a client as ::ffff:127.0.0.1. The list of bans has the IPv4 address."""
    del clock
    rules = RULES.replace("grow: 2", "shield: true")
    both = free_port()
    with Nginx(rules=rules, conf_server="location / { weir on; proxy_pass http://api; }", api=api,
               listen=[f"[::]:{both} ipv6only=off"]) as nginx:
        assert [fetch(both).status for _ in range(5)] == [200, 429, 429, 429, 429]
        shown = subprocess.run([WEIR, "shield", "list", "--json", "--table", "test", "--dir", nginx.prefix / "table"],
                               capture_output=True, text=True, check=True, timeout=patience(30), env=for_weir())
        assert [ban["address"] for ban in json.loads(shown.stdout)["bans"]] == ["127.0.0.1"]
