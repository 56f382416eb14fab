#!/usr/bin/python3
"""test_embed.py BUILD: runs embed-demo, once and several times in parallel."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop())
LINE = re.compile(r"process (\d+): (admitted|refused), (\d+) left, retry after (\d+) s")


def tables():
    return {p for p in Path("/dev/shm").iterdir() if p.name.startswith("embed-demo-")}


class Embed(unittest.TestCase):
    def start(self):
        demo = subprocess.Popen([BUILD / "embed-demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        self.addCleanup(demo.stdout.close)
        self.addCleanup(demo.stderr.close)
        return demo

    def check(self, demo):
        output, errors = demo.communicate(timeout=60)
        self.assertEqual((demo.returncode, errors), (0, ""))
        *lines, last = output.splitlines()
        answers = [LINE.fullmatch(line).groups() for line in lines]
        admitted = [a for a in answers if a[1] == "admitted"]
        refused = [a for a in answers if a[1] == "refused"]
        self.assertEqual((len(admitted), len(refused)), (10, 6))
        self.assertEqual(len({pid for pid, *_ in answers}), 2)
        # Two processes may print in another order than their decisions. Each number occurs once.
        self.assertEqual(sorted(int(a[2]) for a in admitted), list(range(10)))
        self.assertEqual({a[3] for a in admitted}, {"0"})
        self.assertTrue(all(a[2] == "0" and 300 <= int(a[3]) <= 360 for a in refused), refused)
        self.assertEqual(last, "2 processes asked 16 times, 10 admitted; the limit is 10")

    def test_admits_exactly_the_limit_and_removes_its_table(self):
        demo = self.start()
        self.check(demo)
        self.assertFalse([p for p in tables() if f"-{demo.pid}." in p.name])

    def test_each_run_has_its_own_table(self):
        for demo in [self.start() for _ in range(4)]:
            self.check(demo)

    def test_reports_an_invalid_table_name(self):
        done = subprocess.run([BUILD / "embed-demo", "../x"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r'^embed-demo: "\.\./x": a table name is')


if __name__ == "__main__":
    unittest.main()
