"""146 cases of HTTP/2 and HPACK: the default cases of h2spec 2.6, with its numbers. Each case has the frames that are
sent and the reactions that are accepted. h2spec itself is not packaged for Debian. The texts and the code are our own.

Every case has its own connection. To run the cases against another server:
`/usr/bin/python3 -m weirtest.h2cases PORT [together]`."""

import socket
import struct
import sys
from typing import Callable, NamedTuple

from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from .rawh2 import (ACK, COMPRESSION, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW, FRAME_SIZE, GOAWAY, HEADERS, PADDED,
                    PING, PREFACE, PRIORITY, PROTOCOL, PUSH, REFUSED, RST, SETTINGS, STREAM_CLOSED, WINDOW, RawH2, frame, settings)

WITH_PRIORITY = 0x20
CANCEL = 8
WHOLE = END_STREAM | END_HEADERS
TABLE_SIZE, ENABLE_PUSH, MAX_STREAMS, INITIAL_WINDOW, MAX_FRAME, MAX_LIST = range(1, 7)
FILLER_BYTES = 4000
HUFFMAN = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
CODED_NAME = b"\0\x85" + HUFFMAN.encode(b"x-test")  # a literal field that is not indexed
OPAQUE = b"case\0\0\0\0"


class Case(NamedTuple):
    section: str  # h2spec's name of the group, and the number in it
    title: str
    send: Callable  # called with the connection; sends the frames
    accepts: Callable  # called with the connection; returns whether the reaction is accepted


class Connection(RawH2):
    """A client that has exchanged SETTINGS before the case begins. A silent peer ends a wait. Frames are sent one by
    one or, with `together`, in one piece before the client reads."""

    def __init__(self, port, seconds, greet=True, together=False):
        super().__init__(port, greet=False)
        self.socket.settimeout(seconds)
        self.together = together
        self.unsent = b""
        self.port = port
        self.announced = {}
        if greet:
            self.greet()

    def send(self, data):
        self.unsent += data
        if not self.together:
            self.flush()

    def flush(self):
        out, self.unsent = self.unsent, b""
        super().send(out)

    def read_frame(self):
        if self.unsent:
            self.flush()
        return super().read_frame()

    def greet(self):
        """Sends the preface and waits until both sides have acknowledged the SETTINGS of the other."""
        self.send(PREFACE + settings((INITIAL_WINDOW, 65535)))
        acknowledged = seen = False
        while not (acknowledged and seen):
            kind, flags, _, payload = self.next_frame()
            if kind == SETTINGS and flags & ACK:
                acknowledged = True
            elif kind == SETTINGS:
                seen = True
                self.announced = dict(struct.iter_unpack(">HI", payload))
                self.send(frame(SETTINGS, ACK))

    def next_frame(self):
        got = self.read_frame()
        if got is None:
            raise ConnectionError("the server has closed")
        return got

    def plain(self, method="GET", extra=(), without=None):
        """Returns the fields of a usual request."""
        fields = [(":method", method), (":scheme", "http"), (":path", "/"), (":authority", f"127.0.0.1:{self.port}"), *extra]
        return [field for field in fields if field[0] != without]

    def block(self, *args, **kwargs):
        return self.encoder.encode(self.plain(*args, **kwargs))

    def fill(self, count=1):
        """Returns fields that a server ignores."""
        return self.encoder.encode([(f"x-filler-{i}", "x" * FILLER_BYTES) for i in range(count)])

    def get(self, stream=1, flags=WHOLE):
        self.send(frame(HEADERS, flags, stream, self.block()))

    def post(self, stream=1, flags=END_HEADERS, extra=()):
        self.send(frame(HEADERS, flags, stream, self.block("POST", extra)))

    def first(self, kind):
        """Returns the next frame of a kind, or None if the server has closed or is silent."""
        try:
            return self.until(kind)
        except socket.timeout:
            return None


# ---- reactions ----

def closes_or(accepted):
    """Accepts that the server closes the connection, or sends a frame for which `accepted` returns true."""
    def accepts(c):
        try:
            while got := c.read_frame():
                if accepted(*got):
                    return True
        except socket.timeout:
            return False
        return True
    return accepts


def error_code(kind, payload):
    return struct.unpack(">I", payload[4:8] if kind == GOAWAY else payload[:4])[0]


