"""Reservations over HTTP: reserve, commit, cancel, acquire and release, across processes and restarts."""

import json
import signal
import threading

import pytest

from weirtest import JSON, fetch, scaled, wait_for
from weirtest.resp import Resp
from weirtest.openapi import check_answer, check_question
from weirtest.serve import Serve

RULES = """
domain: api
requests:
  - descriptor: [{key: tenant, from: header.x-tenant}]
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 10000}
  - key: refunds
    rate_limit: {unit: hour, requests_per_unit: 1000, on_expiry: refund}
  - key: job
    rate_limits:
      - {unit: hour, requests_per_unit: 1000}
      - {concurrent: 20, max_hold: 2m, name: in-flight}
"""


def post(port, target, body):
    """Sends a body and checks the response against docs/openapi.yaml."""
    response = fetch(port, "POST", target, tuple(JSON.items()), json.dumps(body).encode())
    check_answer("POST", target, response)
    return response


def call(port, target, **body):
    check_question(target, body)
    response = post(port, target, body)
    assert response.status == 200, response.body
    return json.loads(response.body)


def descriptors(key, value):
    return {"domain": "api", "descriptors": [{"entries": [{"key": key, "value": value}]}]}


def reserve(port, key, value, hits=1, target="/v1/reserve", **more):
    return call(port, target, **descriptors(key, value), hits=hits, **more)


def remaining(port, key, value):
    return call(port, "/v1/check", **descriptors(key, value), hits=0)["remaining"]


@pytest.fixture
def serve(clock):
    with Serve(rules=RULES, http=True) as running:
        yield running


def test_a_commit_gives_the_rest_back_and_acts_once(serve):
    port = serve.http_port
    made = reserve(port, "tenant", "a", 600)
    assert made["admitted"] and made["remaining"] == 9400 and made["expires_after"] == 60
    assert call(port, "/v1/commit", reservation=made["reservation"], actual=500) == \
        {"status": "committed", "refunded": 100, "charged": 0}
    assert call(port, "/v1/commit", reservation=made["reservation"], actual=500) == \
        {"status": "already", "refunded": 0, "charged": 0}
    assert call(port, "/v1/cancel", reservation=made["reservation"])["status"] == "already"
    assert remaining(port, "tenant", "a") == 9500


def test_the_excess_is_debt(serve, clock):
    port = serve.http_port
    made = reserve(port, "tenant", "debt", 100)
    assert call(port, "/v1/commit", reservation=made["reservation"], actual=10500) == \
        {"status": "committed", "refunded": 0, "charged": 10400}
    refused = post(port, "/v1/reserve", {**descriptors("tenant", "debt"), "hits": 1})
    assert refused.status == 429
    assert json.loads(refused.body)["admitted"] is False and json.loads(refused.body)["remaining"] == 0
    assert refused.get("retry-after") == "30" and refused.get("x-ratelimit-remaining") == "0"
    clock.advance(30)
    assert remaining(port, "tenant", "debt") == 10000


def test_cancel_gives_all_back(serve):
    port = serve.http_port
    made = reserve(port, "tenant", "c", 10000)
    assert call(port, "/v1/cancel", reservation=made["reservation"]) == \
        {"status": "cancelled", "refunded": 10000, "charged": 0}
    assert remaining(port, "tenant", "c") == 10000


def test_a_request_can_be_reserved(serve):
    port = serve.http_port
    made = call(port, "/v1/reserve", domain="api", hits=40, ttl=7,
                request={"target": "/x", "headers": {"x-tenant": "http"}})
    assert made["remaining"] == 9960 and made["expires_after"] == 7
    assert call(port, "/v1/commit", reservation=made["reservation"], actual=0)["refunded"] == 40


def test_expired_reservations_stay_charged(serve, clock):
    port = serve.http_port
    late, over = (reserve(port, "tenant", "x", 600, ttl=5)["reservation"] for _ in range(2))
    clock.advance(5)
    assert call(port, "/v1/commit", reservation=late, actual=100) == {"status": "expired", "refunded": 0, "charged": 0}
    assert remaining(port, "tenant", "x") == 8800
    assert call(port, "/v1/commit", reservation=over, actual=700) == {"status": "expired", "refunded": 0, "charged": 100}
    assert call(port, "/v1/commit", reservation=over, actual=700)["status"] == "already"
    assert remaining(port, "tenant", "x") == 8700


