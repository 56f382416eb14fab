"""A fake of the queue in `weir serve`. It stores requests that nginx sends by WEIR.DEFER
(src/wire/resp/commands_defer.h) and fails in every way that a test needs. test_defer*.py test the real queue."""

import json
from dataclasses import dataclass, field

from .fakeserve import FakeServe, bulk


@dataclass
class DeferredRequest:
    """A request as nginx sent it to the queue."""
    domain: str
    rule: str
    key: bytes
    method: str
    uri: str
    descriptors: bytes
    max_waiting: int
    max_age_s: int
    max_tries: int
    wait_ns: int
    interval_ns: int
    body: bytes
    fields: list = field(default_factory=list)

    def get(self, name):
        values = [v for n, v in self.fields if n.lower() == name.lower()]
        return values[0] if values else None

    def names(self):
        return sorted(n.lower() for n, _ in self.fields)


def ticket_of(number):
    """Returns the ticket of the n-th deferred request."""
    return f"{number:032x}"


class FakeQueue(FakeServe):
    """`with FakeQueue() as queue:`; queue.conf is the directive. `.requests` are the deferred requests, `.asked_for`
    the requested tickets. reply, hold(), release(), cut(), stop(), listen() as in FakeServe: reply is a function
    (command, usual answer) -> bytes or None."""

    def __init__(self, timeout="20s", more=""):
        super().__init__(timeout)
        self.conf = f"weir_link_key {self.key}; weir_queue unix:{self.path} timeout={timeout} {more};"
        self.requests, self.asked_for = [], []

    def _note(self, command):
        """Records a command when it arrives."""
        with self.lock:
            if command[0] == b"PING":  # sent on a link that was unused for half a minute
                return
            if command[0] == b"WEIR.TICKET":
                self.asked_for.append(command[1].decode())
                return
            assert command[:2] == [b"WEIR.DEFER", b"1"] and len(command) % 2 == 0, command
            words = command[2:]
            assert len(words[2]) == 16
            self.requests.append(DeferredRequest(
                words[0].decode(), words[1].decode(), words[2], words[3].decode(), words[4].decode(), words[5],
                *map(int, words[6:11]), words[11],
                [(n.decode(), v.decode()) for n, v in zip(words[12::2], words[13::2])]))

    def _reply(self, command):
        """Returns the reply to a command; waits while replies are held."""
        self.go.wait()
        if command[0] == b"PING":
            return b"+PONG\r\n"
        if command[0] == b"WEIR.TICKET":
            known = int(command[1], 16) <= len(self.requests)
            usual = bulk(json.dumps({"ticket": command[1].decode(), "status": "waiting"}).encode()) if known \
                else b"$-1\r\n"
        else:
            usual = b"*3\r\n$32\r\n%s\r\n:%d\r\n:%d\r\n" % (ticket_of(len(self.requests)).encode(),
                                                         len(self.requests), 2500 * 10 ** 6)
        return self.reply(command, usual) if self.reply else usual
