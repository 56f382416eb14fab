"""Attacks on the gRPC port, frame by frame: the attacker is disconnected, memory stays bounded, other clients are
served."""

import contextlib
import random
import socket
import struct

import grpc
import pytest

from weirtest import patience, scaled, wait_for
from weirtest.protos import Request, Response, request
from weirtest.rawh2 import (ACK, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, FRAME_SIZE, GOAWAY, HEADERS,
                            METHOD, PADDED, PING, PREFACE, PRIORITY, PROTOCOL, REFUSED, RST, SETTINGS, STREAM_CLOSED, WINDOW,
                            RawH2, frame, grpc_message, settings)
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1000000}}
"""
ASKED = request("rl", ("user", "x"))
MEGABYTE = 1024  # growth of resident_kib

INITIAL_WINDOW = 4


@pytest.fixture(scope="module")
def serve():
    """A service that disconnects no client for being slow."""
    with Serve(rules=RULES, grpc=True, args=["--slow", "10m"]) as one:
        yield one


@pytest.fixture(scope="module")
def impatient_serve():
    """A service with a short --slow timeout."""
    with Serve(rules=RULES, grpc=True, args=["--slow", "400ms"]) as one:
        yield one


class Other:
    """Another client that is served throughout. A service with a short timeout may disconnect it when the machine
    delays it; it then reconnects."""

    def __init__(self, serve, channel):
        self.serve = serve
        self.should = channel.unary_unary(METHOD, Request.SerializeToString, Response.FromString)

    def _ask(self):
        try:
            return self.should(ASKED, timeout=patience(20)).overall_code == 1
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE and "400ms" in self.serve.args, error
            return False

    def is_served(self):
        return wait_for(self._ask, "the other client to be served")


@pytest.fixture(autouse=True, name="other")
def _other(request):
    """Another client is served before, during (on an open connection) and after the attack, and the growth of memory is
    bounded."""
    serve = request.getfixturevalue("hasty" if "hasty" in request.fixturenames else "serve")
    with grpc.insecure_channel(f"127.0.0.1:{serve.grpc_port}",
                               [("grpc.use_local_subchannel_pool", 1)]) as channel:
        other = Other(serve, channel)
        assert other.is_served()
        before = serve.resident_kib()
        yield other
        assert other.is_served()
        assert serve.process.poll() is None
        assert serve.resident_kib() - before < 16 * MEGABYTE


def read_to_end(raw, seconds=patience(20)):
    """Reads until the server closes. Returns the error code of its GOAWAY, or None."""
    code = None
    raw.socket.settimeout(seconds)
    while got := raw.read_frame():
        if got[0] == GOAWAY:
            code = struct.unpack(">I", got[3][4:8])[0]
    return code


# ---- floods ----

def test_continuation_flood_is_disconnected(serve, other):
    with RawH2(serve.grpc_port) as raw:
        block = raw.encoder.encode(raw.fields())
        raw.send(frame(HEADERS, 0, 1, block))
        raw.send_repeatedly(frame(CONTINUATION, 0, 1, b"\0\x01x\x01y" * 3000), 400)
        assert other.is_served()
        assert read_to_end(raw) != 0


def test_empty_continuation_flood_is_disconnected(serve):
    with RawH2(serve.grpc_port) as raw:
        raw.send(frame(HEADERS, 0, 1, raw.encoder.encode(raw.fields())))
        raw.send_repeatedly(frame(CONTINUATION, 0, 1) * 100, 400)
        assert read_to_end(raw) != 0


def test_rapid_reset_is_disconnected(serve, other):
    """HEADERS, DATA and RST_STREAM in one write, repeatedly (CVE-2023-44487)."""
    data = ASKED.SerializeToString()
    with RawH2(serve.grpc_port) as raw:
        try:
            for _ in range(400):
                burst = b""
                for _ in range(100):
                    stream, whole = raw.call(data)
                    burst += whole + frame(RST, 0, stream, struct.pack(">I", 8))
                raw.send(burst)
        except ConnectionError:
            pass
        assert read_to_end(raw) in (CALM, None)
        assert other.is_served()


def test_made_you_reset_is_disconnected(serve):
    """The client makes the server reset streams: WINDOW_UPDATE of 0 on open calls (CVE-2025-8671)."""
    with RawH2(serve.grpc_port) as raw:
        try:
            for _ in range(400):
                burst = b""
                for _ in range(100):
                    stream = raw.new_stream()
                    burst += raw.head(stream) + frame(WINDOW, 0, stream, bytes(4))
                raw.send(burst)
        except ConnectionError:
            pass
        assert read_to_end(raw) in (CALM, 1, None)


def test_resets_of_a_proxy_under_load_are_tolerated(serve):
    """3,000 calls on one connection; one call in three is reset."""
    data = ASKED.SerializeToString()
    with RawH2(serve.grpc_port) as raw:
        for _ in range(scaled(100)):
            burst, kept = b"", []
            for i in range(30):
                stream, whole = raw.call(data)
                burst += whole
                if i % 3 == 0:
                    burst += frame(RST, 0, stream, struct.pack(">I", 8))
                else:
                    kept.append(stream)
            raw.send(burst)
            assert raw.answer(kept[-1])[2]["grpc-status"] == "0"


@pytest.mark.parametrize("flood", [
    settings((1, 4096)), frame(PING, payload=bytes(8)), frame(PRIORITY, 0, 3, bytes(5)),
    frame(WINDOW, 0, 0, struct.pack(">I", 1)), frame(0xbb, 0, 0, b"xyz")],
    ids=["settings", "ping", "priority", "window_update", "unknown"])
@pytest.mark.parametrize("reading", [False, True])
def test_flood_of_useless_frames_is_disconnected(serve, other, flood, reading):
    """The connection is closed, whether the client reads the server's frames or not."""
    with RawH2(serve.grpc_port) as raw:
        try:
            # points are refilled while the machine halts the client; no halt lasts long enough to matter
            for _ in range(4000):
                raw.send(flood * 500)
                if reading:
                    raw.discard()
        except (ConnectionError, socket.timeout):
            pass
        assert other.is_served()
        assert read_to_end(raw) != 0