def connection_error(*codes):
    """Accepts a GOAWAY with one of these codes, or a closed connection."""
    return closes_or(lambda kind, _, __, payload: kind == GOAWAY and error_code(kind, payload) in codes)


def stream_error(*codes):
    """Accepts an error of the stream or of the connection."""
    return closes_or(lambda kind, _, __, payload: kind in (GOAWAY, RST) and error_code(kind, payload) in codes)


closes = closes_or(lambda *_: False)


def first_is(kind, true_of=lambda *_: True):
    """Checks the first frame of this kind; other frames are skipped."""
    def accepts(c):
        got = c.first(kind)
        return got is not None and true_of(*got)
    return accepts


def answered(stream=1):
    """Accepts a response on this stream."""
    return first_is(HEADERS, lambda _, __, of, ___: of == stream)


def pong(data=bytes(8)):
    """Accepts the acknowledgement of a PING."""
    return first_is(PING, lambda _, flags, __, payload: flags & ACK and payload == data)


def pong_or_closes(data=bytes(8)):
    """Accepts the acknowledgement of a PING, or a closed connection."""
    return closes_or(lambda kind, flags, _, payload: kind == PING and flags & ACK and payload == data)


acknowledged = first_is(SETTINGS, lambda _, flags, __, ___: flags & ACK)
one_byte = first_is(DATA, lambda _, __, ___, payload: len(payload) == 1)


def after(*steps):
    """Alternates sending and checking, for a case with several exchanges."""
    def accepts(c):
        for step in steps:
            if step(c) is False:
                return False
        return True
    return accepts


# ---- frames to send ----

def raw(*parts):
    return lambda c: c.send(b"".join(parts))


def get(c):
    c.get()


def both(*steps):
    """Returns a function that sends these parts one after the other."""
    def send(c):
        for step in steps:
            step(c)
    return send


def ping(data=bytes(8), flags=0):
    return raw(frame(PING, flags, 0, data))


def set_to(*pairs):
    return raw(settings(*pairs))


def priority(stream, on=0, weight=255):
    return raw(frame(PRIORITY, 0, stream, struct.pack(">IB", on, weight)))


def window(stream, by):
    return raw(frame(WINDOW, 0, stream, struct.pack(">I", by)))


def reset(stream=1, code=CANCEL):
    return raw(frame(RST, 0, stream, struct.pack(">I", code)))


def data(payload=b"text", flags=END_STREAM, stream=1):
    return raw(frame(DATA, flags, stream, payload))


def head(method="GET", flags=WHOLE, stream=1, **kwargs):
    return lambda c: c.send(frame(HEADERS, flags, stream, c.block(method, **kwargs)))


def fields(*pairs, flags=WHOLE, stream=1):
    """Returns a header block with only these fields."""
    return lambda c: c.send(frame(HEADERS, flags, stream, c.encoder.encode(list(pairs))))


def continuation(flags=END_HEADERS, stream=1):
    return lambda c: c.send(frame(CONTINUATION, flags, stream, c.fill()))


def encoded(behind=b"", before=b""):
    """Returns a usual header block with these bytes of HPACK before and after it."""
    return lambda c: c.send(frame(HEADERS, WHOLE, 1, before + c.block() + behind))


def literal(first, name, value, huffman):
    """Returns a literal field with its full name; `first` selects how it is indexed."""
    out = bytes([first])
    for text in (name, value):
        text, flag = (HUFFMAN.encode(text), 0x80) if huffman else (text, 0)
        out += bytes([len(text) | flag]) + text
    return out


def in_parts(*cuts):
    """Returns a header block in HEADERS and CONTINUATION frames, cut at these offsets."""
    def send(c):
        block = c.block()
        parts = [block[a:b] for a, b in zip((0, *cuts), (*cuts, len(block)))]
        out = frame(HEADERS, END_STREAM, 1, parts[0])
        for i, part in enumerate(parts[1:], 2):
            out += frame(CONTINUATION, END_HEADERS if i == len(parts) else 0, 1, part)
        c.send(out)
    return send


def padded_head(c):
    c.send(frame(HEADERS, WHOLE | PADDED, 1, b"\x08" + c.block() + bytes(8)))


def overlong_padding(c):
    block = c.block()
    c.send(frame(HEADERS, WHOLE | PADDED, 1, bytes([len(block) + 2]) + block))


def head_on(stream, on, weight=255):
    """Returns a HEADERS frame with a priority."""
    return lambda c: c.send(frame(HEADERS, WHOLE | WITH_PRIORITY, stream, struct.pack(">IB", on, weight) + c.block()))