def test_on_expiry_refund_gives_back_by_itself(serve, clock):
    port = serve.http_port
    lost, kept, late = (reserve(port, "refunds", "r", 300, ttl=5)["reservation"] for _ in range(3))
    assert call(port, "/v1/commit", reservation=kept, actual=250)["refunded"] == 50
    clock.advance(5)
    wait_for(lambda: remaining(port, "refunds", "r") == 750, "the two open reservations to be given back")
    assert call(port, "/v1/cancel", reservation=lost) == {"status": "expired", "refunded": 0, "charged": 0}
    assert call(port, "/v1/commit", reservation=late, actual=10) == {"status": "expired", "refunded": 0, "charged": 10}
    assert remaining(port, "refunds", "r") == 740


def test_unknown_reservations_are_plain_charges(serve):
    port = serve.http_port
    token = reserve(port, "tenant", "u", 600)["reservation"]
    forged = token[:-1] + ("A" if token[-1] != "A" else "B")
    for unknown in (forged, token[:-4], "nonsense", "%", "A" * 2048):
        assert call(port, "/v1/commit", reservation=unknown, actual=5) == \
            {"status": "unknown", "refunded": 0, "charged": 0}
    assert remaining(port, "tenant", "u") == 9400
    assert call(port, "/v1/commit", reservation=forged, actual=9500, **descriptors("tenant", "u")) == \
        {"status": "unknown", "refunded": 0, "charged": 9500}
    assert remaining(port, "tenant", "u") == 0
    with Serve(rules=RULES, http=True) as other:
        assert call(other.http_port, "/v1/commit", reservation=token, actual=5)["status"] == "unknown"


def load(serve, rules, generation):
    serve.rules.write_text(rules, encoding="utf-8")
    serve.signal(signal.SIGHUP)
    serve.wait_logged(f"rules loaded: generation {generation}")


def test_a_commit_says_that_its_limit_is_gone(clock):
    """The cost is then charged to the limits that the descriptors have now, as for an unknown reservation."""
    with Serve(rules=RULES, http=True, resp=True) as serve, Resp(serve.resp_port) as client:
        port = serve.http_port
        http, resp, body, cancelled, last = (reserve(port, "tenant", "gone", 600)["reservation"] for _ in range(5))
        load(serve, RULES.replace("{unit: minute, requests_per_unit: 10000}", "{unit: hour, requests_per_unit: 10000}"), 2)
        assert call(port, "/v1/commit", reservation=http, actual=500) == \
            {"status": "unknown", "refunded": 0, "charged": 500}
        assert call(port, "/v1/commit", reservation=http, actual=500)["status"] == "already"
        assert client.call("WEIR.COMMIT", resp, "400") == ["status", "unknown", "refunded", 0, "charged", 400]
        assert remaining(port, "tenant", "gone") == 9100
        # The descriptors of the reservation are charged, not those of the body, and only once.
        assert call(port, "/v1/commit", reservation=body, actual=300, **descriptors("tenant", "body")) == \
            {"status": "unknown", "refunded": 0, "charged": 300}
        assert (remaining(port, "tenant", "gone"), remaining(port, "tenant", "body")) == (8800, 10000)
        assert call(port, "/v1/cancel", reservation=cancelled) == {"status": "unknown", "refunded": 0, "charged": 0}
        assert remaining(port, "tenant", "gone") == 8800
        load(serve, RULES.replace("key: tenant\n    rate", "key: other\n    rate"), 3)
        assert call(port, "/v1/commit", reservation=last, actual=500) == \
            {"status": "unknown", "refunded": 0, "charged": 0}


