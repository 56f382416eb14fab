"""HTTP/2 with python3-h2: in plain text with prior knowledge, or by ALPN over TLS."""

from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from .http1 import Response, connect


@dataclass
class _Stream:
    headers: list = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    done: bool = False
    reset: int = None


class H2:
    """One connection.

        with H2(nginx.h2c_port) as c:
            r = c.get("/x")
            ids = [c.send("GET", "/y") for _ in range(50)]     # at once, as streams
            answers = [c.read(i) for i in ids]
    """

    def __init__(self, where, tls=False, timeout=None):
        self.socket = connect(where, tls=tls, alpn=["h2"] if tls else (), timeout=timeout)
        if tls and self.socket.selected_alpn_protocol() != "h2":
            raise AssertionError(f"ALPN chose {self.socket.selected_alpn_protocol()}, not h2")
        self.scheme = "https" if tls else "http"
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8",
                                           validate_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.streams = {}
        self.gone = self.last_stream = None  # from a GOAWAY
        self._flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def _flush(self):
        if data := self.h2.data_to_send():
            self.socket.sendall(data)

    def send(self, method, target, headers=(), body=None, authority="localhost", end=True):
        """Sends a request and returns its stream. With `end=False`, `more` sends the rest of the body."""
        stream = self._queue(method, target, headers, authority, end and body is None)
        self._flush()
        if body is not None:
            self.more(stream, body, end)
        return stream

    def send_together(self, requests):
        """Sends requests (method, target, headers) with one write, so the server reads them together; returns their
        streams."""
        streams = [self._queue(*request) for request in requests]
        self._flush()
        return streams

    def _queue(self, method, target, headers=(), authority="localhost", end=True):
        """Adds the HEADERS of a request to the bytes to send. Returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", self.scheme), (":authority", authority),
                  (":path", target)]
        fields += [(k.lower(), v) for k, v in
                   (headers.items() if isinstance(headers, dict) else headers)]
        self.streams[stream] = _Stream()
        self.h2.send_headers(stream, fields, end_stream=end)
        return stream

    def more(self, stream, body, end=True):
        """Sends a part of a body as fast as flow control allows. Stops when the server has answered."""
        at = 0
        while at < len(body) and not self.streams[stream].done:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0:
                self._receive()
                continue
            self.h2.send_data(stream, body[at:at + room])
            self._flush()
            at += room
        if end and not self.streams[stream].done:
            self.h2.end_stream(stream)
            self._flush()

    def cancel(self, stream):
        """Resets the stream, unless the server has reset it."""
        try:
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
        except h2.exceptions.StreamClosedError:
            return
        self._flush()

    def wait_gone(self):
        """Waits for the server's GOAWAY."""
        while self.gone is None:
            self._receive()

    def _receive(self):
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionResetError("the server closed the HTTP/2 connection")
        for event in self.h2.receive_data(data):
            self._on(event)
        self._flush()

    def _on(self, event):
        """Updates the stream of an event."""
        stream = self.streams.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.ConnectionTerminated):
            self.gone, self.last_stream = event.error_code, event.last_stream_id
        elif stream is None:
            return
        elif isinstance(event, h2.events.ResponseReceived):
            stream.headers = event.headers
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            stream.done = True
        elif isinstance(event, h2.events.StreamReset):
            stream.done, stream.reset = True, event.error_code

    def read(self, stream):
        """Returns the response of a stream."""
        while not self.streams[stream].done:
            self._receive()
        found = self.streams[stream]
        if not found.headers:
            raise ConnectionResetError(f"stream {stream} was reset: {found.reset}")
        status = int(dict(found.headers)[":status"])
        fields = [(k, v) for k, v in found.headers if not k.startswith(":")]
        return Response("HTTP/2", status, "", fields, bytes(found.body))

    def request(self, method, target, headers=(), body=None, **kwargs):
        return self.read(self.send(method, target, headers, body, **kwargs))

    def get(self, target, headers=(), **kwargs):
        return self.request("GET", target, headers, **kwargs)