def table_size(size):
    """Returns an HPACK update of the table's size."""
    if size < 31:
        return bytes([0x20 | size])
    out, size = b"\x3f", size - 31
    while size >= 128:
        out, size = out + bytes([0x80 | size & 0x7f]), size >> 7
    return out + bytes([size])


def oversized_table(c):
    c.send(frame(HEADERS, WHOLE, 1, table_size(c.announced.get(TABLE_SIZE, 4096) + 1) + c.block()))


def too_many_streams(c):
    """Opens one stream more than announced, with windows that keep their responses from being sent."""
    if MAX_STREAMS not in c.announced:
        raise LookupError("no bound is announced")
    c.send(settings((INITIAL_WINDOW, 0)))
    for i in range(c.announced[MAX_STREAMS] + 1):
        c.get(2 * i + 1)


def stream_ends(c):
    """Accepts a complete response: reads to its end."""
    try:
        while got := c.read_frame():
            kind, flags, _, payload = got
            if (kind in (DATA, HEADERS) and flags & END_STREAM) or (kind == RST and error_code(kind, payload) == 0):
                return True
    except socket.timeout:
        pass
    return False


def filled_head(c):
    c.send(frame(HEADERS, WHOLE, 1, c.block() + c.fill(5)))


def longest_data(extra):
    def send(c):
        c.post()
        c.send(frame(DATA, END_STREAM, 1, b"x" * (c.announced.get(MAX_FRAME, 16384) + extra)))
    return send


def block_continued(c):
    c.send(frame(CONTINUATION, END_HEADERS, 1, c.block()))


def promise(c):
    c.send(frame(PUSH, END_HEADERS, 1, struct.pack(">I", 3) + c.block()))


def empty_path(c):
    pairs = [(name, "" if name == ":path" else value) for name, value in c.plain()]
    c.send(frame(HEADERS, WHOLE, 1, c.encoder.encode(pairs)))


def out_of_order(c):
    c.send(frame(HEADERS, WHOLE, 1, c.encoder.encode([("x-case", "ok"), *c.plain()])))


def greeting(c):
    c.send(PREFACE + settings((INITIAL_WINDOW, 65535)))


def begins_with_settings(c):
    """Accepts SETTINGS as the first frame of the server."""
    try:
        got = c.read_frame()
    except socket.timeout:
        return False
    return got is not None and got[0] == SETTINGS and not got[1] & ACK


UNINDEXED, NEVER, INDEXED = 0x00, 0x10, 0x40
AGENT, NEW = (b"user-agent", b"case"), (b"x-test", b"case")
NO_SETTINGS_YET = ("generic/1/1", "http2/3.5/1", "http2/3.5/2")
UNKNOWN_FRAME = raw(frame(0x16, 0, 0, bytes(8)))
HEAD_OPEN = head(flags=END_HEADERS)


def group(section, *cases):
    """Returns the cases of a section, numbered."""
    return [Case(f"{section}/{i}", *case) for i, case in enumerate(cases, 1)]


def literals():
    """Twelve forms of a literal field: how it is indexed, a name of the static table or a new one, coded or not."""
    return [(f"literal field {indexing}, {kind}{', Huffman code' if huffman else ''}",
             encoded(behind=literal(first, *pair, huffman)), answered())
            for indexing, first in (("with indexing", INDEXED), ("without indexing", UNINDEXED), ("never indexed", NEVER))
            for kind, pair in (("known name", AGENT), ("new name", NEW))
            for huffman in (False, True)]


