"""HTTP/2 frame by frame, for frames that no library would send."""

import socket
import struct

import hpack

from . import env

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CALM, REFUSED, FRAME_SIZE, STREAM_CLOSED, PROTOCOL, COMPRESSION, FLOW = 11, 7, 6, 5, 1, 9, 3
METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def frame(kind, flags=0, stream=0, payload=b""):
    """Returns the bytes of a frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(*pairs):
    return frame(SETTINGS, payload=b"".join(struct.pack(">HI", k, v) for k, v in pairs))


def grpc_message(data, flag=0, length=None):
    """Returns a message with the prefix of gRPC."""
    return struct.pack(">BI", flag, len(data) if length is None else length) + data


class RawH2:
    """A connection that has sent the preface and, by default, empty SETTINGS."""

    def __init__(self, port, greet=True, own_settings=()):
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.buffer = b""
        self.next_stream = 1
        self.aside = {}  # frames of streams that were not read yet: [(kind, flags, payload or fields)]
        greeting = PREFACE + settings(*own_settings) if greet else b""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=env.patience(20))
        # The preface is sent at once, because the --slow timer runs. If the test was delayed for longer, the server
        # has closed the connection.
        self.send_repeatedly(greeting, 1)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_repeatedly(self, data, times):
        """Sends the same bytes `times` times without reading. Returns the number of successful sends."""
        for n in range(times):
            try:
                self.socket.sendall(data)
            except (ConnectionError, socket.timeout):
                return n
        return times

    def open_streams(self, count):
        """Opens streams that do not end."""
        try:
            for _ in range(count):
                self.send(self.head(self.new_stream()))
        except ConnectionError:
            pass

    def discard(self):
        """Discards the received frames; keeps the beginning of an incomplete frame."""
        timeout = self.socket.gettimeout()
        self.socket.setblocking(False)
        try:
            while piece := self.socket.recv(1 << 20):
                self.buffer += piece
        except BlockingIOError:
            pass
        self.socket.settimeout(timeout)
        at = 0
        while len(self.buffer) >= at + 9 and len(self.buffer) >= (past := at + 9 + int.from_bytes(self.buffer[at:at + 3], "big")):
            at = past
        self.buffer = self.buffer[at:]

    def fields(self, path=METHOD, extra=(), method="POST", kind="application/grpc"):
        return [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x"),
                *([("content-type", kind)] if kind else []), ("te", "trailers"), *extra]

    def head(self, stream, end=False, fields=None, **kwargs):
        block = self.encoder.encode(fields if fields is not None else self.fields(**kwargs))
        return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block)

    def new_stream(self):
        self.next_stream += 2
        return self.next_stream - 2

    def call(self, data, stream=None, **kwargs):
        """Returns the frames of a whole call as (stream, bytes)."""
        stream = stream or self.new_stream()
        return stream, (self.head(stream, **kwargs) +
                        frame(DATA, END_STREAM, stream, grpc_message(data)))

    def read_frame(self):
        """Returns (kind, flags, stream, payload), or None if the server has closed."""
        while True:
            if len(self.buffer) >= 9:
                length = int.from_bytes(self.buffer[:3], "big")
                if len(self.buffer) >= 9 + length:
                    kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
                    payload = self.buffer[9:9 + length]
                    self.buffer = self.buffer[9 + length:]
                    return kind, flags, stream & 0x7fffffff, payload
            try:
                piece = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not piece:
                return None
            self.buffer += piece

    def until(self, kind, stream=None):
        """Returns the next frame of this kind and skips others; None if the server closes first."""
        for i, (seen, flags, payload) in enumerate(self.aside.get(stream, [])):
            if seen == kind:
                del self.aside[stream][i]
                return kind, flags, stream, payload
        while got := self.read_frame():
            if got[0] == SETTINGS and not got[1] & ACK:
                self.send(frame(SETTINGS, ACK))
            if got[0] == kind and (stream is None or got[2] == stream):
                return got
            self._put_aside(got)
        return None

    def _put_aside(self, got):
        kind, flags, stream, payload = got
        if kind == HEADERS:  # decoded in order of arrival, which the decoder's table needs
            payload = dict(self.decoder.decode(payload))
        if kind in (HEADERS, DATA, RST):
            self.aside.setdefault(stream, []).append((kind, flags, payload))

    def answer(self, stream):
        """Returns (fields, body, trailers) of a stream; for a reset stream (fields or None, body, error code)."""
        head, body = None, b""
        while got := self._next_of(stream):
            kind, flags, payload = got
            if kind == DATA:
                body += payload
                if flags & END_STREAM:
                    return head, body, {}
            elif kind == RST:
                return head, body, int.from_bytes(payload, "big")
            elif flags & END_STREAM:
                return head or payload, body, payload
            else:
                head = payload
        raise ConnectionError(f"closed without an answer; had {head}, {body!r}")

    def _next_of(self, stream):
        """Returns (kind, flags, payload) of the next frame of this stream, and keeps frames of other streams; None if
        closed."""
        while not self.aside.get(stream):
            got = self.read_frame()
            if not got:
                return None
            if got[0] == SETTINGS and not got[1] & ACK:
                self.send(frame(SETTINGS, ACK))
            self._put_aside(got)
        return self.aside[stream].pop(0)

    def goaway(self):
        """Returns (last stream, error code) of the next GOAWAY; None if the server closes without one."""
        got = self.until(GOAWAY)
        return struct.unpack(">II", got[3][:8]) if got else None
