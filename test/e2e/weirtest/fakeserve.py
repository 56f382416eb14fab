"""A fake of the socket of `weir serve` that carries questions for Redis: real sockets, answers in the format of
src/limiter/question.h, and every fault that a test needs."""

import os
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

from . import clock, programs

HEAD = struct.Struct("<BBHI")
ITEM = struct.Struct("<HBBHH3QqIIIIQQQQQQQQQIIIIQ")
VERDICT = struct.Struct("<IIIIQQQQQ")
TAKE, RETURN, ANSWER, REPORT, RESET, LATE, OWE, SETTLE = 1, 2, 3, 4, 5, 6, 7, 8
ADMITTED, FAILED = 1, 4
DAY_NS = 86400 * 10 ** 9
KEY = "0123456789abcdef" * 4  # the link key of nginx's workers


@dataclass
class Item:
    """One limit of a message."""
    algorithm: int
    key: tuple
    id: str
    cost: int
    limit: int
    period_ns: int
    decided_us: int
    delay_ns: int


@dataclass
class Message:
    kind: int
    items: list = field(default_factory=list)


def parse(data):
    """Returns the Message in these bytes."""
    version, kind, count, size = HEAD.unpack_from(data)
    assert version == 4 and size == len(data), data
    message, at = Message(kind), HEAD.size
    for _ in range(count):
        (size, algorithm, _, _, id_len, k0, k1, _, cost, limit, _, _, _, period, _, _, _, _, _, _, decided, delay,
         _, _, _, _, _) = ITEM.unpack_from(data, at)
        name = data[at + ITEM.size:at + ITEM.size + id_len].decode()
        message.items.append(Item(algorithm, (k0, k1), name, cost, limit, period, decided, delay))
        at += size
    assert at == len(data)
    return message


def answer(verdicts):
    """Returns the bytes of an answer. Each verdict is (flags, limit, remaining, retry_ns, delay_ns)."""
    body = b"".join(VERDICT.pack(flags, limit, remaining, 0, retry, DAY_NS, delay, now_us(), 0)
                    for flags, limit, remaining, retry, delay in verdicts)
    return HEAD.pack(4, ANSWER, len(verdicts), HEAD.size + len(body)) + body


def now_us():
    """Returns the wall clock of the programs under test in microseconds."""
    return (clock.current.now_ns() if clock.current else time.time_ns()) // 1000


def bulk(data):
    """Returns a RESP bulk string."""
    return b"$%d\r\n%s\r\n" % (len(data), data)


