"""weir serve over gRPC: requests from grpcio and from frames without a library."""

import contextlib
import gzip
import os
import signal
import subprocess
import threading

import grpc
import pytest

from weirtest import ROOT, Clock, needs, patience, protos, wait_for
from weirtest.node import run_node
from weirtest.protos import Request, Response, descriptor, request
from weirtest.rawh2 import (ACK, DATA, END_STREAM, PING, RST, RawH2, frame, grpc_message)
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - {key: foo, value: bar, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: user, rate_limit: {unit: day, requests_per_unit: 3, name: daily}}
  - {key: load, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: slow, rate_limit: {unit: second, requests_per_unit: 5, algorithm: leaky_bucket, queue_size: 5}}
  - {key: quick, rate_limit: {unit: second, requests_per_unit: 10, algorithm: leaky_bucket, queue_size: 5}}
  - {key: slower, rate_limit: {unit: hour, requests_per_unit: 20, algorithm: leaky_bucket, queue_size: 5}}
  - key: own
    rate_limit:
      {unit: day, requests_per_unit: 0, response: {content_type: text/plain, body: "no\\n"}}
  - {key: told, metadata: {team: a}, rate_limit: {unit: day, requests_per_unit: 3}}
"""
OK, OVER = 1, 2
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
ASK = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


class Client:
    """A channel with our messages."""

    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}",
                                             [("grpc.use_local_subchannel_pool", 1)])
        self.should = self.channel.unary_unary(ASK, Request.SerializeToString, Response.FromString)
        self.raw = self.channel.unary_unary(ASK)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def unary(self, path, made, answer):
        return self.channel.unary_unary(path, made.SerializeToString, answer.FromString)

    def ask(self, *entries, **kwargs):
        return self.should(request("rl", *entries, **kwargs), timeout=patience(20))

    def code(self, call, *args, **kwargs):
        """Returns the status of a failing call."""
        with pytest.raises(grpc.RpcError) as failed:
            call(*args, timeout=patience(20), **kwargs)
        return failed.value.code(), failed.value.details()


@pytest.fixture(scope="module", autouse=True)
def wall():
    with Clock() as stands:
        yield stands


@pytest.fixture
def clock(wall):
    """The clock of all services here. It stands still, so that requests are held until a test moves it."""
    return wall


@pytest.fixture(scope="module")
def shared():
    with Serve(rules=RULES, grpc=True, args=["--refunds", "127.0.0.1,::1"]) as serve:
        yield serve


@pytest.fixture
def client(shared):
    with Client(shared.grpc_port) as one:
        yield one


def codes(answer):
    """Returns the overall code and the code of each descriptor."""
    return [answer.overall_code, *(s.code for s in answer.statuses)]


# ---- ShouldRateLimit ----

def test_response_has_the_expected_bytes(client):
    asked = bytes.fromhex("0a02726c120c0a0a0a03666f6f1203626172")
    answer = client.raw(asked, timeout=patience(20))
    assert answer.hex() == "0801120e08011204080a100218092202081e"  # 9 left, and 30 s to the next minute
    other = client.raw(asked[:-1] + b"z", timeout=patience(20))
    assert other.hex() == "080112020801"


def test_descriptor_statuses(client):
    """Each descriptor has its own status: limit, remaining and reset; hits, refunds, peeks and overrides change it."""
    asked = descriptor(request("rl", ("user", "a")), ("nothing", "here"))
    answer = client.should(asked, timeout=patience(20))
    assert codes(answer) == [OK, OK, OK]
    first, second = answer.statuses
    assert (first.current_limit.requests_per_unit, first.current_limit.unit,
            first.current_limit.name, first.limit_remaining) == (3, 4, "daily", 2)
    assert first.duration_until_reset.seconds == 12 * 3600 - 30
    assert not second.HasField("current_limit")
    assert not second.HasField("duration_until_reset")
    assert codes(client.ask(("user", "a"), hits=2)) == [OK, OK]
    assert codes(client.ask(("user", "a"))) == [OVER, OVER]
    assert codes(client.ask(("user", "a"), hits=1, negative=True)) == [OK, OK]
    assert client.ask(("user", "a"), hits=0).statuses[0].limit_remaining == 1
    assert codes(client.ask(("other", "a"), limit=(0, 3))) == [OVER, OVER]


def test_refund_without_permission_is_refused():
    with Serve(rules=RULES, grpc=True, args=["--refunds", "192.0.2.0/24"]) as serve, Client(serve.grpc_port) as client:
        assert codes(client.ask(("user", "r"), hits=3)) == [OK, OK]
        asked = request("rl", ("user", "r"))
        asked.descriptors[0].is_negative_hits = True
        assert client.code(client.should, asked) == (
            grpc.StatusCode.PERMISSION_DENIED, "is_negative_hits gives counted units back, and this client is not allowed to do that; add its address to --refunds")
        assert codes(client.ask(("user", "r"))) == [OVER, OVER]


def test_invalid_requests_have_a_status_code(client):
    """Each kind of invalid request has its status code and message, and the connection stays usable."""
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert client.code(client.should, request("", ("a", "b"))) == (
        invalid, "rate limit domain must not be empty")
    assert client.code(client.should, Request(domain="rl")) == (
        invalid, "rate limit descriptor list must not be empty")
    code, text = client.code(client.should, request("rl", ("a", "b"), limit=(5, 0)))
    assert (code, "unit 0" in text) == (invalid, True)
    assert client.code(client.raw, b"\xff")[0] == invalid
    assert client.code(client.raw, b"x" * (200 << 10))[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert client.code(client.raw, b"\x12\x00" * 50000)[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
    for path in ("/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit",
                 "/envoy.service.ratelimit.v3.RateLimitService/Other", "/nothing"):
        assert client.code(client.channel.unary_unary(path), b"")[0] == \
            grpc.StatusCode.UNIMPLEMENTED
    assert codes(client.ask(("foo", "good"))) == [OK, OK]


def test_too_many_descriptors_are_over_the_limit(client):
    """By default Envoy would let a request pass after an error."""
    many = Request(domain="rl")
    for _ in range(33):
        descriptor(many, ("a", "b"))
    answer = client.should(many)
    assert (answer.overall_code, len(answer.statuses)) == (OVER, 32)


def test_call_with_two_messages_or_none_is_refused(client):
    many = client.channel.stream_unary(ASK)
    asked = request("rl", ("user", "streamed")).SerializeToString()
    assert client.code(many, iter([asked, asked]))[0] == grpc.StatusCode.UNIMPLEMENTED
    assert client.code(many, iter([]))[0] == grpc.StatusCode.UNIMPLEMENTED
    assert client.ask(("user", "streamed"), hits=0).statuses[0].limit_remaining == 3


def test_gzip_with_grpcio(client):
    answer = client.should(request("rl", ("user", "zipped" * 100)), timeout=patience(20),
                           compression=grpc.Compression.Gzip)
    assert answer.statuses[0].limit_remaining == 2
    asked = request("rl", ("user", "zipped" * 100), hits=0)
    assert client.should(asked, timeout=patience(20)).statuses[0].limit_remaining == 2


def test_gzip_frames(shared):
    """Valid gzip is decoded. Invalid, too large or unknown encodings have their status codes."""
    data = request("rl", ("user", "by hand")).SerializeToString()
    with RawH2(shared.grpc_port) as raw:
        for packed, flag, encoding, status in [
                (gzip.compress(data), 1, "gzip", "0"),
                (data, 0, "gzip", "0"),
                (gzip.compress(data)[:-4], 1, "gzip", "3"),
                (data, 1, "gzip", "3"),
                (data, 1, "identity", "3"),
                (data, 2, "identity", "3"),
                (gzip.compress(bytes(200 << 10)), 1, "gzip", "8"),
                (data, 0, "snappy", "12")]:
            stream = raw.new_stream()
            raw.send(raw.head(stream, extra=[("grpc-encoding", encoding)]) +
                     frame(DATA, END_STREAM, stream, grpc_message(packed, flag)))
            head, _, trailers = raw.answer(stream)
            assert trailers["grpc-status"] == status, (encoding, flag, trailers)
            if encoding == "snappy":
                assert head["grpc-accept-encoding"] == "identity,gzip"


def test_message_in_pieces_padding_and_trailers(shared):
    """A call whose message arrives byte by byte, between other calls; padded frames; client trailers."""
    data = grpc_message(request("rl", ("user", "pieces"), hits=0).SerializeToString())
    with RawH2(shared.grpc_port) as raw:
        stream = raw.new_stream()
        raw.send(raw.head(stream))
        for i in range(len(data)):
            raw.send(frame(DATA, 8, stream, bytes([3]) + data[i:i + 1] + bytes(3)))
        other, whole = raw.call(request("rl", ("user", "pieces"), hits=0).SerializeToString())
        raw.send(whole)
        assert Response.FromString(raw.answer(other)[1][5:]).statuses[0].limit_remaining == 3
        raw.send(raw.head(stream, end=True, fields=[("x-trailer", "1")]))
        assert Response.FromString(raw.answer(stream)[1][5:]).statuses[0].limit_remaining == 3


def test_requests_other_than_grpc_are_refused(shared):
    """Other content types get 415 and other methods 405, with an explanation in the body."""
    with RawH2(shared.grpc_port) as raw:
        for kwargs, status in [({"kind": "text/plain"}, "415"), ({"kind": None}, "415"),
                               ({"kind": "application/grpc-web"}, "415"),
                               ({"method": "GET"}, "405")]:
            stream, whole = raw.call(b"", **kwargs)
            raw.send(whole)
            head, body, _ = raw.answer(stream)
            assert head[":status"] == status and head["content-type"].startswith("text/plain")
            assert b"gRPC" in body


def test_head_request_gets_no_body(shared):
    """A response to HEAD has no body, and 405 names the allowed method."""
    with RawH2(shared.grpc_port) as raw:
        stream = raw.new_stream()
        raw.send(raw.head(stream, end=True, method="HEAD"))
        head, body, trailers = raw.answer(stream)
        assert (head[":status"], head["allow"], body) == ("405", "POST", b"") and trailers == head


def test_refusal_waits_for_at_most_64_kib_of_body(shared):
    """The refusal comes after the body, or after 64 KiB of it. Then the client is told to stop sending."""
    with RawH2(shared.grpc_port) as raw:
        waiting, endless = raw.new_stream(), raw.new_stream()
        raw.send(raw.head(waiting, kind="text/plain") + frame(DATA, 0, waiting, bytes(100)) + raw.head(endless, kind="text/plain"))
        for _ in range(3):
            raw.send(frame(DATA, 0, endless, bytes(16384)))
        raw.send(frame(DATA, 0, endless, bytes(16383)) + frame(PING, payload=b"not yet."))
        assert raw.until(PING)[3] == b"not yet." and not raw.aside
        raw.send(frame(DATA, 0, endless, bytes(2)))
        assert raw.answer(endless)[0][":status"] == "415"
        assert raw.until(RST, endless)[3] == bytes(4)
        raw.send(frame(DATA, END_STREAM, waiting))
        assert raw.answer(waiting)[0][":status"] == "415"


def test_incomplete_message_is_an_error(shared):
    with RawH2(shared.grpc_port) as raw:
        for body in (b"\0", b"\0\0\0\0\x09abc", b"\0\xff\xff\xff\xff"):
            stream = raw.new_stream()
            raw.send(raw.head(stream) + frame(DATA, END_STREAM, stream, body))
            _, got, trailers = raw.answer(stream)
            assert (got, trailers["grpc-status"]) in [(b"", "3"), (b"", "8")]


def test_grpc_message_is_percent_encoded(shared):
    with RawH2(shared.grpc_port) as raw:
        stream, whole = raw.call(b"", extra=[("grpc-timeout", "soon")])
        raw.send(whole)
        trailers = raw.answer(stream)[2]
        assert (trailers["grpc-status"], trailers["grpc-message"]) == (
            "3", "grpc-timeout must be 1 to 8 digits and one of the units H M S m u n")


# ---- delayed responses ----

def start_delayed_call(client, *asked):
    """Starts a call that waits. The service has read it when it has answered the next one."""
    held = client.should.future(asked[0] if isinstance(asked[0], Request) else request("rl", *asked), timeout=patience(60))
    assert codes(client.ask(("foo", "meanwhile"))) == [OK, OK]
    return held


def test_leaky_bucket_delays_its_response(client, clock):
    """Five a second: the second call waits 200 ms, the third 400 ms, and other calls do not wait for them. A call of
    another queue that is due at 100 ms is answered first. Its response shows that the service has looked at the
    queues."""
    assert codes(client.ask(("slow", "a"))) == [OK, OK]
    assert codes(client.ask(("quick", "a"))) == [OK, OK]
    second, third = start_delayed_call(client, ("slow", "a")), start_delayed_call(client, ("slow", "a"))
    soon = start_delayed_call(client, ("quick", "a"))
    assert not (second.done() or third.done() or soon.done())
    clock.advance(0.1)
    assert codes(soon.result()) == [OK, OK]
    assert not (second.done() or third.done())
    clock.advance(0.1)
    assert codes(second.result()) == [OK, OK]
    assert not third.done()
    clock.advance(0.2)
    assert codes(third.result()) == [OK, OK]


def test_units_of_a_delayed_call_stay_counted(client, clock):
    """A second limit of a call counts when the call begins to wait."""
    def asked():
        return descriptor(request("rl", ("slow", "beside")), ("user", "beside"))

    assert client.should(asked(), timeout=patience(20)).statuses[1].limit_remaining == 2
    held = start_delayed_call(client, asked())
    assert client.ask(("user", "beside"), hits=0).statuses[0].limit_remaining == 1
    clock.advance(0.2)
    assert held.result().statuses[1].limit_remaining == 1
    assert client.ask(("user", "beside")).statuses[0].limit_remaining == 0
    assert codes(client.ask(("user", "beside"))) == [OVER, OVER]


def test_call_that_would_miss_its_deadline_is_refused_at_once(client):
    """A proxy lets a request pass if there is no response in time. A call whose delay would end after its deadline is
    refused at once, and takes no unit."""
    assert codes(client.ask(("slower", "b"))) == [OK, OK]
    left = client.ask(("slower", "b"), hits=0).statuses[0].limit_remaining
    asked = request("rl", ("slower", "b"))
    descriptor(asked, ("user", "b"))
    answer = client.should(asked, timeout=60)  # of three minutes
    assert codes(answer) == [OVER, OVER, OK]
    assert client.ask(("user", "b"), hits=0).statuses[0].limit_remaining == 3
    assert client.ask(("slower", "b"), hits=0).statuses[0].limit_remaining == left


def test_call_with_a_passed_deadline(shared, clock):
    """The call fails with DEADLINE_EXCEEDED and takes no unit."""
    clock.run()
    with RawH2(shared.grpc_port) as raw:
        data = request("rl", ("user", "late")).SerializeToString()
        stream, whole = raw.call(data, extra=[("grpc-timeout", "1n")])
        raw.send(whole)
        assert raw.answer(stream)[2]["grpc-status"] == "4"
        stream, whole = raw.call(request("rl", ("user", "late"), hits=0).SerializeToString(),
                                 extra=[("grpc-timeout", "99999999H")])
        raw.send(whole)
        assert Response.FromString(raw.answer(stream)[1][5:]).statuses[0].limit_remaining == 3
    clock.stop()


@pytest.mark.parametrize("how", ["cancel", "disconnect"])
def test_position_of_a_disconnected_client_is_free_again(shared, how):
    """Three calls wait for minutes in the queue of five. When their clients disconnect, there is room for five
    again."""
    key = ("slower", how)
    leaver, stayer = Client(shared.grpc_port), Client(shared.grpc_port)
    with leaver, stayer:
        assert codes(stayer.ask(key)) == [OK, OK]
        left = stayer.ask(key, hits=0).statuses[0].limit_remaining
        held = [leaver.should.future(request("rl", key), timeout=3600) for _ in range(3)]
        wait_for(lambda: stayer.ask(key, hits=0).statuses[0].limit_remaining == left - 3,
                 "three positions to be taken")
        if how == "cancel":
            for one in held:
                one.cancel()
        else:
            leaver.channel.close()
        wait_for(lambda: stayer.ask(key, hits=0).statuses[0].limit_remaining >= left,
                 "the positions to be given back")


# ---- responses ----

def test_response_header_settings_and_bodies():
    args = ["--rls-headers", "--limit-header", "X-Limit", "--rls-profile", "ietf", "--rls-bodies"]
    with Serve(rules=RULES, grpc=True, args=args) as serve, Client(serve.grpc_port) as client:
        answer = client.ask(("user", "a"))
        fields = {h.key: h.value for h in answer.response_headers_to_add}
        assert (fields["X-Limit"], fields["RateLimit-Remaining"]) == ("3", "2")
        assert "RateLimit-Policy" in fields and answer.raw_body == b""
        answer = client.ask(("user", "a"), hits=5)
        fields = {h.key: h.value for h in answer.response_headers_to_add}
        assert fields["content-type"] == "application/problem+json"
        assert b'"status":429' in answer.raw_body
        assert fields["RateLimit-Remaining"] == "2"


def test_refusal_body_of_a_rule(client):
    answer = client.ask(("own", "x"))
    assert answer.raw_body == b"no\n"
    assert [(h.key, h.value) for h in answer.response_headers_to_add] == [
        ("content-type", "text/plain")]


def test_global_shadow_mode_and_metadata():
    with Serve(rules=RULES, grpc=True, args=["--shadow", "--dynamic-metadata"]) as serve, \
            Client(serve.grpc_port) as client:
        answer = client.ask(("own", "x"))
        assert codes(answer) == [OK, OVER]
        assert answer.raw_body == b""
        answer = client.ask(("told", "x"), ("deep", "y\xe4"))
        meta = answer.dynamic_metadata
        assert meta["domain"] == "rl"
        assert list(meta["descriptors"][0]["entries"]) == ["told=x", "deep=y\xe4"]
        answer = client.ask(("told", "x"))
        assert dict(answer.dynamic_metadata["metadata"]) == {"team": "a"}


def test_values_that_are_not_utf8_are_counted(client):
    """grpc-go would fail here, and Envoy then lets the request pass."""
    asked = b"\x0a\x02rl\x12\x0e\x0a\x0c\x0a\x04user\x12\x04\xff\xfe\x00\x80"
    assert [client.raw(asked, timeout=patience(20))[1] for _ in range(4)] == [OK, OK, OK, OVER]


# ---- health ----

CHECK, WATCH, LIST = ("/grpc.health.v1.Health/" + m for m in ("Check", "Watch", "List"))


def watch(client, service):
    """Starts a watch of a service's health."""
    call = client.channel.unary_stream(WATCH, protos.HealthRequest.SerializeToString,
                                       protos.HealthResponse.FromString)
    return call(protos.HealthRequest(service=service), timeout=patience(40))