def on_stream(make):
    """Frames of one stream, which the first of them opens."""
    def flood(raw, count):
        if raw.next_stream > 1:
            return make(1) * count
        return raw.head(raw.new_stream()) + make(1) * count
    return flood


def new_streams(make):
    """Returns a function that makes this many frames, each on a new stream."""
    return lambda raw, count: b"".join(make(raw, raw.new_stream()) for _ in range(count))


def ended_stream(make):
    """Frames of a stream that the client has reset."""
    return on_stream(lambda stream: frame(RST, 0, stream, struct.pack(">I", 8)) + make(stream))


def repeated(one):
    """Returns a function that repeats a frame this many times."""
    return lambda _, count: one * count


RESET = struct.pack(">I", 8)
FLOODS = {
    "settings": repeated(settings((1, 4096))),
    "settings-empty": repeated(settings()),
    "ping": repeated(frame(PING, payload=bytes(8))),
    "ping-ack": repeated(frame(PING, ACK, payload=bytes(8))),
    "priority": repeated(frame(PRIORITY, 0, 3, bytes(5))),
    "unknown": repeated(frame(0xbb)),
    "window": repeated(frame(WINDOW, 0, 0, struct.pack(">I", 1))),
    "window-of-a-stream": on_stream(lambda stream: frame(WINDOW, 0, stream, struct.pack(">I", 1))),
    "window-of-an-ended-stream": ended_stream(lambda stream: frame(WINDOW, 0, stream, struct.pack(">I", 1))),
    "data": on_stream(lambda stream: frame(DATA, 0, stream)),
    "data-padding": on_stream(lambda stream: frame(DATA, PADDED, stream, b"\x04" + bytes(4))),
    "headers": new_streams(lambda _, stream: frame(HEADERS, END_HEADERS | END_STREAM, stream)),
    "continuation": lambda raw, count: frame(HEADERS, 0, raw.new_stream(), b"\x82") + frame(CONTINUATION, 0, 1) * count,
    "reset": new_streams(lambda raw, stream: raw.head(stream) + frame(RST, 0, stream, RESET)),
    "reset-calls": new_streams(lambda raw, stream: raw.call(ASKED.SerializeToString(), stream)[1] + frame(RST, 0, stream, RESET)),
    "reset-of-an-ended-stream": ended_stream(lambda stream: frame(RST, 0, stream, RESET)),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_flood_ends_with_goaway_enhance_your_calm(serve, other, kind):
    """The GOAWAY has ENHANCE_YOUR_CALM for all kinds of frames. The client reads the server's frames."""
    flood = FLOODS[kind]
    # Points are refilled while the machine halts the client; no halt lasts long enough to matter. 10,000 frames of the
    # first two kinds are too many. Their bytes alone are too many from 90,000 on.
    hundreds = 600 if kind in ("priority", "unknown") else 20000
    with RawH2(serve.grpc_port) as raw:
        code = None
        for _ in range(hundreds):
            if code is not None:
                break
            raw.send_repeatedly(flood(raw, 100), 1)
            code = goaway_so_far(raw)
        assert (read_to_end(raw) if code is None else code) == CALM
        assert other.is_served()


def goaway_so_far(raw):
    """Returns the error code of a GOAWAY among the received frames, or None."""
    raw.socket.setblocking(False)
    try:
        while got := raw.read_frame():
            if got[0] == GOAWAY:
                return struct.unpack(">I", got[3][4:8])[0]
    except BlockingIOError:
        return None
    finally:
        raw.socket.settimeout(patience(20))
    return "closed without GOAWAY"


def test_unread_acknowledgements_are_limited(serve):
    """With more than 256 unread acknowledgements the client gets a GOAWAY with the reason."""
    with RawH2(serve.grpc_port) as raw:
        raw.send(frame(PING, payload=bytes(8)) * 800)  # less than a window, so that all of it arrives at once
        assert read_to_end(raw) == CALM


def test_empty_data_flood_is_disconnected(serve):
    with RawH2(serve.grpc_port) as raw:
        stream = raw.new_stream()
        raw.send(raw.head(stream))
        raw.send_repeatedly(frame(DATA, 0, stream) * 500, 400)
        assert read_to_end(raw) in (CALM, None)


# ---- windows ----

def test_responses_wait_for_a_zero_window_within_limits():
    """Responses that the client's window does not admit are kept within a limit. The client gets them if it opens the
    window within --slow."""
    data = ASKED.SerializeToString()
    with Serve(rules=RULES, grpc=True, args=["--slow", "10m"]) as patient, \
            RawH2(patient.grpc_port, own_settings=[(INITIAL_WINDOW, 0)]) as raw, RawH2(patient.grpc_port) as other:
        streams = []
        for _ in range(500):
            stream, whole = raw.call(data)
            streams.append(stream)
            raw.send(whole)
        for _ in range(500):
            assert raw.until(HEADERS)[1] & END_STREAM == 0
        stream, whole = other.call(data)
        other.send(whole)
        assert other.answer(stream)[2]["grpc-status"] == "0"
        raw.send(frame(WINDOW, 0, streams[7], struct.pack(">I", 4)))
        assert raw.until(DATA)[2:] == (streams[7], b"\0\0\0\0")
        raw.send(frame(WINDOW, 0, streams[7], struct.pack(">I", 100)))
        _, body, trailers = raw.answer(streams[7])
        assert (body[0], trailers["grpc-status"]) == (len(body) - 1, "0")


def test_overflowing_window_is_an_error(serve):
    with RawH2(serve.grpc_port) as raw:
        raw.send(frame(WINDOW, 0, 0, struct.pack(">I", 0x7fffffff)))
        assert read_to_end(raw) == 3


def test_client_that_does_not_read_is_disconnected(impatient_serve, other):
    """The client sends calls and reads no response. The server stops reading and closes the connection."""
    data = ASKED.SerializeToString()
    with RawH2(impatient_serve.grpc_port, own_settings=[(INITIAL_WINDOW, 0x7fffffff)]) as raw:
        raw.send_repeatedly(frame(WINDOW, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)), 1)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.socket.settimeout(5)
        try:
            while True:
                raw.send(b"".join(raw.call(data)[1] for _ in range(200)))
        except (ConnectionError, socket.timeout):
            pass
        assert other.is_served()


