"""An HTTP server whose responses the test writes down, for tests of the client.

    with Scripted() as server:
        server.on("/a", Answer(429, {"Retry-After": "1"}), Answer(200, body=b"ok"))
        ...                                     # the first request gets the first answer; the last one repeats
        first, second = server.seen("/a")       # the requests, with the time of arrival by CLOCK_MONOTONIC
        assert second.at - first.at >= 1.0

An answer can also be a function of the request that returns an Answer."""

import dataclasses
import http.server
import socket
import struct
import threading
import time


@dataclasses.dataclass
class Answer:
    status: int = 200
    fields: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    reset: bool = False  # resets the connection instead of answering
    cut: int = -1  # sends only so many bytes of the body, then resets the connection
    raw: bytes = None  # sends these bytes instead of a response
    hold: threading.Event = None  # waits for the event before the answer
    pause: threading.Event = None  # waits for the event after half of the body


@dataclasses.dataclass
class Seen:
    at: float
    method: str
    path: str
    fields: dict  # names in lower case
    body: bytes
    number: int  # of the request on its connection, from 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests = 0  # on this connection

    def answer(self):
        at = time.monotonic()
        self.requests += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        seen = Seen(at, self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body,
                    self.requests)
        answer = self.server.scripted.note(seen)
        if answer.hold:
            answer.hold.wait(60)
        if answer.reset:
            self.reset()
            return
        if answer.raw is not None:
            self.wfile.write(answer.raw)
            self.reset(graceful=True)
            return
        self.send(answer)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def send(self, answer):
        fields = {"Content-Length": str(len(answer.body)), **answer.fields}
        if answer.status in (204, 304):
            del fields["Content-Length"]
        head = f"HTTP/1.1 {answer.status} Reason\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items()) + "\r\n"
        body = b"" if self.command == "HEAD" or answer.status in (204, 304) else answer.body
        self.wfile.write(head.encode("latin-1"))
        if answer.cut >= 0:
            self.wfile.write(body[:answer.cut])
            self.reset(graceful=True)
        elif answer.pause:
            half = len(body) // 2
            self.wfile.write(body[:half])
            self.wfile.flush()
            answer.pause.wait(60)
            self.wfile.write(body[half:])
        else:
            self.wfile.write(body)

    def reset(self, graceful=False):
        """Ends the connection: with a reset, or so that the bytes that were sent still arrive."""
        self.wfile.flush()
        if not graceful:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass  # clients that are killed break their connections


class Scripted:
    """The server. `.url(path)` is the URL of a path, `.port` its port. `tls` is the SSLContext of a server with TLS."""

    def __init__(self, host="127.0.0.1", tls=None):
        self.lock = threading.Lock()
        self.answers = {}
        self.records = []
        self.server = Server((host, 0), Handler)
        self.server.scripted = self
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.host = host
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def url(self, path):
        return f"http://{self.host}:{self.port}{path}"

    def on(self, path, *answers):
        with self.lock:
            self.answers[path] = list(answers)

    def note(self, seen):
        with self.lock:
            self.records.append(seen)
            answers = self.answers.get(seen.path, [Answer(404)])
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer(seen) if callable(answer) else answer

    def seen(self, path=None):
        with self.lock:
            return [r for r in self.records if path in (None, r.path)]
