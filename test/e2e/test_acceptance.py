"""The worked examples that are about HTTP, with their numbers: 12, 15, 18, 23 and 25."""

import collections
import math
import threading
import time

import pytest
from weirtest import (Client, Nginx, ROOT, fetch, message, pour, scaled, tally, until_next, volley,
                      wait_for)

EXAMPLES = ROOT / "examples/rules"
DAY, WEEK = 86400, 604800


# ---- 12: users, addresses, devices ----

@pytest.fixture(scope="module")
def social(_api):
    rules = (EXAMPLES / "12-users-addresses-devices.yaml").read_text(encoding="utf-8")
    with Nginx(rules=rules, conf_server="location / { weir on; proxy_pass http://api; }",
               api=_api) as server:
        yield server


def test_12_two_posts_a_second_per_user(social):
    """Three at once are two and one. A token comes back each half second, so a volley that took
    longer (a busy machine) proves nothing and is tried again with another user."""
    for attempt in range(20):
        user = {"X-User-Id": f"poster-{attempt}"}
        shots = volley(social.port, [("POST", "/v1/posts", user, b"hi")] * 3)
        took = max(s.done_ns for s in shots) - min(s.sent_ns for s in shots)
        if took < 0.5e9:
            break
    assert took < 0.5e9, "the machine was too slow twenty times"
    assert tally(shots) == {200: 2, 429: 1}
    refused = next(s.response for s in shots if s.status == 429)
    assert refused.get("Retry-After") == "1"  # half a second, rounded up
    other = social.request("POST", "/v1/posts", {"X-User-Id": f"other-{attempt}"}, b"hi")
    assert other.status == 200


def test_12_ten_accounts_a_day_per_address(social):
    until_next(DAY, 20)  # the limit is a window: all of this has to fall into one day
    statuses = [fetch(social.port, "POST", "/v1/accounts", body=b"{}", source="127.0.0.3").status
                for _ in range(12)]
    assert statuses == [200] * 10 + [429] * 2
    assert fetch(social.port, "POST", "/v1/accounts", source="127.0.0.4").status == 200


def test_12_five_rewards_a_week_per_device(social):
    until_next(WEEK, 20)
    claims = [fetch(social.port, "POST", f"/v1/rewards/{n}", {"X-Device-Id": "d1"}).status
              for n in range(7)]
    assert claims == [200] * 5 + [429] * 2
    assert social.request("POST", "/v1/rewards/1", {"X-Device-Id": "d2"}).status == 200
    assert social.request("POST", "/v1/rewards/1").status == 403  # no device, no reward


# ---- 15: one bucket for the whole system ----

def test_15_one_bucket_for_all():
    """10,000 a second for everybody together: twice that as fast as it goes, from different users on
    connections of four workers. The bucket is empty after 10,000 and fills at 10,000 a second."""
    rate = scaled(10000)
    rules = (EXAMPLES / "15-one-bucket-for-all.yaml").read_text(encoding="utf-8")
    rules = rules.replace("10000", str(rate))
    with Nginx(rules=rules, workers=4, reuseport=True, conf_server="keepalive_requests 100000;"
               "location / { weir on; empty_gif; }") as nginx:
        heads = [message("GET", "/", {"X-User": str(i)}) for i in range(2 * rate)]
        start = time.monotonic()
        counts = pour(nginx.port, heads, connections=16)
        took = time.monotonic() - start
        assert set(counts) <= {200, 429}
        assert sum(counts.values()) == 2 * rate
        assert min(rate, 2 * rate) <= counts[200] <= rate + math.ceil(rate * took)


# ---- 18: 1,001 at once ----

def test_18_one_too_many(api):
    """1,001 at once, a connection each, over four workers, against 1,000 per 60 s."""
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
        start = time.monotonic()
        shots = volley(nginx.port, [f"/r/{i}" for i in range(limit + 1)])
        assert time.monotonic() - start < 60, "longer than the window: nothing can be said"
        assert tally(shots) == {200: limit, 429: 1}
        assert api.count("/r/") == limit
        assert len({r.target for r in api.records()}) == limit
        assert len({s.response.get("X-Worker") for s in shots}) == 4
        left = sorted(int(s.response.get("X-Ratelimit-Remaining")) for s in shots
                      if s.status == 200)
        assert left == list(range(limit)), "each admitted request was told another number"