# ---- invalid frames ----

@pytest.mark.parametrize("data", [
    frame(RST, 0, 1, bytes(3)),
    frame(PING, 0, 0, bytes(7)),
    frame(SETTINGS, 0, 0, bytes(5)),
    frame(SETTINGS, ACK, 0, bytes(6)),
    frame(WINDOW, 0, 0, bytes(3)),
    frame(GOAWAY, 0, 0, bytes(7)),
    struct.pack(">I", 16385)[1:] + struct.pack(">BBI", DATA, 0, 1) + bytes(16385),
    frame(DATA, 0, 0, b"x"),
    frame(DATA, 0, 99, b"x"),
    frame(HEADERS, END_HEADERS, 0, b"\x82"),
    frame(HEADERS, END_HEADERS, 2, b"\x82"),
    frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"),
    frame(HEADERS, END_HEADERS | PADDED, 1, b"\x09\x82"),
    frame(CONTINUATION, END_HEADERS, 1, b"\x82"),
    frame(5, END_HEADERS, 1, bytes(8)),
], ids=lambda d: f"{d[3]}-{int.from_bytes(d[:3], 'big')}-{int.from_bytes(d[5:9], 'big')}")
def test_invalid_frames_end_the_connection(serve, data):
    with RawH2(serve.grpc_port) as raw:
        raw.send(data)
        assert read_to_end(raw) not in (0, CALM)


