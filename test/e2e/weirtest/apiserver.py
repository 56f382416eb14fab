"""The API server behind the gateway, as a process of its own: `python3 -m weirtest.apiserver FOLDER`.

It listens on a TCP port of 127.0.0.1 and on FOLDER/api.sock, writes the port to FOLDER/port, and takes orders
on FOLDER/control.sock, a JSON object per line. `api.py` is the client.

It counts every request once its head has arrived, in the order of arrival, and stamps it with
CLOCK_MONOTONIC, which all processes of a machine share. The query of a request sets the response:

    status=503        the status                       bytes=N    a body of N times `x`
    h=Name:value      a header field (may repeat)      echo=1     a JSON object of the request
    delay=0.2         seconds before it answers        chunks=N   chunked: N pieces, `gap=` seconds apart
    hold=NAME         answers after `release NAME` drop=1     closes without an answer
    body=TEXT         the body, of type `type=`        gzip=1     compresses it; gzip=ask: if the client accepts gzip
    events=N          N server-sent events, then the event of `body=` if present, then [DONE]
    step=NAME         with `events`: waits for `release NAME0` before event 0, and so on
    cut=N             announces N more bytes than it sends, and closes
"""

import asyncio
import gzip
import hashlib
import json
import os
import sys
import time
from urllib.parse import parse_qs, urlsplit

REASONS = {200: "OK", 201: "Created", 204: "No Content", 401: "Unauthorized", 403: "Forbidden",
           404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error",
           502: "Bad Gateway", 503: "Service Unavailable"}


class State:
    """The requests received so far. Each record is (ns, method, target, head bytes)."""

    def __init__(self):
        self.records = []
        self.unfinished = 0  # connections lost before a request was complete
        self.held = {}

    def gate(self, name):
        """Returns the event for which requests with `hold=NAME` wait."""
        return self.held.setdefault(name, asyncio.Event())


STATE = State()


class Request:
    """A request with its parsed head and its body."""
    def __init__(self, head):
        lines = head.decode("latin-1").split("\r\n")
        self.head = head
        self.method, self.target, self.version = lines[0].split(" ", 2)
        self.headers = [tuple(p.strip() for p in line.split(":", 1)) for line in lines[1:] if line]
        self.body = bytearray()

    def get(self, name, default=None):
        for key, value in self.headers:
            if key.lower() == name:
                return value
        return default