def test_health(client):
    check = client.unary(CHECK, protos.HealthRequest, protos.HealthResponse)
    for service in ("", "ratelimit"):
        assert check(protos.HealthRequest(service=service), timeout=patience(20)).status == SERVING
    assert client.code(check, protos.HealthRequest(service="other"))[0] == grpc.StatusCode.NOT_FOUND
    list_all = client.unary(LIST, protos.HealthRequest, protos.HealthList)
    statuses = list_all(protos.HealthRequest(), timeout=patience(20)).statuses
    assert {k: v.status for k, v in statuses.items()} == {"": SERVING, "ratelimit": SERVING}


def test_watch_of_an_unknown_service_stays_open(client):
    stream = watch(client, "other")
    assert next(stream).status == SERVICE_UNKNOWN
    assert codes(client.ask(("foo", "x"))) == [OK, OK]
    assert stream.is_active()
    stream.cancel()


@contextlib.contextmanager
def draining(delay):
    """A service after SIGTERM, a client, and its watch streams, which have reported it."""
    with Serve(rules=RULES, grpc=True, args=["--drain-delay", delay]) as serve, \
            Client(serve.grpc_port) as client:
        streams = [watch(client, ""), watch(client, "ratelimit")]
        assert [next(s).status for s in streams] == [SERVING, SERVING]
        serve.signal(signal.SIGTERM)
        assert [next(s).status for s in streams] == [NOT_SERVING, NOT_SERVING]
        yield serve, client, streams