def ended(raw):
    """Makes a call that is answered and whose stream is closed."""
    stream, whole = raw.call(ASKED.SerializeToString())
    raw.send(whole)
    raw.answer(stream)
    return stream


@pytest.mark.parametrize("late", [
    lambda raw, stream: frame(DATA, 0, stream, b"x"),
    lambda raw, stream: frame(DATA, END_STREAM, stream),
    lambda raw, stream: raw.head(stream),
    lambda raw, stream: raw.head(stream, end=True, fields=[("x", "y")]),
], ids=["data", "end", "headers", "trailers"])
def test_frames_for_an_ended_stream_are_an_error(serve, late):
    """RFC 9113, 5.1: an error, for a stream that was answered and for one that the client has reset."""
    with RawH2(serve.grpc_port) as raw:
        stream = ended(raw)
        raw.send(late(raw, stream))
        assert read_to_end(raw) == STREAM_CLOSED
    with RawH2(serve.grpc_port) as raw:
        stream = raw.new_stream()
        raw.send(raw.head(stream) + frame(RST, 0, stream, struct.pack(">I", 8)) + frame(PING, payload=bytes(8)))
        assert raw.until(PING)
        raw.send(late(raw, stream))
        assert read_to_end(raw) == STREAM_CLOSED


def test_stream_number_below_the_newest_is_an_error(serve):
    """RFC 9113, 5.1.1: stream numbers increase."""
    with RawH2(serve.grpc_port) as raw:
        raw.next_stream = 5
        ended(raw)
        raw.send(raw.head(3))
        assert read_to_end(raw) == PROTOCOL


def test_late_frames_of_ended_streams_are_ignored(serve):
    """RST_STREAM, WINDOW_UPDATE and PRIORITY of an ended stream, and the rest of a call that was refused early."""
    with RawH2(serve.grpc_port) as raw:
        for _ in range(50):
            stream = ended(raw)
            raw.send(frame(RST, 0, stream, bytes(4)) + frame(WINDOW, 0, stream, struct.pack(">I", 1)) +
                     frame(PRIORITY, 0, stream, bytes(5)))
            refused = raw.new_stream()
            raw.send(raw.head(refused) + frame(DATA, 0, refused, b"\0\0\x02\0\x01"))
            assert raw.answer(refused)[2]["grpc-status"] == "8"
            assert raw.until(RST, refused)[3] == bytes(4)
            raw.send(frame(DATA, 0, refused, b"x" * 100) + frame(DATA, END_STREAM, refused, b"x"))
        assert ended(raw)


