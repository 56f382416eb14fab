"""A TCP proxy that causes faults on demand.

    with Proxy(redis.port) as proxy:        # or the path of a Unix socket
        … "--redis", f"redis://127.0.0.1:{proxy.port}"
        proxy.delay(0.1)                    # from now on; connections stay open
        proxy.heal()

A fault applies to bytes that arrive after the call, on open and on new connections:

    delay(seconds)      delays every piece; delays of several pieces do not add up
    drop("replies")     discards bytes from the server: it has done the work, and the client gets no reply
    drop("requests")    discards bytes from the client; drop() discards bytes of both directions
    halve()             on each connection, forwards half of the server's next piece, then nothing more
    halve(cut=True)     also closes the connection there
    spoil(replies=f)    forwards f(piece) of each piece from the server; f runs in the proxy's thread. b"" drops the piece
    refuse()            closes all connections, and every new one at once
    cut()               closes the open connections with a reset, and accepts new ones
    heal()              ends the fault; connections with discarded bytes are closed
"""

import asyncio
import socket
import struct
import threading


class _Link:
    """One connection and its connection to the server."""

    def __init__(self):
        self.writers = []
        self.lost = False  # bytes were discarded, so later bytes would make no sense


class Proxy:
    def __init__(self, target, port=0, host="127.0.0.1"):
        self.target = target
        self.accepted = 0  # connections since the start
        self._mode, self._seconds, self._which = "pass", 0.0, ""
        self._links = set()
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self.host, self.port = self._socket.getsockname()

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_):
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _do(self, coroutine):
        """Runs a coroutine in the proxy's thread and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    # ---- faults ----

    def delay(self, seconds):
        self._set("delay", seconds=seconds)

    def drop(self, which="both"):
        self._set("drop", which=which)

    def halve(self, cut=False):
        self._set("halve", which="cut" if cut else "")

    def spoil(self, replies):
        self._set("spoil", which=replies)

    def refuse(self):
        self._set("refuse")
        self.cut()

    def heal(self):
        self._set("pass")
        self._do(self._cut(lambda link: link.lost))

    def cut(self):
        self._do(self._cut(lambda link: True))

    @property
    def open(self):
        """Returns the number of open connections."""
        return len(self._links)

    @property
    def swallowed(self):
        """Returns whether bytes were discarded on a connection that is still open."""
        return any(link.lost for link in list(self._links))

    def _set(self, mode, seconds=0.0, which=""):
        """Sets the mode of the proxy for bytes that arrive from now on."""
        async def switch():
            self._mode, self._seconds, self._which = mode, seconds, which
        self._do(switch())

    # ---- in the thread ----

    async def _listen(self):
        self._server = await asyncio.start_server(self._accept, sock=self._socket, backlog=512)

    async def _end(self):
        self._server.close()
        await self._cut(lambda link: True)
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _cut(self, which):
        for link in [one for one in self._links if which(one)]:
            self._close(link)

    def _close(self, link):
        self._links.discard(link)
        for writer in link.writers:
            sock = writer.get_extra_info("socket")
            if sock.fileno() >= 0 and sock.family != socket.AF_UNIX:  # it may be closed already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _accept(self, reader, writer):
        self.accepted += 1
        link = _Link()
        link.writers.append(writer)
        self._links.add(link)
        if self._mode == "refuse":
            self._close(link)
            return
        try:
            if isinstance(self.target, str):
                far_reader, far_writer = await asyncio.open_unix_connection(self.target)
            else:
                host, port = self.target if isinstance(self.target, tuple) else ("127.0.0.1", self.target)
                far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            self._close(link)
            return
        link.writers.append(far_writer)
        if link not in self._links:  # cut during the connect
            self._close(link)
            return
        try:
            await asyncio.gather(self._pump(link, "requests", reader, far_writer),
                                 self._pump(link, "replies", far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        self._close(link)

    async def _pump(self, link, direction, reader, writer):
        """Reads at once and writes each piece when its delay is over, so that delays overlap."""
        queue = asyncio.Queue(4096)
        sender = asyncio.ensure_future(self._send(queue, writer))
        try:
            while data := await reader.read(65536):
                if data := self._spoil(link, direction, data):
                    due = self._loop.time() + (self._seconds if self._mode == "delay" else 0.0)
                    await queue.put((due, data))
                if self._mode == "halve" and self._which == "cut" and link.lost:
                    break
            await queue.put((0.0, b""))
            await sender
        finally:
            sender.cancel()
            # Close the other direction too.
            self._close(link)

    async def _send(self, queue, writer):
        while True:
            due, data = await queue.get()
            if (wait := due - self._loop.time()) > 0:
                await asyncio.sleep(wait)
            if not data:
                return
            writer.write(data)
            await writer.drain()

    def _spoil(self, link, direction, data):
        """Returns the bytes to forward in place of `data`."""
        if self._mode == "drop" and self._which in (direction, "both"):
            link.lost = True
            return b""
        if self._mode == "halve" and direction == "replies":
            piece = b"" if link.lost else data[:len(data) // 2]
            link.lost = True
            return piece
        if self._mode == "spoil" and direction == "replies":
            piece = b"" if link.lost else self._which(data)
            link.lost |= piece != data
            return piece
        return data