def test_health_reports_not_serving_for_both_names_while_draining():
    """envoyproxy/ratelimit always reports SERVING for the empty name, and does not drain. A second SIGTERM ends the
    delay."""
    with draining("1h") as (serve, client, _):
        check = client.unary(CHECK, protos.HealthRequest, protos.HealthResponse)
        assert [check(protos.HealthRequest(service=n), timeout=patience(20)).status
                for n in ("", "ratelimit")] == [NOT_SERVING, NOT_SERVING]
        assert codes(client.ask(("foo", "still"))) == [OK, OK]
        serve.signal(signal.SIGTERM)
        assert serve.wait() == 0


def test_watch_streams_report_the_closing_of_ports():
    with draining("200ms") as (serve, _, streams):
        for stream in streams:
            with pytest.raises(grpc.RpcError) as ended:
                next(stream)
            assert (ended.value.code(), ended.value.details()) == (
                grpc.StatusCode.UNAVAILABLE, "shutting down")
        assert serve.wait() == 0


def test_two_goaways_are_sent_and_calls_in_flight_are_answered(clock):
    """A call that arrives between the two GOAWAYs is answered, and so is a call that waits in a leaky bucket."""
    with Serve(rules=RULES, grpc=True) as serve, RawH2(serve.grpc_port) as raw:
        data = request("rl", ("slow", "x")).SerializeToString()
        first, whole = raw.call(data)
        raw.send(whole)
        assert raw.answer(first)[2]["grpc-status"] == "0"
        held, whole = raw.call(data)
        raw.send(whole)
        ping = frame(PING, payload=b"12345678")
        raw.send(ping)
        assert raw.until(PING)[3] == b"12345678"  # the service has read the call
        serve.signal(signal.SIGTERM)
        assert raw.goaway() == (0x7fffffff, 0)
        asked = raw.until(PING)
        late, whole = raw.call(request("rl", ("foo", "late")).SerializeToString())
        raw.send(whole)  # was in flight when the GOAWAY came
        assert raw.answer(late)[2]["grpc-status"] == "0"
        raw.send(frame(PING, ACK, 0, asked[3]))
        assert raw.goaway() == (late, 0)
        assert held not in raw.aside
        clock.advance(0.2)
        assert raw.answer(held)[2]["grpc-status"] == "0"
        assert raw.read_frame() is None
        raw.socket.close()
        assert serve.wait() == 0


