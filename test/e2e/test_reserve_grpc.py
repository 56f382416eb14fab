"""Reservations over gRPC: Kuadrant's service, weir.v1, and calls of Envoy after the end of a stream."""

import json
import signal

import grpc
import pytest

from weirtest import JSON, Clock, fetch, patience
from weirtest.protos import (CommitRequest, CommitResponse, Request, ReserveRequest, ReserveResponse, Response,
                             SettleRequest, SettleResponse, descriptor, request)
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - {key: tokens, rate_limit: {unit: minute, requests_per_unit: 10000}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 100, algorithm: token_bucket}}
  - {key: few, rate_limit: {unit: minute, requests_per_unit: 1000, max_debt: 100}}
  - {key: job, rate_limit: {concurrent: 2, max_hold: 2m}}
"""
OK, OVER = 1, 2
ENVOY = "/envoy.service.ratelimit.v3.RateLimitService/"
KUADRANT = "/kuadrant.service.ratelimit.v1.RateLimitService/"
WEIR = "/weir.v1.Reservations/"


class Client:
    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])
        for name, path, asked, answer in (
                ("should", ENVOY + "ShouldRateLimit", Request, Response),
                ("check", KUADRANT + "CheckRateLimit", Request, Response),
                ("report", KUADRANT + "Report", Request, Response),
                ("reserve", KUADRANT + "Reserve", ReserveRequest, ReserveResponse),
                ("commit", KUADRANT + "Commit", CommitRequest, CommitResponse),
                ("acquire", WEIR + "Acquire", ReserveRequest, ReserveResponse),
                ("release", WEIR + "Release", SettleRequest, SettleResponse),
                ("cancel", WEIR + "Cancel", SettleRequest, SettleResponse)):
            setattr(self, name, self._method(path, asked, answer))

    def _method(self, path, asked, answer):
        call = self.channel.unary_unary(path, asked.SerializeToString, answer.FromString)
        return lambda message: call(message, timeout=patience(20))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def left(self, *entries):
        """Returns the remaining units of a descriptor, and takes none."""
        return self.should(request("rl", *entries, hits=0)).statuses[0].limit_remaining


@pytest.fixture(scope="module", autouse=True)
def clock():
    with Clock() as stands:
        yield stands


@pytest.fixture(name="serve", scope="module")
def _serve():
    with Serve(rules=RULES, grpc=True, http=True) as running:
        yield running


@pytest.fixture(name="client")
def _client(serve):
    with Client(serve.grpc_port) as client:
        yield client


def reserved(*entries, amount=1, ttl=None):
    made = descriptor(ReserveRequest(domain="rl", amount=amount), *entries)
    if ttl is not None:
        made.ttl.seconds = ttl
    return made


def committed(token, actual, *entries):
    made = CommitRequest(domain="rl", reservation_id=token, actual_amount=actual)
    return descriptor(made, *entries) if entries else made


def test_reserve_and_commit(client):
    made = client.reserve(reserved(("tokens", "a"), amount=600, ttl=30))
    assert made.code == OK and client.left(("tokens", "a")) == 9400
    assert client.commit(committed(made.reservation_id, 500, ("tokens", "a"))).reservation_released
    assert client.left(("tokens", "a")) == 9500
    assert client.commit(committed(made.reservation_id, 500, ("tokens", "a"))).reservation_released
    assert client.left(("tokens", "a")) == 9500
    refused = client.reserve(reserved(("tokens", "a"), amount=9501))
    assert (refused.code, refused.reservation_id) == (OVER, "")
    assert client.left(("tokens", "a")) == 9500


def test_commit_without_a_known_reservation_charges_the_descriptors(client):
    for token in ("", "unknown"):
        assert not client.commit(committed(token, 300, ("tokens", "u"))).reservation_released
    assert client.left(("tokens", "u")) == 9400
    assert not client.commit(committed("unknown", 300)).reservation_released
    assert client.left(("tokens", "u")) == 9400
    made = client.reserve(reserved(("tokens", "u"), amount=0))  # only a check: nothing is held
    assert made.code == OK and client.left(("tokens", "u")) == 9400
    assert client.commit(committed(made.reservation_id, 9500, ("tokens", "u"))).reservation_released
    assert client.left(("tokens", "u")) == 0
    assert client.reserve(reserved(("tokens", "u"), amount=0)).code == OVER


def test_expired(client, clock):
    made = client.reserve(reserved(("bucket", "e"), amount=60, ttl=5))
    clock.advance(5)  # 8 units have refilled
    assert not client.commit(committed(made.reservation_id, 10)).reservation_released
    assert client.left(("bucket", "e")) == 48


def test_check_and_report(client):
    """CheckRateLimit counts nothing. Report charges as debt, also what exceeds the limit."""
    assert client.check(request("rl", ("few", "r"))).overall_code == OK
    assert client.check(request("rl", ("few", "r"))).statuses[0].limit_remaining == 1000
    assert client.report(request("rl", ("few", "r"), hits=990)).overall_code == OK
    assert client.left(("few", "r")) == 10
    assert client.report(request("rl", ("few", "r"), hits=60)).overall_code == OK
    assert client.check(request("rl", ("few", "r"))).overall_code == OVER


def test_slots(client):
    held = [client.acquire(reserved(("job", "j"))) for _ in range(3)]
    assert [h.code for h in held] == [OK, OK, OVER]
    done = client.release(SettleRequest(reservation_id=held[0].reservation_id))
    assert done.status == SettleResponse.DONE
    assert client.release(SettleRequest(reservation_id=held[0].reservation_id)).status == SettleResponse.ALREADY
    assert client.acquire(reserved(("job", "j"))).code == OK
    assert client.acquire(reserved(("job", "j"))).code == OVER
    assert client.cancel(SettleRequest(reservation_id="x")).status == SettleResponse.UNKNOWN


def test_cancel_and_other_protocols(serve, client):
    made = client.reserve(reserved(("tokens", "c"), amount=7000))
    done = client.cancel(SettleRequest(reservation_id=made.reservation_id))
    assert (done.status, done.refunded) == (SettleResponse.DONE, 7000)
    made = client.reserve(reserved(("tokens", "c"), amount=7000))
    body = json.dumps({"reservation": made.reservation_id, "actual": 6999}).encode()
    answer = fetch(serve.http_port, "POST", "/v1/commit", tuple(JSON.items()), body)
    assert json.loads(answer.body) == {"status": "committed", "refunded": 1, "charged": 0}


def test_errors(client):
    def code(call, message):
        with pytest.raises(grpc.RpcError) as failed:
            call(message)
        return failed.value.code()

    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert code(client.reserve, ReserveRequest(domain="rl")) == invalid
    assert code(client.reserve, reserved(("tokens", "x"), ttl=-1)) == invalid
    overfull = reserved(("tokens", "x"), ttl=1)
    overfull.ttl.nanos = 10 ** 9
    assert code(client.reserve, overfull) == invalid
    assert code(client.reserve, reserved(("tokens", "x" * 2000))) == invalid
    limited = descriptor(ReserveRequest(domain="rl", amount=1), ("tokens", "x"), limit=(5, 4))
    assert code(client.reserve, limited) == invalid
    assert client.left(("tokens", "x")) == 10000
    far = client.reserve(reserved(("tokens", "x"), ttl=10 ** 9))
    assert far.code == OK


def test_descriptors_around_the_size_of_a_token(client):
    lengths = []
    for length in range(1400, 1470):
        try:
            assert client.reserve(reserved(("tokens", "x" * length))).code == OK
            lengths.append(length)
        except grpc.RpcError as failed:
            assert failed.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert "must fit into a token of 2048 bytes" in failed.details()
            assert client.left(("tokens", "x" * length)) == 10000
    assert lengths == list(range(1400, 1417))


def test_a_commit_says_that_its_limit_is_gone():
    with Serve(rules=RULES, grpc=True) as serve, Client(serve.grpc_port) as client:
        first, second = (client.reserve(reserved(("tokens", "g"), amount=600)).reservation_id for _ in range(2))
        serve.rules.write_text(RULES.replace("unit: minute, requests_per_unit: 10000", "unit: hour, requests_per_unit: 10000"))
        serve.signal(signal.SIGHUP)
        serve.wait_logged("rules loaded: generation 2")
        assert not client.commit(committed(first, 500, ("tokens", "body"))).reservation_released
        assert (client.left(("tokens", "g")), client.left(("tokens", "body"))) == (9500, 10000)
        done = client.cancel(SettleRequest(reservation_id=second))
        assert (done.status, done.refunded) == (SettleResponse.UNKNOWN, 0)
        assert client.left(("tokens", "g")) == 9500


def test_a_reservation_outlives_a_killed_service():
    with Serve(rules=RULES, grpc=True) as serve:
        with Client(serve.grpc_port) as client:
            token = client.reserve(reserved(("tokens", "k"), amount=600)).reservation_id
        serve.process.send_signal(signal.SIGKILL)
        serve.process.wait()
        serve.start()
        with Client(serve.grpc_port) as client:
            assert client.commit(committed(token, 500)).reservation_released
            assert client.left(("tokens", "k")) == 9500


# ---- Envoy ----

def test_a_call_after_the_stream_charges_as_debt(serve, client):
    """Envoy's call with apply_on_stream_done looks like any other. The entry weir.charge marks it."""
    entries = (("few", "s"),)
    assert client.should(request("rl", *entries, hits=900)).overall_code == OK
    assert client.should(request("rl", *entries, hits=500)).overall_code == OVER  # refused without effect
    assert client.left(*entries) == 100
    marked = request("rl", *entries, ("weir.charge", "debt"), hits=150)
    assert client.should(marked).overall_code == OK
    assert client.left(*entries) == 0
    assert client.should(request("rl", *entries, hits=0)).overall_code == OVER
    body = {"domain": "rl", "descriptors": [{"entries": [{"key": "few", "value": "json"},
                                                         {"key": "weir.charge", "value": ""}],
                                             "hitsAddend": 1200}]}
    answer = fetch(serve.http_port, "POST", "/json", tuple(JSON.items()), json.dumps(body).encode())
    assert answer.status == 200
    assert client.should(request("rl", ("few", "json"))).overall_code == OVER


def test_debt_of_a_bucket_is_paid_before_the_next_admission(client, clock):
    marked = request("rl", ("bucket", "debt"), ("weir.charge", "debt"), hits=150)
    assert client.should(marked).overall_code == OK
    clock.advance(30)
    assert client.should(request("rl", ("bucket", "debt"))).overall_code == OVER  # 150 - 50 = 100 of 100
    clock.advance(1)
    assert client.should(request("rl", ("bucket", "debt"))).overall_code == OK