@pytest.mark.parametrize("data, code", [
    (frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    (frame(PRIORITY, 0, 1, bytes(4)), FRAME_SIZE),
    (frame(PRIORITY, 0, 1, bytes(6)), FRAME_SIZE),
    (frame(PRIORITY, 0, 3, bytes([0, 0, 0, 3, 15])), PROTOCOL),
], ids=["stream-0", "short", "long", "itself"])
def test_invalid_priority_is_an_error(serve, data, code):
    with RawH2(serve.grpc_port) as raw:
        raw.send(data)
        assert read_to_end(raw) == code


def test_padding_longer_than_the_frame_is_an_error(serve):
    with RawH2(serve.grpc_port) as raw:
        stream = raw.new_stream()
        raw.send(raw.head(stream) + frame(DATA, PADDED, stream, b"\xff" + b"x" * 20))
        assert read_to_end(raw) == 1


def test_wrong_content_length_is_an_error(serve):
    with RawH2(serve.grpc_port) as raw:
        stream, whole = raw.call(b"abc", extra=[("content-length", "3")])
        raw.send(whole)
        assert raw.until(RST, stream) is not None


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00" * 9,
                                   PREFACE[:-1] + b"X", PREFACE + frame(PING, payload=bytes(8)),
                                   random.Random(64).randbytes(64)],
                         ids=["http1", "tls", "preface", "no-settings", "noise"])
def test_client_without_http2_is_disconnected(serve, start):
    with RawH2(serve.grpc_port, greet=False) as raw:
        raw.send(start)
        read_to_end(raw)


@pytest.mark.parametrize("rest", [b"", PREFACE[:10], PREFACE, PREFACE + b"\0\0\x09\x01"],
                         ids=["nothing", "half-preface", "no-settings", "half-frame"])
def test_client_that_stops_in_the_preface_is_disconnected(impatient_serve, rest):
    with RawH2(impatient_serve.grpc_port, greet=False) as raw:
        with contextlib.suppress(ConnectionError):  # the server may have closed it already
            raw.send(rest)
        read_to_end(raw)


def test_half_a_call_is_disconnected(impatient_serve, other):
    """One client sends headers and half of a message, another one half of a header block."""
    with RawH2(impatient_serve.grpc_port) as message, RawH2(impatient_serve.grpc_port) as block:
        stream = message.new_stream()
        message.send_repeatedly(message.head(stream) + frame(DATA, 0, stream, b"\0\0\0\x10\0abc"), 1)
        block.send_repeatedly(frame(HEADERS, 0, 1, block.encoder.encode(block.fields())), 1)
        assert other.is_served()
        read_to_end(message)
        read_to_end(block)


def test_other_calls_do_not_extend_the_timeout_of_half_a_call(impatient_serve):
    """A call has --slow from its first byte to its last, whatever other calls end in this time."""
    data = ASKED.SerializeToString()
    with RawH2(impatient_serve.grpc_port) as raw:
        half = raw.new_stream()
        raw.send(raw.head(half) + frame(DATA, 0, half, b"\0\0\0\x10\0abc"))

        def cut():
            try:
                stream, whole = raw.call(data)
                raw.send(whole + frame(DATA, 0, half, b"x"))
                return raw.answer(stream)[2]["grpc-status"] != "0"
            except ConnectionError:
                return True

        wait_for(cut, "the connection to be cut")


def test_client_disconnects_in_a_frame(serve):
    """Calls that end at random bytes leave no open connection."""
    lengths = random.Random(300)
    data = ASKED.SerializeToString()
    for _ in range(scaled(300)):
        with RawH2(serve.grpc_port) as raw:
            _, whole = raw.call(data)
            raw.send(whole[:lengths.randrange(len(whole))])
    wait_for(lambda: serve.open_files() < 60, "connections to be closed")


