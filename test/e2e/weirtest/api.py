"""Controls the API server from the test: starts and stops the server, and reads the requests that it has received."""

import json
import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import programs
from .waiting import wait_for


@dataclass
class Record:
    """A request as the API server received it. `ns` is CLOCK_MONOTONIC when the server read it. On a busy machine the
    server may read several requests at once, in any order."""
    ns: int
    method: str
    target: str
    headers: list = field(default_factory=list)

    def get(self, name):
        """Returns the value of a header field, or None. Several values are joined by `, `."""
        values = [v for k, v in self.headers if k.lower() == name.lower()]
        return ", ".join(values) if values else None


class Api:
    """`with Api() as api:` is an API server in its own process; apiserver.py lists its options.

    api.port, api.socket  the server listens on this port of 127.0.0.1, and on this Unix socket
    api.count("/a")       the number of requests whose target begins with /a; without argument, of all requests
    api.records()         all requests in order of arrival, see Record
    api.release(NAME)     answers the requests that `hold=NAME` holds
    api.reset()           discards all records
    """

    def __enter__(self):
        self.folder = programs.temp_folder("api")
        try:
            here = str(Path(__file__).resolve().parents[1])
            self.process = programs.start(
                ["/usr/bin/python3", "-B", "-m", "weirtest.apiserver", self.folder],
                env={**os.environ, "PYTHONPATH": here}, stdout=sys.stderr)
            wait_for(lambda: self.process.poll() is not None or os.path.exists(
                f"{self.folder}/port"), "the API server to listen")
            self.port = int(Path(self.folder, "port").read_text(encoding="ascii"))
            self.socket = f"{self.folder}/api.sock"
            self._line = socket.socket(socket.AF_UNIX)
            self._line.connect(f"{self.folder}/control.sock")
            self._line.settimeout(60)
            self._answers = self._line.makefile("rb")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if hasattr(self, "_line"):
            self._answers.close()
            self._line.close()
        if hasattr(self, "process"):
            programs.stop(self.process)
        programs.remove_folder(self.folder)

    def _ask(self, **order):
        """Sends an order to the server's control socket and returns the answer."""
        self._line.sendall(json.dumps(order).encode() + b"\n")
        return json.loads(self._answers.readline())

    def count(self, prefix=""):
        return self._ask(do="count", prefix=prefix)

    def records(self):
        found = []
        for ns, method, target, head in self._ask(do="records"):
            lines = head.split("\r\n")[1:]
            found.append(Record(ns, method, target, [
                tuple(p.strip() for p in line.split(":", 1)) for line in lines if line]))
        return found

    def unfinished(self):
        """Returns the number of connections that were lost before a request was complete."""
        return self._ask(do="unfinished")

    def release(self, name):
        self._ask(do="release", name=name)

    def reset(self):
        self._ask(do="reset")