def test_descriptors_around_the_size_of_a_token(clock):
    """A request of any length gets a token, or an error that says why, and is then not charged."""
    words = {}
    with Serve(rules=RULES, http=True, resp=True) as serve, Resp(serve.resp_port) as client:
        for length in range(1400, 1500):
            value = "x" * length
            response = post(serve.http_port, "/v1/reserve", {**descriptors("tenant", value), "hits": 600})
            reply = client.call("WEIR.RESERVE", "api", "HITS", "600", "tenant", value)
            fits = isinstance(reply, list)
            words.setdefault((response.status, fits), []).append(length)
            if not fits:
                assert json.loads(response.body)["code"] == "bad_value"
                assert "must fit into a token of 2048 bytes" in json.loads(response.body)["detail"]
                assert "do not fit into the token of a reservation" in str(reply)
                assert remaining(serve.http_port, "tenant", value) == 10000
    assert words == {(200, True): list(range(1400, 1414)), (400, False): list(range(1414, 1500))}


@pytest.mark.parametrize("target, body, code", [
    ("/v1/reserve", {"domain": "api"}, "missing_member"),
    ("/v1/reserve", {**descriptors("tenant", "e"), "ttl": 0}, "bad_value"),
    ("/v1/reserve", {**descriptors("tenant", "e"), "ttl": 86401}, "bad_value"),
    ("/v1/reserve", {**descriptors("tenant", "e"), "hits": -1}, "bad_value"),
    ("/v1/reserve", {**descriptors("tenant", "e"), "more": 1}, "unknown_member"),
    ("/v1/reserve", [descriptors("tenant", "e")], "wrong_type"),
    ("/v1/reserve", descriptors("tenant", "e" * 1600), "bad_value"),
    ("/v1/reserve", {"domain": "api", "descriptors": [{"entries": [{"key": "tenant", "value": "e"}],
                                                       "limit": {"requests": 1, "unit": "day"}}]}, "bad_value"),
    ("/v1/commit", {"reservation": "x"}, "missing_member"),
    ("/v1/commit", {"actual": 1}, "missing_member"),
    ("/v1/commit", {"reservation": "x", "actual": -1}, "bad_value"),
    ("/v1/commit", {"reservation": 7, "actual": 1}, "wrong_type"),
    ("/v1/commit", {"reservation": "x", "actual": 1.5}, "wrong_type"),
    ("/v1/commit", {"reservation": "x", "actual": "1"}, "wrong_type"),
    ("/v1/commit", {"reservation": "x", "actual": 2 ** 32}, "bad_value"),
    ("/v1/commit", {"reservation": "x", "actual": 2 ** 64}, "bad_json"),
    ("/v1/commit", {"reservation": "x", "actual": 1, "domain": "api"}, "missing_member"),
    ("/v1/commit", {"reservation": "x", "actual": 1, "descriptors": []}, "missing_member"),
    ("/v1/commit", {"reservation": "x", "actual": 1, **descriptors("tenant", "e"), "hits": 9}, "unknown_member"),
    ("/v1/commit", {"reservation": "x", "actual": 1, **descriptors("tenant", "e"), "ttl": 9}, "unknown_member"),
    ("/v1/commit", {"reservation": "x", "actual": 1, "domain": "api", "descriptors": [
        {"entries": [{"key": "tenant", "value": "e"}], "hits": -9}]}, "unknown_member"),
    ("/v1/commit", {"reservation": "x", "actual": 1, "domain": "api", "descriptors": [
        {"entries": [{"key": "tenant", "value": "e"}], "limit": {"requests": 1, "unit": "day"}}]}, "unknown_member"),
    ("/v1/cancel", {"reservation": "x", "actual": 1}, "unknown_member"),
    ("/v1/release", "x", "wrong_type"),
])
def test_errors(serve, target, body, code):
    response = post(serve.http_port, target, body)
    assert response.status == 400 and json.loads(response.body)["code"] == code, response.body
    assert remaining(serve.http_port, "tenant", "e") == 10000


def test_a_wrong_description_settles_nothing(serve):
    """The description is checked although the reservation is known."""
    token = reserve(serve.http_port, "tenant", "described", 600)["reservation"]
    body = {"reservation": token, "actual": 1, "domain": "api",
            "descriptors": [{"entries": [{"key": "tenant", "value": "described"}], "hits": 600}]}
    response = post(serve.http_port, "/v1/commit", body)
    assert response.status == 400 and json.loads(response.body)["pointer"] == "/descriptors/0/hits"
    assert remaining(serve.http_port, "tenant", "described") == 9400
    del body["descriptors"][0]["hits"]
    assert call(serve.http_port, "/v1/commit", **body)["refunded"] == 599