# ---- header fields ----

def test_huge_header_fields_are_refused(serve):
    """Many small fields, one large field, and more than a header block may have."""
    with RawH2(serve.grpc_port) as raw:
        stream, whole = raw.call(ASKED.SerializeToString(),
                                 extra=[(f"x-{i}", "v" * 20) for i in range(100)])
        raw.send(whole)
        assert raw.answer(stream)[2]["grpc-status"] == "0"
        for extra in ([(f"x-{i}", "v" * 20) for i in range(400)], [("x-large", "v" * 15000), ("y-large", "v" * 15000)]):
            fields = raw.encoder.encode(raw.fields(extra=extra))
            stream = raw.new_stream()
            raw.send(frame(HEADERS, END_STREAM, stream, fields[:16000]) +
                     frame(CONTINUATION, END_HEADERS, stream, fields[16000:]))
            trailers = raw.answer(stream)[2]
            assert trailers["grpc-status"] == "8" and "16384" in trailers["grpc-message"]
        fields = raw.encoder.encode(raw.fields(extra=[(f"large-{i}", "v" * 14000) for i in range(5)]))
        stream = raw.new_stream()
        raw.send(frame(HEADERS, END_STREAM, stream, fields[:16000]) +
                 b"".join(frame(CONTINUATION, END_HEADERS if at == 48000 else 0, stream, fields[at:at + 16000])
                          for at in (16000, 32000, 48000)))
        assert raw.until(RST, stream) is not None
        stream, whole = raw.call(ASKED.SerializeToString())
        raw.send(whole)
        assert raw.answer(stream)[2]["grpc-status"] == "0"


def test_hpack_bomb_is_disconnected(serve, other):
    """A value of 4,000 bytes in the table is referenced 16,000 times by one byte each."""
    with RawH2(serve.grpc_port) as raw:
        first = raw.head(1, fields=raw.fields(extra=[("x-bomb", "v" * 3900)]))
        raw.send(first)
        index = bytes([0x80 | 62])
        raw.send(frame(HEADERS, END_HEADERS, 3, b"\x83\x86\x84" + index * 16000))
        assert raw.until(RST, 3) is not None
        assert other.is_served()


# ---- streams ----

def test_streams_above_the_limit_are_refused():
    """The timeout is long, so that the calls are not disconnected as incomplete."""
    with Serve(rules=RULES, grpc=True, args=["--slow", "10m"]) as patient:
        with RawH2(patient.grpc_port) as raw, RawH2(patient.grpc_port) as other:
            got = raw.until(SETTINGS)
            announced = dict(struct.iter_unpack(">HI", got[3]))
            assert announced[3] == 1024
            raw.open_streams(1100)
            stream, whole = other.call(ASKED.SerializeToString())
            other.send(whole)
            assert other.answer(stream)[2]["grpc-status"] == "0"
            assert read_to_end(raw) == PROTOCOL
        with RawH2(patient.grpc_port) as raw:  # before the client has acknowledged the server's SETTINGS
            raw.open_streams(1100)
            refused = raw.until(RST, 2049)
            assert refused[3] == struct.pack(">I", REFUSED)


def test_open_streams_are_disconnected_after_the_slow_timeout(impatient_serve, other):
    """1,000 calls without an end: after --slow the connection is closed."""
    with RawH2(impatient_serve.grpc_port) as raw:
        raw.open_streams(1000)
        assert other.is_served()
        assert read_to_end(raw) is None


def watch(raw):
    """Opens a health watch. Returns its stream."""
    stream = raw.new_stream()
    raw.send(raw.head(stream, path="/grpc.health.v1.Health/Watch") + frame(DATA, END_STREAM, stream, grpc_message(b"")))
    return stream


