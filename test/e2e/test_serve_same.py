"""Equal decisions everywhere: one question, asked in turn over gRPC, /json, /v1/check, /check, RESP, the library and
the nginx module, all on one table, has one series of decisions and one counter."""

import json

import grpc
import pytest
import redis

from weirtest import JSON, WRAP, Nginx, fetch, patience
from weirtest.library import Library
from weirtest.protos import Request, Response, request
from weirtest.serve import Serve

ASK = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
LIMIT = 12
RULES = f"""
domain: api
requests:
  - descriptor: [{{key: user, from: header.x-user}}, {{key: plan, from: header.x-plan}}]
descriptors:
  - key: user
    descriptors:
      - key: plan
        value: free
        rate_limit: {{unit: year, requests_per_unit: {LIMIT}}}
      - key: plan
        value: bursts
        rate_limit: {{unit: year, requests_per_unit: {LIMIT}, algorithm: token_bucket}}
      - key: plan
        value: log
        rate_limit: {{unit: year, requests_per_unit: {LIMIT}, algorithm: sliding_window_log}}
      - key: plan
        value: counter
        rate_limit: {{unit: year, requests_per_unit: {LIMIT}, algorithm: sliding_window_counter}}
"""
PLANS = ("free", "bursts", "log", "counter")


# ---- all interfaces; each returns (admitted, remaining) ----

def by_grpc(interfaces, user, plan):
    should = interfaces.channel.unary_unary(ASK, Request.SerializeToString, Response.FromString)
    answer = should(request("api", ("user", user), ("plan", plan)), timeout=patience(20))
    return answer.overall_code == 1, answer.statuses[0].limit_remaining


def question(user, plan):
    return {"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": user},
                                                          {"key": "plan", "value": plan}]}]}


def by_json(interfaces, user, plan):
    answer = fetch(interfaces.serve.http_port, "POST", "/json", JSON, json.dumps(question(user, plan)).encode())
    reported = json.loads(answer.body)
    assert (answer.status == 200) == (reported["overallCode"] == "OK")
    return answer.status == 200, reported["statuses"][0].get("limitRemaining", 0)


def by_check(interfaces, user, plan):
    answer = fetch(interfaces.serve.http_port, "POST", "/v1/check", JSON,
                   json.dumps(question(user, plan)).encode())
    reported = json.loads(answer.body)
    return reported["admitted"], reported["remaining"]


def by_described_request(interfaces, user, plan):
    """Asks about an HTTP request in the body of /v1/check."""
    body = {"domain": "api", "request": {"target": "/", "headers": {"x-user": user, "x-plan": plan}}}
    reported = json.loads(fetch(interfaces.serve.http_port, "POST", "/v1/check", JSON, json.dumps(body).encode()).body)
    return reported["admitted"], reported["remaining"]


def by_forward_auth(interfaces, user, plan):
    answer = fetch(interfaces.serve.http_port, "GET", "/check/api", {
        "X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-User": user, "X-Plan": plan})
    assert answer.status in (200, 429)
    return answer.status == 200, int(answer.get("x-ratelimit-remaining"))


def by_resp(interfaces, user, plan):
    answer = interfaces.redis.execute_command("WEIR.CHECK", "api", "user", user, "plan", plan)
    reported = dict(zip(answer[::2], answer[1::2]))
    return reported[b"verdict"] == b"admit", reported[b"remaining"]


def by_library(interfaces, user, plan):
    return interfaces.library.ask(("user", user), ("plan", plan))


def by_nginx(interfaces, user, plan):
    answer = fetch(interfaces.nginx.port, "GET", "/", {"X-User": user, "X-Plan": plan})
    assert answer.status in (200, 429)
    return answer.status == 200, int(answer.get("x-ratelimit-remaining"))


WAYS = [by_grpc, by_json, by_check, by_described_request, by_forward_auth, by_resp, by_nginx]
if WRAP == "":
    WAYS.append(by_library)  # a Python without AddressSanitizer cannot load a library with it


class Interfaces:
    """All interfaces to one table."""
    pass


@pytest.fixture(scope="module")
def interfaces():
    made = Interfaces()
    with Serve(rules=RULES, grpc=True, http=True, resp=True, admin=True) as serve:
        made.serve = serve
        with Nginx(rules_path=serve.rules, table=f"weir_table default dir={serve.table};",
                   conf_server="location / { weir api; }") as nginx:
            made.nginx = nginx
            made.redis = redis.Redis(port=serve.resp_port)
            if WRAP == "":
                made.library = Library(serve.table, serve.rules)
            with grpc.insecure_channel(f"127.0.0.1:{serve.grpc_port}") as made.channel:
                yield made
            made.redis.connection_pool.disconnect()
            if WRAP == "":
                made.library.close()


@pytest.mark.parametrize("plan", PLANS)
def test_all_interfaces_share_one_counter(interfaces, plan):
    """All interfaces ask in turn: each sees the remaining units of one counter."""
    reported = [WAYS[i % len(WAYS)](interfaces, "turn", plan) for i in range(LIMIT)]
    assert reported == [(True, LIMIT - 1 - i) for i in range(LIMIT)]
    assert [way(interfaces, "turn", plan) for way in WAYS] == [(False, 0)] * len(WAYS)
    assert WAYS[0](interfaces, "another", plan) == (True, LIMIT - 1)


@pytest.mark.parametrize("first", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("second", WAYS, ids=lambda way: way.__name__)
def test_every_pair_of_interfaces_shares_a_counter(interfaces, first, second):
    user = f"{first.__name__}-{second.__name__}"
    assert first(interfaces, user, "free") == (True, LIMIT - 1)
    assert second(interfaces, user, "free") == (True, LIMIT - 2)


def test_operator_orders_apply_to_all_interfaces(interfaces):
    def operate(verb, **more):
        body = {"domain": "api", "entries": [{"key": "user", "value": "op"}, {"key": "plan", "value": "free"}],
                **more}
        answer = fetch(interfaces.serve.admin_port, "POST", f"/v1/key/{verb}",
                       {"Content-Type": "application/json"}, json.dumps(body).encode())
        assert answer.status == 200, answer.body

    operate("ban", **{"for": "1h"})
    assert [way(interfaces, "op", "free")[0] for way in WAYS] == [False] * len(WAYS)
    operate("ban", lift=True)
    operate("grant", extra=5, **{"for": "1h"})
    reported = [WAYS[i % len(WAYS)](interfaces, "op", "free") for i in range(LIMIT + 6)]
    assert [admitted for admitted, _ in reported] == [True] * (LIMIT + 5) + [False]
    operate("reset")
    assert [way(interfaces, "op", "free") for way in WAYS] == [
        (True, LIMIT + 5 - 1 - i) for i in range(len(WAYS))]