class FakeServe:
    """`with FakeServe() as store:` listens on store.path (`store.conf` is the directive for nginx).

    It admits `limit` units for each key, which are never refilled, and records `.asked` and `.messages` (Messages),
    `.connections` and `.fleets` (number of questions for the secret).

    secret      the reply to WEIR.FLEET; None: the secret is unknown
    hold()      questions get no answer until release(); hold_all() first waits for pending answers to WEIR.FLEET
    reply       a function (Message, bytes) -> bytes to send in place of the answer, or None: close
    piece       the number of bytes sent at a time
    """

    def __init__(self, timeout="20s", secret=bytes(range(7, 199))):
        self.folder = programs.temp_folder("store")
        os.chmod(self.folder, 0o755)
        self.path = f"{self.folder}/s.sock"
        self.key = f"{self.folder}/link.key"
        with open(self.key, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as f:
            f.write(f"{KEY}\n")
        self.conf = f"weir_link_key {self.key}; weir_central unix:{self.path} timeout={timeout};"
        self.secret, self.reply, self.piece = secret, None, None
        self.asked, self.messages, self.used = [], [], {}
        self.connections = self.fleets = self.fleets_answered = 0
        self.peers = []
        self.lock = threading.Lock()
        self.go = threading.Event()
        self.go.set()
        self.listener = self.accepting = None

    def __enter__(self):
        self.listen()
        return self

    def __exit__(self, *_):
        self.release()
        self.stop()
        programs.remove_folder(self.folder)

    def listen(self):
        """Listens under another name and then renames the socket, so that connections are accepted as soon as the path
        exists."""
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f"{self.path}.new")
        os.chmod(f"{self.path}.new", 0o666)
        self.listener.listen(64)
        os.rename(f"{self.path}.new", self.path)
        self.accepting = threading.Thread(target=self._accept, args=(self.listener,), daemon=True)
        self.accepting.start()

    def stop(self):
        """Stops listening and closes all connections."""
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()  # the thread could otherwise use a new socket with the same descriptor
        self.listener.close()
        self.cut()

    def cut(self):
        """Closes all connections; new ones are accepted."""
        with self.lock:
            peers, self.peers = self.peers, []
        for peer in peers:
            peer.shutdown(socket.SHUT_RDWR)

    def hold(self):
        self.go.clear()

    def hold_all(self):
        """Waits until all questions for the secret are answered, then does the same as hold(). Returns their number."""
        while True:
            self.hold()
            with self.lock:
                if self.fleets == self.fleets_answered:
                    return self.fleets
            self.release()
            time.sleep(0.01)

    def release(self):
        self.go.set()

    def returned(self):
        """Returns the returned units: [(cost, decided_us)]."""
        return [(i.cost, i.decided_us) for m in self.messages if m.kind == RETURN for i in m.items]

    def late(self):
        """Returns the takes whose answer arrived too late: [(cost, decided_us)]."""
        return [(i.cost, i.decided_us) for m in self.messages if m.kind == LATE for i in m.items]

    def owed(self):
        """Returns the units that were used beyond reservations: [cost]."""
        return [i.cost for m in self.messages if m.kind == OWE for i in m.items]

    def reported(self):
        """Returns the sum of the units that nginx has reported."""
        return sum(i.cost for m in self.messages if m.kind == REPORT for i in m.items)

    # ---- internal ----

    def _accept(self, listener):
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.peers.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        """Reads at once and answers in order, so that `.asked` shows questions whose answers are held."""
        queue, ready = [], threading.Condition()

        def write():
            while True:
                with ready:
                    ready.wait_for(lambda: queue)
                    message = queue.pop(0)
                if message is None or not self._answer(peer, message):
                    return

        threading.Thread(target=write, daemon=True).start()
        stream = peer.makefile("rb")
        try:
            while command := self._command(stream):
                if command == [b"WEIR.LINK", KEY.encode()]:
                    peer.sendall(b"+OK\r\n")
                    continue
                self._note(command)
                with ready:
                    queue.append(command)
                    ready.notify()
        except OSError:
            pass
        with ready:
            queue.append(None)
            ready.notify()

    @staticmethod
    def _command(stream):
        """Reads a command of RESP. Returns its words, or None if the peer has closed."""
        line = stream.readline()
        if not line:
            return None
        words = []
        for _ in range(int(line[1:])):
            size = int(stream.readline()[1:])
            words.append(stream.read(size + 2)[:-2])
        return words

    def _note(self, command):
        """Records a command when it arrives."""
        with self.lock:
            if command[0] == b"WEIR.FLEET":
                self.fleets += 1
            else:
                (self.asked if command[0] == b"WEIR.ASK" else self.messages).append(parse(command[1]))

    def _answer(self, peer, command):
        """Sends the reply to a command, or closes the connection if the reply is None."""
        data = self._reply(command)
        if data is None:
            with self.lock:
                if peer in self.peers:
                    self.peers.remove(peer)
            peer.shutdown(socket.SHUT_RDWR)
            return False
        try:
            for at in range(0, len(data), self.piece or len(data)):
                peer.sendall(data[at:at + (self.piece or len(data))])
                if self.piece:
                    time.sleep(0.0005)
        except OSError:
            return False
        with self.lock:
            self.fleets_answered += command[0] == b"WEIR.FLEET"
        return True

    def _reply(self, command):
        if command[0] == b"WEIR.FLEET":
            self.go.wait()
            return bulk(self.secret) if self.secret else b"-NOTYET nobody knows\r\n"
        if command[0] == b"WEIR.TELL":
            return b"+OK\r\n"
        self.go.wait()
        message = parse(command[1])
        usual = bulk(answer([self._decide(item) for item in message.items]))
        return self.reply(message, usual) if self.reply else usual

    def _decide(self, item):
        """Returns the verdict on one limit of a message."""
        with self.lock:
            used = self.used.get((item.key, item.id), 0)
            admitted = used + max(item.cost, 1) <= item.limit
            if admitted:
                used += item.cost
                self.used[item.key, item.id] = used
        return (ADMITTED if admitted else 0, item.limit, item.limit - used,
                0 if admitted else DAY_NS, 0)