def test_numbers_that_are_too_large(serve):
    response = fetch(serve.http_port, "POST", "/v1/commit", tuple(JSON.items()), b'{"reservation": "x", "actual": 1e400}')
    assert response.status == 400 and json.loads(response.body)["detail"] == "line 1, column 36: a number is too large"


@pytest.mark.parametrize("target, text", [
    ("/v1/reserve", '{"hits": 1, "hits": 2, %s}'),
    ("/v1/acquire", '{"ttl": 5, "ttl": 6, %s}'),
    ("/v1/commit", '{"reservation": "x", "actual": 5, "actual": 0, %s}'),
    ("/v1/cancel", '{"reservation": "x", "reservation": "y"}'),
    ("/v1/release", '{"reservation": "x", "reservation": "x"}'),
])
def test_repeated_members_are_an_error(serve, target, text):
    body = text.replace("%s", json.dumps(descriptors("tenant", "twice"))[1:-1])
    response = fetch(serve.http_port, "POST", target, tuple(JSON.items()), body.encode())
    assert response.status == 400 and json.loads(response.body)["code"] == "bad_json"
    assert "two members of the same name" in json.loads(response.body)["detail"]
    assert remaining(serve.http_port, "tenant", "twice") == 10000


def test_twenty_slots(serve, clock):
    """Twenty slots are taken once each, come back by a release, and come back after max_hold."""
    port = serve.http_port
    held = [reserve(port, "job", "j", target="/v1/acquire") for _ in range(20)]
    assert {h["expires_after"] for h in held} == {120}
    refused = post(port, "/v1/acquire", descriptors("job", "j"))
    assert refused.status == 429 and int(refused.get("retry-after")) >= 1
    assert call(port, "/v1/release", reservation=held[0]["reservation"])["status"] == "released"
    assert call(port, "/v1/release", reservation=held[0]["reservation"])["status"] == "already"
    held[0] = reserve(port, "job", "j", target="/v1/acquire")
    assert post(port, "/v1/acquire", descriptors("job", "j")).status == 429
    clock.advance(119)
    assert post(port, "/v1/acquire", descriptors("job", "j")).status == 429
    clock.advance(1.001)  # a slot's time stamp contains its number, so it can be a few ns later than the request
    again = [reserve(port, "job", "j", target="/v1/acquire") for _ in range(20)]
    assert post(port, "/v1/acquire", descriptors("job", "j")).status == 429
    # The old slots are gone: releasing them late frees no slot of the new holders.
    assert {call(port, "/v1/release", reservation=h["reservation"])["status"] for h in held} == {"expired"}
    assert post(port, "/v1/acquire", descriptors("job", "j")).status == 429
    for one in again:
        assert call(port, "/v1/release", reservation=one["reservation"])["status"] == "released"
    # 1,000 an hour: refused acquisitions took nothing from the other limit, and a release gives nothing back to it.
    for _ in range(20):
        reserve(port, "job", "j", target="/v1/acquire")


def test_a_reservation_outlives_a_killed_service(clock):
    with Serve(rules=RULES, http=True) as serve:
        token = reserve(serve.http_port, "tenant", "k", 600)["reservation"]
        slot = reserve(serve.http_port, "job", "k", target="/v1/acquire")["reservation"]
        serve.process.send_signal(signal.SIGKILL)
        serve.process.wait()
        serve.start()
        assert call(serve.http_port, "/v1/commit", reservation=token, actual=500) == \
            {"status": "committed", "refunded": 100, "charged": 0}
        assert remaining(serve.http_port, "tenant", "k") == 9500
        assert call(serve.http_port, "/v1/release", reservation=slot)["status"] == "released"