GENERIC = [
    *group("generic/1", ("the server's SETTINGS come first", greeting, begins_with_settings)),
    *group(
        "generic/2",
        ("PRIORITY on an idle stream", both(priority(1), ping()), pong()),
        ("WINDOW_UPDATE on a half-closed stream", both(set_to((INITIAL_WINDOW, 0)), get, window(1, 1)), first_is(DATA)),
        ("PRIORITY on a half-closed stream", both(set_to((INITIAL_WINDOW, 0)), get, priority(1), window(1, 1)), first_is(DATA)),
        ("RST_STREAM on a half-closed stream", both(get, reset(), ping()), pong_or_closes()),
        ("PRIORITY on a closed stream", get, after(stream_ends, both(priority(1), ping()), pong()))),
    *group(
        "generic/3.1",
        ("DATA", both(head("POST", END_HEADERS), data()), answered()),
        ("DATA twice", both(head("POST", END_HEADERS), data(flags=0), data()), answered()),
        ("DATA with padding", both(head("POST", END_HEADERS), data(b"\x06text" + bytes(6), END_STREAM | PADDED)), answered())),
    *group(
        "generic/3.2",
        ("HEADERS", get, answered()),
        ("HEADERS with padding", padded_head, answered()),
        ("HEADERS with priority", head_on(1, 0), answered())),
    *group(
        "generic/3.3",
        ("PRIORITY of 1", both(priority(1, weight=0), get), answered()),
        ("PRIORITY of 256", both(priority(1), get), answered()),
        ("PRIORITY with a dependency", both(priority(3, on=1, weight=0), get), answered()),
        ("exclusive PRIORITY", both(priority(1, on=1 << 31, weight=0), get), answered()),
        ("PRIORITY on an idle stream, then a lower stream", both(priority(3), get), answered())),
    *group("generic/3.4", ("RST_STREAM", both(HEAD_OPEN, reset(), ping()), pong_or_closes())),
    *group("generic/3.5", ("SETTINGS", set_to((TABLE_SIZE, 4096), (ENABLE_PUSH, 1), (MAX_STREAMS, 100), (INITIAL_WINDOW, 65535),
                                              (MAX_FRAME, 16384), (MAX_LIST, 100)), acknowledged)),
    *group("generic/3.7", ("PING", ping(OPAQUE), pong(OPAQUE))),
    *group("generic/3.8", ("GOAWAY", both(raw(frame(GOAWAY, 0, 0, bytes(8) + b"case")), ping(OPAQUE)), pong_or_closes(OPAQUE))),
    *group(
        "generic/3.9",
        ("WINDOW_UPDATE of the connection", both(window(0, 1), ping()), first_is(PING)),
        ("WINDOW_UPDATE of a stream", both(get, window(1, 1)), first_is(HEADERS))),
    *group(
        "generic/3.10",
        ("CONTINUATION", in_parts(5), answered()),
        ("CONTINUATION twice", in_parts(5, 10), answered())),
    *group(
        "generic/4",
        ("GET", get, answered()),
        ("HEAD", head("HEAD"), answered()),
        ("POST", both(head("POST", END_HEADERS), data()), answered()),
        ("POST with trailers", both(head("POST", END_HEADERS, extra=[("trailer", "x-case")]), data(flags=0),
                                    fields(("x-case", "ok"))), answered())),
    *group(
        "generic/5",
        ("indexed field", encoded(behind=b"\xba"), answered()),
        *literals(),
        ("size of the table", encoded(before=table_size(0)), answered()),
        ("size of the table twice", encoded(before=table_size(0) + table_size(4096)), answered())),
]

