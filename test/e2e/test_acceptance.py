"""The worked examples about HTTP with their numbers: 12, 15, 18, 23 and 25.

The wall clock is that of the test. It stands still unless the test moves it, so counts and waits are exact numbers."""

import collections
import math

import pytest
from weirtest import Nginx, ROOT, fetch, message, send_pipelined, scaled, count_statuses, send_at_once, wait_for

EXAMPLES = ROOT / "examples/rules"
DAY, WEEK = 86400, 604800
TICK = 0.000001  # the smallest step of the test's clock


# ---- 12: users, addresses, devices ----

@pytest.fixture
def social(clock, api):
    """An nginx with the rules of examples/rules/12-users-addresses-devices.yaml."""
    del clock  # in use before nginx starts
    rules = (EXAMPLES / "12-users-addresses-devices.yaml").read_text(encoding="utf-8")
    with Nginx(rules=rules, conf_server="location / { weir on; proxy_pass http://api; }", api=api) as server:
        yield server


def test_12_two_posts_a_second_per_user(social, clock):
    """Three at once: two are admitted. A token is refilled after half a second, and not earlier."""
    user = {"X-User-Id": "poster"}

    def post():
        return social.request("POST", "/v1/posts", user, b"hi").status
    results = send_at_once(social.port, [("POST", "/v1/posts", user, b"hi")] * 3)
    assert count_statuses(results) == {200: 2, 429: 1}
    refused = next(s.response for s in results if s.status == 429)
    assert refused.get("Retry-After") == "1"  # half a second, rounded up
    assert social.request("POST", "/v1/posts", {"X-User-Id": "other"}, b"hi").status == 200
    clock.advance(0.5 - TICK)
    assert post() == 429
    clock.advance(TICK)
    assert [post(), post()] == [200, 429]


def test_12_ten_accounts_a_day_per_address(social, clock):
    """The limit is a window of one day: ten until midnight UTC, and ten more from then on."""
    def create(count, source="127.0.0.3"):
        return [fetch(social.port, "POST", "/v1/accounts", body=b"{}", source=source) for _ in range(count)]
    midnight = DAY - clock.now() % DAY
    answers = create(12)
    assert [r.status for r in answers] == [200] * 10 + [429] * 2
    assert answers[-1].get("Retry-After") == str(int(midnight))
    assert create(1, "127.0.0.4")[0].status == 200
    clock.advance(midnight - TICK)
    assert create(1)[0].status == 429
    clock.advance(TICK)
    assert [r.status for r in create(11)] == [200] * 10 + [429]


def test_12_five_rewards_a_week_per_device(social, clock):
    """The limit is a window of one week. Weeks are counted from 1970-01-01, a Thursday."""
    def claim(count):
        return [social.request("POST", f"/v1/rewards/{n}", {"X-Device-Id": "d1"}) for n in range(count)]
    edge = WEEK - clock.now() % WEEK
    claims = claim(7)
    assert [r.status for r in claims] == [200] * 5 + [429] * 2
    assert claims[-1].get("Retry-After") == str(int(edge))
    assert social.request("POST", "/v1/rewards/1", {"X-Device-Id": "d2"}).status == 200
    assert social.request("POST", "/v1/rewards/1").status == 403  # a request without a device gets no reward
    clock.advance(edge - TICK)
    assert claim(1)[0].status == 429
    clock.advance(TICK)
    assert [r.status for r in claim(6)] == [200] * 5 + [429]


# ---- 15: one bucket for the whole system ----