def test_watches_of_a_connection_are_limited(serve):
    """A connection may have 32 watches and reflection streams. One that ends makes room."""
    with RawH2(serve.grpc_port) as raw:
        watches = [watch(raw) for _ in range(31)]
        reflection = raw.new_stream()
        raw.send(raw.head(reflection, path="/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"))
        for stream in watches:
            assert raw.until(DATA, stream)[3] == b"\0\0\0\0\x02\x08\x01"
        assert raw.answer(watch(raw))[2]["grpc-status"] == "8"
        raw.send(frame(RST, 0, watches[0], bytes(4)))
        assert raw.until(DATA, watch(raw))[3] == b"\0\0\0\0\x02\x08\x01"


def test_memory_of_unsent_responses_is_bounded_per_loop():
    """100 connections have 1,000 calls each whose responses cannot be sent; they would take 150 MB. A loop keeps at
    most 64 MiB: it closes the connections with the most, serves another client, and frees the memory."""
    count = scaled(100)
    with Serve(rules=RULES, grpc=True, threads=1, args=["--slow", "10m"]) as one, \
            RawH2(one.grpc_port) as other, contextlib.ExitStack() as stack:
        def served():
            stream, whole = other.call(ASKED.SerializeToString())
            other.send(whole)
            return other.answer(stream)[2]["grpc-status"] == "0"

        assert served()
        before = one.resident_kib()
        first = RawH2(one.grpc_port, own_settings=[(INITIAL_WINDOW, 0)])
        calls = b"".join(first.call(ASKED.SerializeToString())[1] for _ in range(1000))
        first.__exit__()
        open_ones = []
        for _ in range(count):
            raw = stack.enter_context(RawH2(one.grpc_port, own_settings=[(INITIAL_WINDOW, 0)]))
            raw.send_repeatedly(calls, 1)
            open_ones.append(raw)
            assert served()
        if count == 100:  # a wrapper needs memory of its own
            assert one.resident_kib() - before < 96 * MEGABYTE
            assert "unfinished calls use more than 64 MiB of memory" in one.log()
        for raw in open_ones:
            raw.socket.close()
        assert served()
        if count == 100:
            wait_for(lambda: one.resident_kib() - before < 24 * MEGABYTE, "the memory to go back")


def test_memory_of_incomplete_messages_is_bounded(serve, other):
    """100 streams of 100,000 bytes each do not end: 1 MiB is kept, the other streams are refused."""
    with RawH2(serve.grpc_port) as raw:
        raw.until(SETTINGS)
        streams = [raw.new_stream() for _ in range(100)]
        raw.send(b"".join(raw.head(s) for s in streams))
        raw.socket.settimeout(5)
        try:
            for _ in range(5):
                for stream in streams:
                    raw.send(frame(DATA, 0, stream, b"\0\0\x01\x86\xa0" + bytes(12000)))
        except (ConnectionError, socket.timeout):
            pass
        assert other.is_served()


def test_message_beyond_the_bound_is_refused_before_it_arrives(serve):
    with RawH2(serve.grpc_port) as raw:
        stream = raw.new_stream()
        raw.send(raw.head(stream) + frame(DATA, 0, stream, b"\0\0\x02\0\x01"))
        assert raw.answer(stream)[2]["grpc-status"] == "8"
        assert raw.until(RST, stream)[3] == bytes(4)  # and the client is told to stop sending


def test_unread_reflection_responses_are_bounded(impatient_serve, other):
    """A reflection stream may ask without end, but must read. Unread responses are limited, then the connection is
    closed."""
    path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
    asked = grpc_message(b"\x22\x2benvoy.service.ratelimit.v3.RateLimitService")
    with RawH2(impatient_serve.grpc_port) as raw:
        stream = raw.new_stream()
        raw.send_repeatedly(raw.head(stream, path=path), 1)
        raw.send_repeatedly(frame(DATA, 0, stream, asked), 1000)
        assert other.is_served()
        assert read_to_end(raw) is None


def test_connection_with_a_closed_window_is_disconnected(impatient_serve):
    with RawH2(impatient_serve.grpc_port, own_settings=[(INITIAL_WINDOW, 0)]) as raw:
        raw.send_repeatedly(b"".join(raw.call(ASKED.SerializeToString())[1] for _ in range(10)), 1)
        assert read_to_end(raw) is None