# ---- reflection ----

@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_describes_the_service(client, version):
    """A client without .proto files finds the service and its messages."""
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    call = client.channel.stream_stream(path, protos.ReflectionRequest.SerializeToString,
                                        protos.ReflectionResponse.FromString)
    asked = [protos.ReflectionRequest(list_services="*"),
             protos.ReflectionRequest(
                 file_containing_symbol="envoy.service.ratelimit.v3.RateLimitService"),
             protos.ReflectionRequest(file_by_filename="no/such.proto")]
    services, files, error = call(iter(asked), timeout=patience(20))
    assert [s.name for s in services.list_services_response.service] == [
        "envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
        "kuadrant.service.ratelimit.v1.RateLimitService", "weir.v1.Reservations"]
    assert error.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    ours = {f.name: f for f in protos.descriptors().file}
    got = [type(next(iter(ours.values()))).FromString(b)
           for b in files.file_descriptor_response.file_descriptor_proto]
    assert got[0].name == "envoy/service/ratelimit/v3/rls.proto"
    assert len(got) == 8
    for file in got:
        assert file == ours[file.name]


# ---- other faults of envoyproxy/ratelimit ----

def test_rules_in_a_config_map_are_read_once():
    """Links and copies under ..data are read once. (envoyproxy/ratelimit reports `duplicate domain` for them.)"""
    with Serve(grpc=True, start=False) as serve:
        real = serve.folder / "rules" / "..2026_11_16"
        real.mkdir(parents=True)
        (real / "config.yaml").write_text(RULES)
        os.symlink("..2026_11_16", serve.folder / "rules" / "..data")
        os.symlink("..data/config.yaml", serve.folder / "rules" / "config.yaml")
        (serve.folder / "rules" / "README.txt").write_text("not: [rules")
        serve.rules_path = serve.folder / "rules"
        serve.start()
        with Client(serve.grpc_port) as client:
            assert codes(client.ask(("user", "a"))) == [OK, OK]
            check = client.unary(CHECK, protos.HealthRequest, protos.HealthResponse)
            assert check(protos.HealthRequest(service="ratelimit"), timeout=patience(20)).status == SERVING


