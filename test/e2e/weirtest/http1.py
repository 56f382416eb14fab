"""HTTP/1.x without a library: a test sets every byte of a request and sees every byte of a response. `Client` is one
blocking connection; load.py has many at once."""

import socket
import ssl
from dataclasses import dataclass, field

from . import env, tokens


@dataclass
class Response:
    version: str
    status: int
    reason: str
    headers: list = field(default_factory=list)  # (name, value) in order of arrival
    body: bytes = b""

    def get(self, name, default=None):
        """Returns the value of a field; the case of its name does not matter. Several values are joined by `, `."""
        values = self.all(name)
        return ", ".join(values) if values else default

    def all(self, name):
        return [v for k, v in self.headers if k.lower() == name.lower()]

    def names(self):
        return [k.lower() for k, _ in self.headers]


class Closed(Exception):
    """The connection ended before a complete response. `.got` is the received part."""

    def __init__(self, got):
        super().__init__(f"connection closed, {len(got)} bytes of a response came: {got[:200]!r}")
        self.got = bytes(got)


class Parser:
    """Parses responses. `next` returns a Response when one is complete, else None. `expect` sets the method of each
    request, because a response to HEAD has no body."""

    def __init__(self):
        self.buffer = bytearray()
        self.methods = []

    def expect(self, method):
        """Records the method of a request that was sent."""
        self.methods.append(method)

    def next(self, eof=False):
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        response = self._head(bytes(self.buffer[:end]))
        size = self._body(response, end + 4, eof)
        if size is None:
            return None
        del self.buffer[:size]
        if response.status >= 200 and self.methods:
            self.methods.pop(0)
        return response

    @staticmethod
    def _head(head):
        lines = head.decode("latin-1").split("\r\n")
        version, status, *reason = lines[0].split(" ", 2)
        fields = [tuple(p.strip() for p in line.split(":", 1)) for line in lines[1:]]
        return Response(version, int(status), reason[0] if reason else "", fields)

    def _body(self, response, start, eof):
        """Puts the body into the response. Returns the offset of the next response, or None."""
        method = self.methods[0] if self.methods else "GET"
        if method == "HEAD" or response.status < 200 or response.status in (204, 304):
            return start
        if "chunked" in response.get("transfer-encoding", "").lower():
            return self._chunks(response, start)
        if (length := response.get("content-length")) is not None:
            end = start + int(length)
        elif eof:
            end = len(self.buffer)
        else:
            return None
        if len(self.buffer) < end:
            return None
        response.body = bytes(self.buffer[start:end])
        return end

    def _chunks(self, response, at):
        body = bytearray()
        while True:
            line = self.buffer.find(b"\r\n", at)
            if line < 0:
                return None
            size = int(bytes(self.buffer[at:line]).split(b";")[0], 16)
            if len(self.buffer) < line + 2 + size + 2:
                return None
            body += self.buffer[line + 2:line + 2 + size]
            at = line + 2 + size + 2
            if size == 0:
                response.body = bytes(body)
                return at


JSON = {"Content-Type": "application/json"}  # required by POST /v1/check, /json and the admin API


def message(method, target, headers=(), body=None, version="1.1", host="localhost", chunked=0):
    """Returns the bytes of a request. `body` gets a Content-Length, or is cut into chunks of `chunked` bytes."""
    fields = list(headers.items() if isinstance(headers, dict) else headers)
    given = {k.lower() for k, _ in fields}
    if host is not None and "host" not in given:
        fields.insert(0, ("Host", host))
    if body is not None and chunked:
        fields.append(("Transfer-Encoding", "chunked"))
    elif body is not None and "content-length" not in given:
        fields.append(("Content-Length", str(len(body))))
    out = _bytes(f"{method} ") + _bytes(target) + _bytes(f" HTTP/{version}\r\n")
    for name, value in fields:
        out += _bytes(name) + b": " + _bytes(value) + b"\r\n"
    out += b"\r\n"
    if body is None:
        return out
    return out + (chunks(body, chunked) if chunked else body)


def chunks(body, size):
    """Returns a body in chunked encoding, with chunks of this size."""
    out = b""
    for at in range(0, len(body), size):
        piece = body[at:at + size]
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


def _bytes(text):
    return text if isinstance(text, bytes) else str(text).encode("utf-8")


def connect(where, tls=False, alpn=(), timeout=None, source=None):
    """Returns a connected socket. `where` is a port of 127.0.0.1, a (host, port), or the path of a Unix socket.
    `source` is the local address: any address of 127.0.0.0/8."""
    timeout = timeout or env.patience(20)
    if isinstance(where, str):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(where)
    else:
        where = where if isinstance(where, tuple) else ("127.0.0.1", where)
        s = socket.create_connection(where, timeout=timeout,
                                     source_address=(source, 0) if source else None)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if alpn:
            context.set_alpn_protocols(list(alpn))
        s = context.wrap_socket(s, server_hostname="localhost")
    return s


class Client:
    """One connection.

        with Client(nginx.port) as c:
            r = c.get("/x", {"X-User": "7"})           # keep-alive: again and again
            c.send("GET", "/a"); c.send("GET", "/b")   # pipelined
            a, b = c.read(), c.read()
    """

    def __init__(self, where, tls=False, alpn=(), timeout=None, source=None, anonymous=False):
        self.socket = connect(where, tls, alpn, timeout, source)
        self.token = None if anonymous else tokens.of(where)
        self.parser = Parser()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def vanish(self):
        """Closes with a reset, as when a client dies."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def raw(self, data):
        """Sends bytes. Call `expect` before if the request is a HEAD."""
        self.socket.sendall(data)

    def send(self, method, target, headers=(), body=None, **kwargs):
        self.parser.expect(method)
        if self.token:
            fields = list(headers.items() if isinstance(headers, dict) else headers)
            if not any(name.lower() == "authorization" for name, _ in fields):
                headers = [*fields, ("Authorization", f"Bearer {self.token}")]
        self.raw(message(method, target, headers, body, **kwargs))

    def read(self, interim=False):
        """Returns the next response. Skips 1xx responses unless `interim`. Raises Closed."""
        eof = False
        while True:
            response = self.parser.next(eof)
            if response and (interim or response.status >= 200):
                return response
            if response:
                continue
            if eof:
                raise Closed(self.parser.buffer)
            try:
                data = self.socket.recv(65536)
            except (ConnectionResetError, ssl.SSLEOFError):
                raise Closed(self.parser.buffer) from None
            eof = not data
            self.parser.buffer += data

    def request(self, method, target, headers=(), body=None, **kwargs):
        self.send(method, target, headers, body, **kwargs)
        return self.read()

    def get(self, target, headers=(), **kwargs):
        return self.request("GET", target, headers, **kwargs)

    def at_end(self):
        """Waits until the server closes. Returns True if it did so without another byte."""
        try:
            return not self.parser.buffer and self.socket.recv(65536) == b""
        except ConnectionResetError:
            return not self.parser.buffer


def fetch(where, method="GET", target="/", headers=(), body=None, tls=False, source=None, anonymous=False, **kwargs):
    """Sends one request on its own connection."""
    with Client(where, tls=tls, source=source, anonymous=anonymous) as c:
        return c.request(method, target, headers, body, **kwargs)