HTTP2 = [
    *group(
        "http2/3.5",
        ("the server's SETTINGS come first", greeting, begins_with_settings),
        ("a preface that is none", raw(b"THIS IS NO HTTP/2 PREFACE\r\n\r\n"), closes)),
    *group(
        "http2/4.1",
        ("frame of an unknown type", both(UNKNOWN_FRAME, ping()), first_is(PING)),
        ("unknown flags", ping(flags=0x16), first_is(PING)),
        ("reserved bit", raw(frame(PING, 0x16, 1 << 31, bytes(8))), first_is(PING))),
    *group(
        "http2/4.2",
        ("DATA as long as may be", longest_data(0), first_is(HEADERS)),
        ("DATA beyond that", longest_data(1), stream_error(FRAME_SIZE)),
        ("HEADERS beyond that", filled_head, connection_error(FRAME_SIZE))),
    *group(
        "http2/4.3",
        ("field without a name", raw(frame(HEADERS, WHOLE, 1, b"\x40")), connection_error(COMPRESSION)),
        ("PRIORITY within a block", both(head(flags=0), priority(1), continuation()), connection_error(PROTOCOL)),
        ("HEADERS of another stream within a block", both(head(flags=0), head(stream=3), continuation()),
         connection_error(PROTOCOL))),
    *group(
        "http2/5.1",
        ("idle: DATA", data(), connection_error(PROTOCOL)),
        ("idle: RST_STREAM", reset(), connection_error(PROTOCOL)),
        ("idle: WINDOW_UPDATE", window(1, 100), connection_error(PROTOCOL)),
        ("idle: CONTINUATION", block_continued, connection_error(PROTOCOL)),
        ("half-closed: DATA", both(get, data()), stream_error(STREAM_CLOSED)),
        ("half-closed: HEADERS", both(get, get), stream_error(STREAM_CLOSED)),
        ("half-closed: CONTINUATION", both(get, block_continued), stream_error(STREAM_CLOSED, PROTOCOL)),
        ("reset: DATA", both(HEAD_OPEN, reset(), data()), stream_error(STREAM_CLOSED)),
        ("reset: HEADERS", both(HEAD_OPEN, reset(), get), stream_error(STREAM_CLOSED)),
        ("reset: CONTINUATION", both(HEAD_OPEN, reset(), continuation()), stream_error(STREAM_CLOSED, PROTOCOL)),
        ("closed: DATA", get, after(stream_ends, data(), stream_error(STREAM_CLOSED))),
        ("closed: HEADERS", get, after(stream_ends, get, connection_error(STREAM_CLOSED))),
        ("closed: CONTINUATION", get, after(stream_ends, continuation(), connection_error(STREAM_CLOSED, PROTOCOL)))),
    *group(
        "http2/5.1.1",
        ("even stream", head(stream=2), connection_error(PROTOCOL)),
        ("lower stream than before", both(head(stream=5), head(stream=3)), connection_error(PROTOCOL))),
    *group("http2/5.1.2", ("more streams than announced", too_many_streams, stream_error(PROTOCOL, REFUSED))),
    *group(
        "http2/5.3.1",
        ("HEADERS that depend on themselves", head_on(1, 1), stream_error(PROTOCOL)),
        ("PRIORITY that depends on itself", priority(1, on=1), stream_error(PROTOCOL))),
    *group("http2/5.4.1", ("the connection closes after an error", raw(frame(PING, 0, 3, bytes(8))), closes)),
    *group(
        "http2/5.5",
        ("frame of an unknown type", both(UNKNOWN_FRAME, ping()), first_is(PING)),
        ("… within a block", both(head(flags=END_STREAM), UNKNOWN_FRAME), connection_error(PROTOCOL))),
    *group(
        "http2/6.1",
        ("DATA of stream 0", data(stream=0), connection_error(PROTOCOL)),
        ("DATA of a half-closed stream", both(head("POST"), data()), stream_error(STREAM_CLOSED)),
        ("more padding than DATA", both(head("POST", END_HEADERS, extra=[("content-length", "4")]),
                                        data(b"\x06text", END_STREAM | PADDED)), connection_error(PROTOCOL))),
    *group(
        "http2/6.2",
        ("PRIORITY within a block", both(head(flags=0), priority(1), continuation()), connection_error(PROTOCOL)),
        ("HEADERS of another stream within a block", both(head(flags=0), head(stream=3), continuation()),
         connection_error(PROTOCOL)),
        ("HEADERS of stream 0", head(stream=0), connection_error(PROTOCOL)),
        ("more padding than HEADERS", overlong_padding, stream_error(PROTOCOL))),
    *group(
        "http2/6.3",
        ("PRIORITY of stream 0", priority(0), connection_error(PROTOCOL)),
        ("PRIORITY of 4 bytes", both(get, raw(frame(PRIORITY, 0, 1, b"\x80\0\0\x01"))), stream_error(FRAME_SIZE))),
    *group(
        "http2/6.4",
        ("RST_STREAM of stream 0", reset(0), connection_error(PROTOCOL)),
        ("RST_STREAM of an idle stream", reset(1), connection_error(PROTOCOL)),
        ("RST_STREAM of 3 bytes", both(get, raw(frame(RST, 0, 1, bytes(3)))), stream_error(FRAME_SIZE))),
    *group(
        "http2/6.5",
        ("acknowledgement with a payload", raw(frame(SETTINGS, ACK, 0, b"\0")), connection_error(FRAME_SIZE)),
        ("SETTINGS of stream 1", raw(frame(SETTINGS, 0, 1, struct.pack(">HI", MAX_STREAMS, 100))), connection_error(PROTOCOL)),
        ("SETTINGS of 9 bytes, of which 8 come", raw(frame(SETTINGS, 0, 0, struct.pack(">HIH", MAX_STREAMS, 100, 2) + b"\0")[:-1]),
         stream_error(PROTOCOL, FRAME_SIZE))),
    *group(
        "http2/6.5.2",
        ("ENABLE_PUSH of 2", set_to((ENABLE_PUSH, 2)), connection_error(PROTOCOL)),
        ("INITIAL_WINDOW_SIZE of 2^31", set_to((INITIAL_WINDOW, 1 << 31)), connection_error(FLOW)),
        ("MAX_FRAME_SIZE of 16383", set_to((MAX_FRAME, 16383)), connection_error(PROTOCOL)),
        ("MAX_FRAME_SIZE of 2^24", set_to((MAX_FRAME, 1 << 24)), connection_error(PROTOCOL)),
        ("unknown setting", both(set_to((0xff, 1)), ping()), first_is(PING))),
    *group(
        "http2/6.5.3",
        ("the last of two values holds", set_to((INITIAL_WINDOW, 100), (INITIAL_WINDOW, 1)), after(acknowledged, get, one_byte)),
        ("SETTINGS are acknowledged", set_to((ENABLE_PUSH, 0)), acknowledged)),
    *group(
        "http2/6.7",
        ("PING", ping(OPAQUE), pong(OPAQUE)),
        ("PING with ACK has no answer", both(ping(b"no reply", ACK), ping(OPAQUE)), pong(OPAQUE)),
        ("PING of stream 1", raw(frame(PING, 0, 1, bytes(8))), connection_error(PROTOCOL)),
        ("PING of 6 bytes", ping(bytes(6)), connection_error(FRAME_SIZE))),
    *group("http2/6.8", ("GOAWAY of stream 1", raw(frame(GOAWAY, 0, 1, bytes(8))), connection_error(PROTOCOL))),
    *group(
        "http2/6.9",
        ("WINDOW_UPDATE by 0", window(0, 0), connection_error(PROTOCOL)),
        ("WINDOW_UPDATE of a stream by 0", both(HEAD_OPEN, window(1, 0)), stream_error(PROTOCOL)),
        ("WINDOW_UPDATE of 3 bytes", raw(frame(WINDOW, 0, 0, b"\0\0\x01")), connection_error(FRAME_SIZE))),
    *group(
        "http2/6.9.1",
        ("no more DATA than the window", set_to((INITIAL_WINDOW, 1)), after(acknowledged, get, one_byte)),
        ("a window above 2^31-1", both(window(0, (1 << 31) - 1), window(0, (1 << 31) - 1)),
         first_is(GOAWAY, lambda kind, _, __, payload: error_code(kind, payload) == FLOW)),
        ("a stream's window above 2^31-1", both(HEAD_OPEN, window(1, (1 << 31) - 1), window(1, (1 << 31) - 1)),
         first_is(RST, lambda kind, _, stream, payload: stream == 1 and error_code(kind, payload) == FLOW))),
    *group(
        "http2/6.9.2",
        ("a new initial window opens streams", set_to((INITIAL_WINDOW, 0)),
         after(acknowledged, both(get, set_to((INITIAL_WINDOW, 1))), one_byte)),
        ("a negative window", set_to((INITIAL_WINDOW, 3)),
         after(acknowledged, get, first_is(DATA), set_to((INITIAL_WINDOW, 2)), acknowledged, window(1, 2), one_byte)),
        ("an initial window of 2^31", set_to((INITIAL_WINDOW, 1 << 31)), connection_error(FLOW))),
    *group(
        "http2/6.10",
        ("CONTINUATION twice", both(head(flags=END_STREAM), continuation(0), continuation()), first_is(HEADERS)),
        ("DATA behind CONTINUATION", both(head("POST", 0), continuation(0), data()), connection_error(PROTOCOL)),
        ("CONTINUATION of stream 0", both(head(flags=END_STREAM), continuation(stream=0)), connection_error(PROTOCOL)),
        ("CONTINUATION behind whole HEADERS", both(get, continuation()), connection_error(PROTOCOL)),
        ("CONTINUATION behind the last one", both(head(flags=END_STREAM), continuation(), continuation()),
         connection_error(PROTOCOL)),
        ("CONTINUATION behind DATA", both(head("POST", 0), data(), continuation(0), continuation(stream=0)),
         connection_error(PROTOCOL))),
    *group(
        "http2/7",
        ("GOAWAY with an unknown code", both(raw(frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0xff))), ping(OPAQUE)),
         pong_or_closes(OPAQUE)),
        ("RST_STREAM with an unknown code", both(head("POST", END_HEADERS), reset(code=0xff), ping()), pong())),
    *group("http2/8.1", ("second HEADERS without END_STREAM",
                         both(head("POST", END_HEADERS), data(flags=0), fields(("x-case", "ok"), flags=END_HEADERS)),
                         stream_error(PROTOCOL))),
    *group("http2/8.1.2", ("name in upper case", head(extra=[("X-CASE", "ok")]), stream_error(PROTOCOL))),
    *group(
        "http2/8.1.2.1",
        ("unknown pseudo-header field", head(extra=[(":case", "ok")]), stream_error(PROTOCOL)),
        ("pseudo-header field of an answer", head(extra=[(":status", "200")]), stream_error(PROTOCOL)),
        ("pseudo-header field in trailers",
         both(head("POST", END_HEADERS), data(flags=0), fields((":method", "POST"), flags=END_HEADERS)), stream_error(PROTOCOL)),
        ("pseudo-header field behind others", out_of_order, stream_error(PROTOCOL))),
    *group(
        "http2/8.1.2.2",
        ("connection", head(extra=[("connection", "keep-alive")]), stream_error(PROTOCOL)),
        ("TE other than trailers", head(extra=[("trailers", "case"), ("te", "trailers, deflate")]), stream_error(PROTOCOL))),
    *group(
        "http2/8.1.2.3",
        ("empty :path", empty_path, stream_error(PROTOCOL)),
        ("no :method", head(without=":method"), stream_error(PROTOCOL)),
        ("no :scheme", head(without=":scheme"), stream_error(PROTOCOL)),
        ("no :path", head(without=":path"), stream_error(PROTOCOL)),
        ("two of :method", head(extra=[(":method", "GET")]), stream_error(PROTOCOL)),
        ("two of :scheme", head(extra=[(":scheme", "http")]), stream_error(PROTOCOL)),
        ("two of :path", head(extra=[(":path", "/")]), stream_error(PROTOCOL))),
    *group(
        "http2/8.1.2.6",
        ("content-length of other DATA", both(head("POST", END_HEADERS, extra=[("content-length", "1")]), data()),
         stream_error(PROTOCOL)),
        ("content-length of other DATA, in two frames",
         both(head("POST", END_HEADERS, extra=[("content-length", "1")]), data(flags=0), data()), stream_error(PROTOCOL))),
    *group("http2/8.2", ("PUSH_PROMISE of a client", promise, connection_error(PROTOCOL))),
]