# ---- load ----

def test_h2load_is_counted_exactly(shared, client, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(grpc_message(request("rl", ("load", "x")).SerializeToString()))
    done = subprocess.run(
        ["h2load", "-c8", "-m32", "-n20000", f"-d{body}", "-Hcontent-type: application/grpc",
         "-Hte: trailers", f"http://127.0.0.1:{shared.grpc_port}{ASK}"],
        capture_output=True, text=True, check=True, timeout=patience(50)).stdout
    assert "20000 succeeded, 0 failed, 0 errored, 0 timeout" in done
    assert client.ask(("load", "x"), hits=0).statuses[0].limit_remaining == 980000


@needs("npm")
@pytest.mark.seconds(300)
def test_grpc_js_makes_500_calls_at_once(shared):
    """The gRPC client of Node.js with gzip: 500 calls at once on one connection."""
    seen = run_node("grpc.js", shared.grpc_port, ROOT / "proto")
    assert seen["first"]["overall_code"] == "OK"
    assert seen["first"]["statuses"][0]["limit_remaining"] == 2
    assert seen["first"]["statuses"][0]["current_limit"] == {
        "name": "daily", "requests_per_unit": 3, "unit": "DAY"}
    assert seen["watch"] == "SERVING"
    assert (seen["admitted"], seen["refused"], seen["long"]) == (3, 497, "OK")
    assert seen["bad"] == [3, "the limit of descriptor 0 has the unknown unit 0; the units are SECOND (1) to YEAR (6)"]


def test_twelve_clients_share_a_limit_of_three(shared):
    """Twelve threads ask; three requests are admitted."""
    verdicts = []

    def ask():
        with Client(shared.grpc_port) as one:
            for _ in range(5):
                verdicts.append(one.ask(("user", "shared")).overall_code)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (verdicts.count(OK), verdicts.count(OVER)) == (3, 57)
