"""Many requests at once.

`send_at_once`    N requests, each on a connection of its own or pipelined over fewer, sent at the same moment
`Traffic`         a thread that sends requests over some connections while the test acts on nginx
`send_pipelined`  hundreds of thousands of pipelined requests; only counts the responses
"""

import asyncio
import collections
import itertools
import re
import threading
import time
from dataclasses import dataclass

from . import env
from .http1 import Client, Closed, Parser, Response, message


@dataclass
class SentRequest:
    """One request of send_at_once. Times are CLOCK_MONOTONIC in ns."""
    index: int
    sent_ns: int = 0
    done_ns: int = 0
    response: Response = None
    error: str = None

    @property
    def status(self):
        return self.response.status if self.response else self.error


async def _open(where):
    if isinstance(where, str):
        return await asyncio.open_unix_connection(where)
    host, port = where if isinstance(where, tuple) else ("127.0.0.1", where)
    return await asyncio.open_connection(host, port)


async def _final(reader, parser):
    """Returns the next response that is not a 1xx."""
    eof = False
    while True:
        response = parser.next(eof)
        if response and response.status >= 200:
            return response
        if response:
            continue
        if eof:
            raise Closed(parser.buffer)
        data = await reader.read(65536)
        eof = not data
        parser.buffer += data


async def _fire(stream, results, requests, start):
    reader, writer = stream
    parser = Parser()
    try:
        await start.wait()
        for result in results:
            method, data = requests[result.index]
            parser.expect(method)
            result.sent_ns = time.monotonic_ns()
            writer.write(data)
        for result in results:
            result.response = await _final(reader, parser)
            result.done_ns = time.monotonic_ns()
    except (Closed, OSError) as e:
        for result in results:
            if result.response is None:
                result.error = type(e).__name__
    finally:
        writer.close()


async def _send_at_once(where, requests, connections, seconds):
    results = [SentRequest(i) for i in range(len(requests))]
    count = min(connections or len(requests), len(requests))
    streams = []
    for at in range(0, count, 100):  # at most as many at once as fit into a listen queue
        streams += await asyncio.gather(*(_open(where) for _ in range(min(100, count - at))))
    start = asyncio.Event()
    tasks = [asyncio.create_task(_fire(s, results[i::count], requests, start))
             for i, s in enumerate(streams)]
    await asyncio.sleep(0)
    start.set()
    await asyncio.wait_for(asyncio.gather(*tasks), seconds)
    return results


def send_at_once(where, requests, connections=None, seconds=30):
    """Sends all requests at the same moment and returns a SentRequest for each, in the same order. A request is a
    target, a (method, target), or a (method, target, headers[, body]). Without `connections` each request has its own
    connection, and all are open before the first byte is sent; else requests are pipelined."""
    made = []
    for request in requests:
        parts = ("GET", request) if isinstance(request, str) else request
        made.append((parts[0], message(*parts)))
    return asyncio.run(_send_at_once(where, made, connections, env.patience(seconds)))


def count_statuses(results):
    """Returns {status: count} of the requests of send_at_once."""
    return dict(collections.Counter(s.status for s in results))


class Traffic:
    """Sends requests while the test goes on:

        with Traffic(nginx.port, ["/a"], connections=8) as t:
            t.wait(100)                  # until 100 more responses have arrived
            ...
        t.statuses, t.lost               # {status: count}, requests without a response

    A connection that the server closes between two requests is opened again and nothing is lost: a
    request that was sent on a kept connection and met a close without a byte of an answer is sent
    again once (`t.races`), as every HTTP client does. `keep=False` uses a new connection for each.
    """

    def __init__(self, where, targets, connections=4, headers=(), keep=True, pause=0.0):
        self.where, self.targets, self.headers = where, targets, headers
        self.keep, self.pause = keep, pause
        self.statuses = collections.Counter()
        self.races = 0
        self.lost = []
        self.answers = []  # (sent_ns, done_ns, status)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(i,), daemon=True)
                         for i in range(connections)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(env.patience(30))

    def wait(self, more, seconds=30):
        """Waits for `more` further responses."""
        target = self._count() + more
        deadline = time.monotonic() + env.patience(seconds)
        while self._count() < target:
            if time.monotonic() > deadline:
                raise AssertionError(f"no {more} answers in {env.patience(seconds)} s; lost so far: "
                                     f"{self.lost[:5]}, statuses {dict(self.statuses)}")
            time.sleep(0.005)

    def _count(self):
        """Returns the number of responses so far."""
        with self._lock:
            return sum(self.statuses.values())

    def _run(self, number):
        client = None
        turn = number
        while not self._stop.is_set():
            target = self.targets[turn % len(self.targets)]
            turn += 1
            client = self._one(client, target)
            if client and not self.keep:
                client.close()
                client = None
            if self.pause:
                self._stop.wait(self.pause)
        if client:
            client.close()

    def _one(self, client, target):
        """Sends one request, a second time on a new connection if needed. Returns the connection if it is usable."""
        sent = time.monotonic_ns()
        for attempt in (1, 2):
            fresh = client is None
            try:
                client = client or Client(self.where)
                response = client.get(target, self.headers)
            except (Closed, OSError) as e:
                if client:
                    client.close()
                client = None
                raced = not fresh and not getattr(e, "got", b"")
                if raced and attempt == 1:
                    with self._lock:
                        self.races += 1
                    continue
                with self._lock:
                    self.lost.append((sent, target, repr(e)))
                return None
            with self._lock:
                self.statuses[response.status] += 1
                self.answers.append((sent, time.monotonic_ns(), response.status))
            if response.get("connection", "").lower() == "close":
                client.close()
                return None
            return client
        return None




def send_pipelined(where, heads, connections=4, depth=100, seconds=120):
    """Sends every request of the iterable `heads` (bytes, without a body), `depth` at a time on each
    connection, and returns {status: count}. Answers must have a Content-Length.
    """
    return dict(asyncio.run(asyncio.wait_for(_send_pipelined(where, heads, connections, depth),
                                             env.patience(seconds))))


async def _send_pipelined(where, heads, connections, depth):
    source = iter(heads)
    counts = collections.Counter()

    async def one():
        stream = None
        while batch := list(itertools.islice(source, depth)):
            done = 0
            while done < len(batch):
                stream = stream or await _open(where)
                answered = await _exchange(stream, batch[done:], counts)
                done += answered
                if done < len(batch):  # nginx closes after keepalive_requests: continue with the next request
                    stream[1].close()
                    stream = None
        if stream:
            stream[1].close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return counts


_ANSWER = re.compile(rb"HTTP/1\.1 (\d\d\d) .*?\r\nContent-Length: (\d+)(?:\r\n.*?)??\r\n\r\n", re.S)


async def _exchange(stream, batch, counts):
    """Sends a batch and counts the statuses of its responses. Returns the number of responses."""
    reader, writer = stream
    writer.write(b"".join(batch))
    buffer = bytearray()
    seen = 0
    while seen < len(batch):
        data = await reader.read(1 << 18)
        if not data:
            break
        buffer += data
        at = 0
        while (match := _ANSWER.match(buffer, at)) and \
                len(buffer) >= match.end() + int(match[2]):
            at = match.end() + int(match[2])
            counts[int(match[1])] += 1
            seen += 1
        del buffer[:at]
    return seen