def test_15_one_bucket_for_all(clock):
    """10,000 a second for all users together. Twice that at one moment, from different users on connections of four
    workers: exactly 10,000 are admitted. A tenth of a second later the bucket has a tenth of that again."""
    rate = scaled(10000)
    rules = (EXAMPLES / "15-one-bucket-for-all.yaml").read_text(encoding="utf-8")
    rules = rules.replace("10000", str(rate))
    with Nginx(rules=rules, workers=4, reuseport=True, conf_server="keepalive_requests 100000;"
               "location / { weir on; empty_gif; }") as nginx:
        heads = [message("GET", "/", {"X-User": str(i)}) for i in range(2 * rate)]
        assert send_pipelined(nginx.port, heads, connections=16) == {200: rate, 429: rate}
        clock.advance(0.1)
        assert send_pipelined(nginx.port, heads[:rate], connections=16) == {200: rate // 10, 429: rate - rate // 10}


# ---- 18: 1,001 at once ----

def test_18_one_of_1001_requests_is_refused(clock, api):
    """1,001 requests at once, each on its own connection, over four workers, with a limit of 1,000 per 60 s: one is
    refused."""
    limit = scaled(1000)
    rules = f"""
domain: api
requests:
  - descriptor: [{{key: all, value: together}}]
descriptors:
  - key: all
    rate_limit: {{period: 60s, requests_per_unit: {limit}, algorithm: sliding_window_log}}
"""
    server = """location / { weir on; add_header X-Worker $pid always; proxy_pass http://api; }
	location /warm { add_header X-Worker $pid always; alias {prefix}/html/index.html; }"""
    with Nginx(rules=rules, workers=4, reuseport=True, conf_server=server, api=api) as nginx:
        all_workers_answer(nginx)
        results = send_at_once(nginx.port, [f"/r/{i}" for i in range(limit + 1)])
        assert count_statuses(results) == {200: limit, 429: 1}
        assert api.count("/r/") == limit
        assert len({r.target for r in api.records()}) == limit
        assert len({s.response.get("X-Worker") for s in results}) == 4
        left = sorted(int(s.response.get("X-Ratelimit-Remaining")) for s in results
                      if s.status == 200)
        assert left == list(range(limit)), "each admitted request has another remaining number"
        clock.advance(60 - TICK)
        assert nginx.get("/late").status == 429
        clock.advance(TICK)
        assert nginx.get("/late").get("X-Ratelimit-Remaining") == str(limit - 1)


def all_workers_answer(nginx):
    """Waits until every worker has answered a request: from then on all of them accept connections."""
    seen = set()

    def asked():
        seen.add(nginx.get("/warm").get("X-Worker"))
        return len(seen) == 4
    wait_for(asked, "an answer of each worker", every=0)


# ---- 23: Retry-After suffices ----

# Two requests each. The tests begin 1.25 s after the start of a window. name: (limit, seconds until the next request
# is admitted)
BEGIN_S = 1.25
ALGORITHMS = {
    "fixed_window": ("{period: 3s, requests_per_unit: 2, algorithm: fixed_window}", 1.75),
    "sliding_window_log": ("{period: 3s, requests_per_unit: 2, algorithm: sliding_window_log}", 3),
    # As soon as the next window has begun, the two of this one weigh less than 2.
    "sliding_window_counter": ("{period: 3s, requests_per_unit: 2, algorithm: sliding_window_counter}", 1.75),
    "token_bucket": ("{period: 6s, requests_per_unit: 2, algorithm: token_bucket}", 3),
    "leaky_bucket": ("{period: 6s, requests_per_unit: 2, algorithm: leaky_bucket, queue_size: 0}", 3),
}


def algorithm_rules(limits):
    """Returns rules with one limit for each path /NAME; `limits` is {name: limit}."""
    text = "domain: api\nrequests:\n"
    for name in limits:
        text += (f"  - when: {{path: /{name}}}\n"
                 f"    descriptor: [{{key: {name}, from: header.x-user}}]\n")
    text += "descriptors:\n"
    for name, limit in limits.items():
        text += f"  - key: {name}\n    rate_limit: {limit}\n"
    return text


@pytest.mark.parametrize("name", ALGORITHMS)
def test_23_client_that_waits_for_retry_after_is_admitted(clock, api, name):
    """Remaining counts down. Retry-After is the wait, rounded up: a client that waits this long is admitted. The wait
    itself is exact: a microsecond earlier the client is refused."""
    limit, wait = ALGORITHMS[name]
    clock.advance(BEGIN_S)
    with Nginx(rules=algorithm_rules({name: limit}), api=api,
               conf_server="location / { weir on; proxy_pass http://api; }") as nginx, nginx.client() as client:
        def ask():
            return client.get(f"/{name}", {"X-User": "a"})
        seen = []
        while not seen or seen[-1].status == 200:
            seen.append(ask())
        admitted = 1 if name == "leaky_bucket" else 2  # a leaky bucket without a queue has one position
        assert [r.status for r in seen] == [200] * admitted + [429]
        assert [r.get("X-Ratelimit-Limit") for r in seen] == [str(admitted)] * len(seen)
        assert [r.get("X-Ratelimit-Remaining") for r in seen] == [str(n) for n in (*range(admitted)[::-1], 0)]
        reported = seen[-1].get("Retry-After")
        assert reported == seen[-1].get("X-Ratelimit-Retry-After") == str(math.ceil(wait))
        clock.advance(wait - TICK)
        refused = ask()
        assert (refused.status, refused.get("Retry-After")) == (429, "1")
        clock.advance(TICK)
        assert ask().status == 200


# ---- 25: twice the limit for ten windows ----

PERIOD = 0.5  # seconds
WINDOWS = 10
LIMIT = max(scaled(20), 5)
STREAM = {
    "fixed": "fixed_window",
    "log": "sliding_window_log",
    "counter": "sliding_window_counter",
    "token": "token_bucket, burst: 4",
}


def stream(nginx, clock):
    """Sends each algorithm twice its limit, evenly, for ten windows and three to settle. Returns {name: the seconds
    since the start at which a request was admitted}."""
    gap = PERIOD / (2 * LIMIT)
    start, admitted = clock.now(), collections.defaultdict(list)
    with nginx.client() as c:
        for i in range((WINDOWS + 3) * 2 * LIMIT):
            clock.set(start + i * gap)
            for name in STREAM:  # pipelined: one write, one wait
                c.send("GET", f"/{name}", {"X-User": "stream"})
            for name in STREAM:
                if c.read().status == 200:
                    admitted[name].append(i * gap)
    return admitted


def windows(times, origin):
    """Returns how many of `times` fall into each of ten windows from `origin` on."""
    edges = [origin + k * PERIOD - TICK for k in range(WINDOWS + 1)]
    return [sum(1 for t in times if low <= t < high) for low, high in zip(edges, edges[1:])]


def test_25_ten_windows_at_twice_the_limit(clock, api):
    """Within 1 of the limit in each of ten windows. Windows of fixed size and of the log begin with the first request,
    which comes at the edge of a window, and are exact. The two that admit evenly are counted from where their first
    burst is over."""
    limits = {name: f"{{period: {int(PERIOD * 1000)}ms, requests_per_unit: {LIMIT}, algorithm: {how}}}"
              for name, how in STREAM.items()}
    server = "keepalive_requests 100000; location / { weir on; proxy_pass http://api; }"
    with Nginx(rules=algorithm_rules(limits), conf_server=server, api=api) as nginx:
        admitted = stream(nginx, clock)
    for name, times in admitted.items():
        assert api.count(f"/{name}") == len(times)
    assert windows(admitted["fixed"], 0) == [LIMIT] * WINDOWS
    assert windows(admitted["log"], 0) == [LIMIT] * WINDOWS
    assert windows(admitted["token"], 2 * PERIOD) == [LIMIT] * WINDOWS
    counter = windows(admitted["counter"], 2 * PERIOD)
    assert max(abs(count - LIMIT) for count in counter) <= 1, counter