def all_workers_answer(nginx):
    """Until every worker has answered something: from then on all of them take connections."""
    seen = set()

    def asked():
        seen.add(nginx.get("/warm").get("X-Worker"))
        return len(seen) == 4
    wait_for(asked, "an answer of each worker", every=0)


# ---- 23: waiting as told ----

ALGORITHMS = {
    "fixed_window": "{period: 3s, requests_per_unit: 2, algorithm: fixed_window}",
    "sliding_window_log": "{period: 3s, requests_per_unit: 2, algorithm: sliding_window_log}",
    "sliding_window_counter": "{period: 3s, requests_per_unit: 2, algorithm: sliding_window_counter}",
    "token_bucket": "{period: 6s, requests_per_unit: 2, algorithm: token_bucket}",
    "leaky_bucket": "{period: 6s, requests_per_unit: 2, algorithm: leaky_bucket, queue_size: 0}",
}


def algorithm_rules(limits):
    text = "domain: api\nrequests:\n"
    for name in limits:
        text += (f"  - when: {{path: /{name}}}\n"
                 f"    descriptor: [{{key: {name}, from: header.x-user}}]\n")
    text += "descriptors:\n"
    for name, limit in limits.items():
        text += f"  - key: {name}\n    rate_limit: {limit}\n"
    return text


@pytest.fixture(scope="module")
def each_algorithm(_api):
    with Nginx(rules=algorithm_rules(ALGORITHMS), api=_api,
               conf_server="location / { weir on; proxy_pass http://api; }") as server:
        yield server


TRIES = 12
SLACK = 0.005  # nginx's clock may be slewed against ours


class Waiter(threading.Thread):
    """A client of one algorithm that is refused, waits a second less than told, then as told.

    What it was told is rounded up, so `real`, the moment from which on it would be admitted, lies
    anywhere in the second before. It is counted from the decision, which was made between sending and
    reading. An early try says something only if its answer was there before `real` for sure; else it is
    tried again with another user, and with more time to spare."""

    def __init__(self, port, name):
        super().__init__(daemon=True)
        self.port, self.name_, self.early, self.late, self.problem = port, name, None, None, None

    def run(self):
        for attempt in range(TRIES):
            try:
                if self.once({"X-User": f"waiter-{attempt}"}, 0.3 + 0.05 * attempt):
                    return
            except Exception as e:  # pylint: disable=broad-except  # told by the test
                self.problem = repr(e)
                return
        self.problem = f"the machine was too slow {TRIES} times"

    def once(self, user, spare):
        target = f"/{self.name_}"
        with Client(self.port) as c:
            status = 200
            while status == 200:
                sent = time.monotonic()
                r = c.get(target, user)
                status = r.status
            got = time.monotonic()
            told = int(r.get("Retry-After"))
            assert r.get("X-Ratelimit-Retry-After") == str(told) and told >= 1
            if told == 1:  # a second less is now, and now it was refused
                self.early = r
            else:
                sleep_until(sent + told - 1 - spare)  # it is refused until `told - 1` at least
                self.early = c.get(target, user)
                if time.monotonic() > sent + told - 1 - SLACK:
                    return False
            sleep_until(got + told + SLACK)
            self.late = c.get(target, user)
        return True


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.monotonic()))


@pytest.mark.seconds(120)
def test_23_waiting_as_told(each_algorithm):
    """Real time has to pass: three seconds or so, for all algorithms at once."""
    waiters = [Waiter(each_algorithm.port, name) for name in ALGORITHMS]
    for w in waiters:
        w.start()
    for w in waiters:
        w.join()
    for w in waiters:
        assert w.problem is None, (w.name_, w.problem)
        assert w.early.status == 429, w.name_
        assert w.late.status == 200, w.name_