def test_two_processes_commit_at_once(clock):
    with Serve(rules=RULES, http=True) as first, \
            Serve(rules=RULES, http=True, table=first.table) as second:
        ports = [first.http_port, second.http_port]
        tokens = [reserve(ports[i % 2], "tenant", "two", 100)["reservation"] for i in range(scaled(60))]
        words = []

        def commit_all(port):
            for token in tokens:
                words.append(call(port, "/v1/commit", reservation=token, actual=40)["status"])

        threads = [threading.Thread(target=commit_all, args=(port,)) for port in ports * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert words.count("committed") == len(tokens)
        assert words.count("already") == 3 * len(tokens)
        assert remaining(first.http_port, "tenant", "two") == 10000 - 40 * len(tokens)


def test_resp_shares_reservations_with_http(clock):
    """A reservation of one protocol is committed by the other. Pipelines keep the order of the replies."""
    with Serve(rules=RULES, http=True, resp=True) as serve, Resp(serve.resp_port) as client:
        def said(*words):
            flat = client.call(*words)
            return dict(zip(flat[::2], flat[1::2]))

        made = said("WEIR.RESERVE", "api", "TTL", "30", "HITS", "600", "tenant", "resp")
        assert made["verdict"] == "admit" and made["remaining"] == 9400 and made["expires_after_ms"] == 30000
        token = made["reservation"]
        assert call(serve.http_port, "/v1/commit", reservation=token, actual=500)["refunded"] == 100
        assert said("WEIR.COMMIT", token, "500") == {"status": "already", "refunded": 0, "charged": 0}
        token = reserve(serve.http_port, "tenant", "resp", 600)["reservation"]
        assert said("WEIR.COMMIT", token, "700") == {"status": "committed", "refunded": 0, "charged": 100}
        slots = [said("WEIR.ACQUIRE", "api", "job", "resp")["reservation"] for _ in range(20)]
        assert said("WEIR.ACQUIRE", "api", "job", "resp")["verdict"] == "refuse"
        assert {said("WEIR.RELEASE", slot)["status"] for slot in slots} == {"released"}
        assert said("WEIR.ACQUIRE", "api", "job", "resp")["verdict"] == "admit"
        token = said("WEIR.RESERVE", "api", "HITS", "10000", "tenant", "other")["reservation"]
        serve.process.send_signal(signal.SIGKILL)
        serve.process.wait()
        serve.start()
        with Resp(serve.resp_port) as again:
            assert again.call("WEIR.CANCEL", token) == ["status", "cancelled", "refunded", 10000, "charged", 0]


def spend(ports, reserved, used):
    """Fifty clients reserve and commit until each was refused. Returns the sum of the committed units."""
    sums = []

    def client(port):
        total = 0
        while True:
            made = post(port, "/v1/reserve", {**descriptors("tenant", "fifty"), "hits": reserved})
            if made.status == 429:
                break
            token = json.loads(made.body)["reservation"]
            assert call(port, "/v1/commit", reservation=token, actual=used)["status"] == "committed"
            total += used
        sums.append(total)

    threads = [threading.Thread(target=client, args=(ports[i % len(ports)],)) for i in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sums) == 50
    return sum(sums)


@pytest.mark.parametrize("processes", [1, 4])
def test_fifty_clients_never_exceed_the_limit(clock, processes):
    """Each reserves 600 and uses 500. The last admission needs 600 free units, so at least 9,401 are used."""
    services = []
    try:
        for _ in range(processes):
            services.append(Serve(rules=RULES, http=True, table=services[0].table if services else None).__enter__())
        ports = [s.http_port for s in services]
        total = spend(ports, 600, 500)
        assert total <= 10000
        # A client is refused while others hold reservations, so the rest is spent by one client.
        while True:
            made = post(ports[0], "/v1/reserve", {**descriptors("tenant", "fifty"), "hits": 600})
            if made.status == 429:
                break
            call(ports[-1], "/v1/commit", reservation=json.loads(made.body)["reservation"], actual=500)
            total += 500
        assert total == 9500
        assert remaining(ports[0], "tenant", "fifty") == 500
    finally:
        for service in reversed(services):
            service.__exit__(None, None, None)


def test_a_reservation_that_is_too_small(clock):
    """Reserve 100, use 500, limit 10,000: the overshoot is at most the excess of the 50 requests in flight."""
    with Serve(rules=RULES, http=True) as serve:
        total = spend([serve.http_port], 100, 500)
        assert 10000 <= total <= 10000 + 50 * 400
        refused = post(serve.http_port, "/v1/reserve", descriptors("tenant", "fifty"))
        assert refused.status == 429 and refused.get("retry-after") == "30"
        clock.advance(30)
        assert remaining(serve.http_port, "tenant", "fifty") == 10000
