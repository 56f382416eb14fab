"""The Redis protocol without a library, for commands that client libraries would not send, and replies that they would
hide."""

import socket

from . import env


class Error(str):
    """A reply -ERR …, as a value."""


class Resp:
    """A connection: `.call("PING")`, or `.send` and `.read` for pipelines and malformed commands."""

    def __init__(self, address):
        """`address` is a port of this machine, or the path of a Unix socket."""
        unix = isinstance(address, str)
        self.socket = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        self.socket.settimeout(env.patience(20))
        self.socket.connect(address if unix else ("127.0.0.1", address))
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def call(self, *words):
        self.send(command(*words))
        return self.read()

    def ended(self):
        """Returns whether the server has closed and no byte is unread."""
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(line)
        kind, rest = line[:1], line[1:-2]
        if kind in b"+":
            return rest.decode()
        if kind == b"-":
            return Error(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"_":
            return None
        if kind in b"$=":
            return self._bulk(int(rest))
        if kind in b"*~":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        raise AssertionError(f"not RESP: {line!r}")

    def _bulk(self, length):
        if length < 0:
            return None
        data = self.file.read(length + 2)
        assert data[-2:] == b"\r\n", data[-20:]
        return data[:-2].decode("utf-8", "surrogateescape")


def command(*words):
    """Returns an array of bulk strings."""
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts += [f"${len(data)}\r\n".encode(), data, b"\r\n"]
    return b"".join(parts)