class Connection(asyncio.Protocol):
    """One connection. Its requests are parsed as their bytes arrive and are answered in order."""

    def connection_made(self, transport):
        self.transport = transport
        self.buffer = bytearray()
        self.request = None
        self.wanted = 0  # bytes of a body with Content-Length; -1: chunked
        self.queue = asyncio.Queue()
        self.worker = asyncio.ensure_future(self.answer_all())

    def connection_lost(self, exc):
        self.worker.cancel()
        if self.buffer or self.request:
            STATE.unfinished += 1

    def data_received(self, data):
        self.buffer += data
        while self.step():
            pass

    def step(self):
        """Parses the next part of the buffer. Returns False if more bytes are needed."""
        if self.request is None:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            head = bytes(self.buffer[:end])
            del self.buffer[:end + 4]
            self.request = Request(head)
            STATE.records.append((time.monotonic_ns(), self.request.method, self.request.target, head))
            chunked = "chunked" in self.request.get("transfer-encoding", "").lower()
            self.wanted = -1 if chunked else int(self.request.get("content-length", 0))
        return self.chunk() if self.wanted < 0 else self.sized()

    def sized(self):
        """Reads a part of a body with Content-Length. Returns False if more bytes are needed."""
        take = min(self.wanted, len(self.buffer))
        self.request.body += self.buffer[:take]
        del self.buffer[:take]
        self.wanted -= take
        return self.complete() if self.wanted == 0 else False

    def chunk(self):
        """Reads one chunk of a chunked body. Returns False if more bytes are needed."""
        line = self.buffer.find(b"\r\n")
        if line < 0:
            return False
        size = int(bytes(self.buffer[:line]).split(b";")[0], 16)
        if len(self.buffer) < line + 2 + size + 2:
            return False
        self.request.body += self.buffer[line + 2:line + 2 + size]
        del self.buffer[:line + 2 + size + 2]
        return self.complete() if size == 0 else True

    def complete(self):
        """Queues the complete request for its response."""
        self.queue.put_nowait(self.request)
        self.request = None
        self.wanted = 0
        return True

    async def answer_all(self):
        while True:
            request = await self.queue.get()
            try:
                await self.answer(request)
            except ConnectionError:
                return
            if request.get("connection", "").lower() == "close" or request.version == "HTTP/1.0":
                self.transport.close()
                return

    async def answer(self, request):
        how = parse_qs(urlsplit(request.target).query)
        if "hold" in how:
            await STATE.gate(how["hold"][0]).wait()
        if "delay" in how:
            await asyncio.sleep(float(how["delay"][0]))
        if "drop" in how:
            self.transport.abort()
            return
        status = int(how.get("status", ["200"])[0])
        body, kind = self.body(request, how)
        fields = [f"HTTP/1.1 {status} {REASONS.get(status, 'Whatever')}", f"Content-Type: {kind}"]
        fields += [h.replace(":", ": ", 1) for h in how.get("h", [])]
        if how.get("gzip") == ["1"] or ("gzip" in how and "gzip" in request.get("accept-encoding", "")):
            fields.append("Content-Encoding: gzip")
            body = gzip.compress(body)
        if "events" in how:
            await self.events(fields, int(how["events"][0]), how)
            return
        if "chunks" in how:
            await self.stream(request, fields, int(how["chunks"][0]),
                              float(how.get("gap", ["0"])[0]))
            return
        if status not in (204, 304):
            fields.append(f"Content-Length: {len(body) + int(how.get('cut', ['0'])[0])}")
        head = "\r\n".join(fields).encode("latin-1") + b"\r\n\r\n"
        self.transport.write(head if request.method == "HEAD" or status in (204, 304)
                             else head + body)
        if "cut" in how:
            self.transport.close()

    @staticmethod
    def body(request, how):
        if "echo" in how:
            seen = {"method": request.method, "target": request.target,
                    "version": request.version, "headers": request.headers,
                    "body_bytes": len(request.body),
                    "body_sha256": hashlib.sha256(request.body).hexdigest()}
            return json.dumps(seen).encode(), "application/json"
        kind = how.get("type", ["text/event-stream" if "events" in how else
                                "application/json" if "body" in how else "text/plain"])[0]
        if "body" in how:
            return how["body"][0].encode(), kind
        return b"x" * int(how["bytes"][0]) if "bytes" in how else b"ok\n", kind

    async def events(self, fields, count, how):
        fields.append("Transfer-Encoding: chunked")
        self.transport.write("\r\n".join(fields).encode("latin-1") + b"\r\n\r\n")
        last = [how["body"][0]] if "body" in how else []
        for n, data in enumerate([f'{{"n": {n}}}' for n in range(count)] + last + ["[DONE]"]):
            if "step" in how:
                await STATE.gate(f"{how['step'][0]}{n}").wait()
            piece = f"data: {data}\n\n".encode()
            self.transport.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.transport.write(b"0\r\n\r\n")

    async def stream(self, request, fields, pieces, gap):
        fields.append("Transfer-Encoding: chunked")
        self.transport.write("\r\n".join(fields).encode("latin-1") + b"\r\n\r\n")
        if request.method == "HEAD":
            return
        for n in range(pieces):
            piece = f"piece {n}\n".encode()
            self.transport.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await asyncio.sleep(gap)
        self.transport.write(b"0\r\n\r\n")


def obey(order):
    """Executes one order of the control socket and returns the answer."""
    what = order["do"]
    if what == "records":
        return [(ns, m, t, head.decode("latin-1")) for ns, m, t, head in STATE.records]
    if what == "count":
        prefix = order.get("prefix", "")
        return sum(1 for r in STATE.records if r[2].startswith(prefix))
    if what == "unfinished":
        return STATE.unfinished
    if what == "release":
        STATE.gate(order["name"]).set()
        return True
    if what == "reset":
        STATE.records.clear()
        STATE.held.clear()
        STATE.unfinished = 0
        return True
    raise ValueError(what)


async def control(reader, writer):
    while line := await reader.readline():
        writer.write(json.dumps(obey(json.loads(line))).encode() + b"\n")
        await writer.drain()
    writer.close()


async def main(folder):
    loop = asyncio.get_running_loop()
    tcp = await loop.create_server(Connection, "127.0.0.1", 0, backlog=4096)
    await loop.create_unix_server(Connection, os.path.join(folder, "api.sock"), backlog=4096)
    os.chmod(os.path.join(folder, "api.sock"), 0o666)
    await asyncio.start_unix_server(control, os.path.join(folder, "control.sock"),
                                    limit=1 << 20)
    port = os.path.join(folder, "port")
    with open(port + ".new", "w", encoding="ascii") as f:
        f.write(str(tcp.sockets[0].getsockname()[1]))
    os.rename(port + ".new", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