HPACK = [
    *group(
        "hpack/2.3.3",
        ("index beyond the tables", encoded(behind=b"\xc6"), connection_error(COMPRESSION)),
        ("literal field with such an index", encoded(behind=b"\x7f\x07\0"), connection_error(COMPRESSION))),
    *group("hpack/4.2", ("size of the table at the end", encoded(behind=table_size(1)), connection_error(COMPRESSION))),
    *group(
        "hpack/5.2",
        ("Huffman code with 8 bits of padding", encoded(behind=CODED_NAME + b"\x84\x49\x50\x9f\xff"), connection_error(COMPRESSION)),
        ("Huffman code with zeros as padding", encoded(behind=CODED_NAME + b"\x83\x49\x50\x90"), connection_error(COMPRESSION)),
        ("Huffman code with EOS in it", encoded(behind=CODED_NAME + b"\x87\xff\xff\xff\xfd\x25\x42\x7f"),
         connection_error(COMPRESSION))),
    *group("hpack/6.1", ("index 0", encoded(behind=b"\x80"), connection_error(COMPRESSION))),
    *group("hpack/6.3", ("table larger than announced", oversized_table, connection_error(COMPRESSION))),
]

CASES = GENERIC + HTTP2 + HPACK


def holds(case, port, seconds, together=False):
    """Returns whether the server at this port passes a case. The server may be silent for this many seconds."""
    with Connection(port, seconds, case.section not in NO_SETTINGS_YET, together) as connection:
        try:
            case.send(connection)
        except LookupError:
            return False
        except ConnectionError:
            pass  # the server closed first
        try:
            return bool(case.accepts(connection))
        except ConnectionError:
            return True


def main():
    port, together = int(sys.argv[1]), "together" in sys.argv[2:]
    failed = [case for case in CASES if not holds(case, port, 2, together)]
    for case in failed:
        print(f"failed: {case.section} {case.title}")
    print(f"{len(CASES) - len(failed)} of {len(CASES)} passed")


if __name__ == "__main__":
    main()
