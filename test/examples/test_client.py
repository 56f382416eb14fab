#!/usr/bin/python3
"""test_client.py BUILD: runs client-demo and client.py against a server whose responses the test writes down."""

import gzip
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop())
ROOT = Path(__file__).resolve().parents[2]

sys.dont_write_bytecode = True
os.environ["WEIR_CLIENT_LIB"] = str(BUILD / "libweir-client.so")
os.environ["no_proxy"] = "*"
sys.path[:0] = [str(ROOT / "examples/client"), str(ROOT / "test/e2e")]
import client  # noqa: E402
from weirtest.scripted import Answer, Scripted  # noqa: E402

PROGRAMS = ([BUILD / "client-demo"], ["/usr/bin/python3", "-B", ROOT / "examples/client/client.py"])
NO_PROXY = 2  # WEIR_CLIENT_NO_PROXY
RETRY = 8  # WEIR_REQUEST_RETRY


class Programs(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Scripted())

    def run_each(self, expected, code, *words):
        for program in PROGRAMS:
            done = subprocess.run([*map(str, program), *words], capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual((done.stdout, done.stderr, done.returncode), (expected, "", code))

    def test_a_refusal_is_retried(self):
        refusal, ok = Answer(429, {"Retry-After-Ms": "1", "Retry-After": "0"}), Answer(body=b"hello")
        url, none = self.server.url("/a"), self.server.url("/none")
        self.server.on("/a", refusal, ok, refusal, ok)
        host = f"127.0.0.1:{self.server.port}"
        self.run_each(f"{host}: waits, told by Retry-After\n{url}: 200, 5 bytes, 2 attempts\n"
                      f"{none}: 404, 0 bytes, 1 attempts\n", 1, url, none)

    def test_the_cache(self):
        url = self.server.url("/a")
        self.server.on("/a", Answer(200, {"Cache-Control": "max-age=3600"}, b"hello"))
        with tempfile.TemporaryDirectory() as folder:
            for program in PROGRAMS:  # they send the same fields, so that they share the stored response
                subprocess.run([*map(str, program), "-c", folder + "/cache", url], capture_output=True, check=True, timeout=60)
            self.run_each(f"{url}: 200, 5 bytes, 0 attempts, from the cache\n", 0, "-c", folder + "/cache", url)
        self.assertEqual(len(self.server.seen()), 1)

    def test_a_wrong_url(self):
        self.run_each("ftp://x/: ftp://x/: the scheme must be http or https\n", 1, "ftp://x/")


class Library(unittest.TestCase):
    """The class Client of client.py."""

    def setUp(self):
        self.server = self.enterContext(Scripted())

    def client(self, **opts):
        made = client.Client(flags=NO_PROXY, **opts)
        self.addCleanup(made.close)
        return made

    def test_sends_a_body_and_fields(self):
        self.server.on("/a", Answer(503, {"Retry-After-Ms": "1"}), Answer(201, {"X-Id": "7"}, b"made"))
        answer = self.client().send(self.server.url("/a"), "POST", [("X-One", "1")], b"\x00body", RETRY)
        self.assertEqual((answer.status, answer.body, answer.attempts), (201, b"made", 2))
        self.assertIn(("X-Id", "7"), answer.fields)
        one, two = self.server.seen()
        self.assertEqual((one.body, one.fields["x-one"]), (b"\x00body", "1"))
        self.assertEqual(one.fields["idempotency-key"], two.fields["idempotency-key"])

    def test_a_decompressed_body_is_bounded(self):
        bomb = gzip.compress(bytes(10 << 20))  # ten thousand bytes
        self.server.on("/a", Answer(200, {"Content-Encoding": "gzip"}, bomb))
        self.server.on("/b", Answer(200, {"Content-Encoding": "gzip"}, gzip.compress(b"text")))
        small = self.client(body_bytes=1 << 20)
        with self.assertRaisesRegex(OSError, "too large"):
            small.send(self.server.url("/a"))
        answer = small.send(self.server.url("/b"))
        self.assertEqual(answer.body, b"text")
        self.assertNotIn("content-encoding", [name.lower() for name, _ in answer.fields])

    def test_threads_share_a_client(self):
        self.server.on("/a", Answer(body=b"x"))
        shared, statuses = self.client(per_host=4), []
        threads = [threading.Thread(target=lambda: statuses.append(shared.send(self.server.url("/a")).status))
                   for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [200] * 20)

    def test_a_change_removes_the_stored_response(self):
        self.server.on("/a", Answer(200, {"Cache-Control": "max-age=3600"}, b"one"), Answer(204),
                       Answer(200, {"Cache-Control": "max-age=3600"}, b"two"))
        with tempfile.TemporaryDirectory() as folder:
            cached = self.client(cache_dir=folder.encode())
            url = self.server.url("/a")
            self.assertEqual([cached.send(url).body for _ in range(2)], [b"one", b"one"])
            cached.send(url, "PUT", [], b"two")
            self.assertEqual([cached.send(url).body for _ in range(2)], [b"two", b"two"])
        self.assertEqual([s.method for s in self.server.seen()], ["GET", "PUT", "GET"])

    def test_an_open_breaker_ends_requests_before_the_deadline(self):
        self.server.on("/a", Answer(500))
        broken = self.client()
        for _ in range(5):
            self.assertEqual(broken.send(self.server.url("/a")).status, 500)
        short = client.Client(flags=NO_PROXY, deadline_ns=10**8)
        self.addCleanup(short.close)
        for _ in range(5):
            short.send(self.server.url("/a"))
        with self.assertRaisesRegex(OSError, "circuit breaker is open"):
            short.send(self.server.url("/a"))
        self.assertEqual(len(self.server.seen()), 10)


if __name__ == "__main__":
    unittest.main()