def test_23_remaining_counts_down(each_algorithm):
    """Admitted: the limit, and what is left, counting down. Two in three seconds, and three to wait; tried
    again if the machine took one of them."""
    for name in ("sliding_window_log", "token_bucket"):
        for attempt in range(20):
            start = time.monotonic()
            with each_algorithm.client() as c:
                seen = [c.get(f"/{name}", {"X-User": f"down-{attempt}"}) for _ in range(3)]
            if time.monotonic() - start < 1:
                break
        else:
            raise AssertionError("the machine was too slow twenty times")
        assert [r.status for r in seen] == [200, 200, 429], name
        assert [r.get("X-Ratelimit-Limit") for r in seen] == ["2"] * 3
        assert [r.get("X-Ratelimit-Remaining") for r in seen] == ["1", "0", "0"]
        assert seen[2].get("Retry-After") == "3"


# ---- 25: twice the limit for ten windows ----

# Seconds. A machine that does not keep the pace of a window gets a longer one, which forgives it more.
PERIODS = [0.5] * 4 + [1] * 4 + [2] * 4 + [4] * 4 + [8] * 4
WINDOWS = 10
LIMIT = max(scaled(20), 6)
STREAM = {
    "fixed": "fixed_window",
    "log": "sliding_window_log",
    "counter": "sliding_window_counter",
    "token": "token_bucket, burst: 4",
}


def stream(nginx, period):
    """Sends each algorithm twice its limit, evenly, for ten windows and three to settle. Returns by how
    much the worst request was late, in seconds, or None when that was so much that nothing can be said
    about the limiter. Late is counted until its answer is here: whoever was held up, we or nginx, it was
    decided before that."""
    gap = period / (2 * LIMIT)
    worst = 0.0
    with nginx.client() as c:
        start = time.monotonic()
        for i in range(int((WINDOWS + 3) * 2 * LIMIT)):
            sleep_until(start + i * gap)
            for name in STREAM:  # pipelined: one write, one wait
                c.send("GET", f"/{name}", {"X-User": "stream"})
            for _ in STREAM:
                c.read()
            worst = max(worst, time.monotonic() - start - i * gap)
            if worst > 0.15 * period:
                return None
    return worst


@pytest.mark.seconds(500)
def test_25_ten_windows_at_twice_the_limit(api):
    """Counted at the API, by the time nginx forwarded each request ($msec), for arrival there is
    later by whatever the machine was doing. Ten windows of half a second or more have to pass for real."""
    server = """keepalive_requests 100000;
	location / { weir on; proxy_set_header X-Forwarded $msec; proxy_pass http://api; }"""
    for period in PERIODS:
        limits = {name: f"{{period: {int(period * 1000)}ms, requests_per_unit: {LIMIT}, algorithm: {how}}}"
                  for name, how in STREAM.items()}
        with Nginx(rules=algorithm_rules(limits), conf_server=server, api=api) as nginx:
            api.reset()
            late = stream(nginx, period)
        if late is not None:
            break
    else:
        raise AssertionError(f"the machine did not keep the pace {len(PERIODS)} times")
    when = collections.defaultdict(list)
    for record in api.records():
        when[record.target.strip("/")].append(float(record.get("X-Forwarded")))
    for name in STREAM:
        check_windows(name, when[name], period, late)


def check_windows(name, times, period, late):
    """Within 1 of the limit in each of ten windows. Windows of fixed size lie on multiples of the period; the log's begin with its first request. At
    twice the limit both admit during the first half of a window and then nothing: edges are cut in
    the idle half, so that a millisecond of delay does not move a request into the next window. The
    smooth ones are counted from where their first burst is over. What the client sent behind an edge
    instead of before it, because it was late, may be missing from a window: `moved`."""
    first = times[0]
    moved = 0 if name == "fixed" else int(late * 2 * LIMIT / period)
    if name == "fixed":
        origin = math.ceil(first / period) * period + period - period / 5
    elif name == "log":
        origin = first + period - period / 5
    else:
        origin = first + 2 * period
    counts = [sum(1 for t in times if origin + k * period <= t < origin + (k + 1) * period)
              for k in range(WINDOWS)]
    assert max(abs(c - LIMIT) for c in counts) <= 1 + moved, (name, LIMIT, late, counts)
    if name in ("fixed", "token"):  # the others begin a window with a request, so a little later each time
        assert abs(sum(counts) - WINDOWS * LIMIT) <= 1 + moved, (name, LIMIT, late, counts)
