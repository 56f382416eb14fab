#!/usr/bin/python3
"""test_python.py BUILD: runs embed.py and C programs on the same table."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(sys.argv.pop())
EMBED = Path(__file__).resolve().parents[2] / "examples/embed"

sys.dont_write_bytecode = True
os.environ["WEIR_LIB"] = str(BUILD / "libweir.so")
sys.path.insert(0, str(EMBED))
import embed  # noqa: E402

NAME = f"test-embed-{os.getpid()}"
NOW_NS = 1_800_000_000 * 10**9


def output_of(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True).stdout


def python(*args):
    return output_of("/usr/bin/python3", EMBED / "embed.py", *args)


def admitted(text):
    return len(re.findall(": admitted,", text))


class Shared(unittest.TestCase):
    """Runs the example programs on a table in the default folder."""

    def setUp(self):
        self.addCleanup(subprocess.run, ["/usr/bin/python3", EMBED / "embed.py", "remove", NAME],
                        capture_output=True, check=False)

    def test_programs_share_the_limit_in_sequence(self):
        self.assertEqual(admitted(python("ask", NAME)), 8)
        self.assertEqual(admitted(output_of(BUILD / "embed-demo", NAME)), 2)
        self.assertEqual(admitted(python("ask", NAME)), 0)

    def test_programs_share_the_limit_in_parallel(self):
        argvs = [[BUILD / "embed-demo", NAME],
                 ["/usr/bin/python3", EMBED / "embed.py", "ask", NAME]] * 2
        running = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for argv in argvs]
        texts = [p.communicate(timeout=60)[0] for p in running]
        self.assertEqual([p.returncode for p in running], [0] * 4)
        self.assertEqual([len(re.findall("(admitted|refused),", t)) for t in texts], [16, 8] * 2)
        self.assertEqual(sum(map(admitted, texts)), 10)

    def test_checkpoint_and_restore(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(admitted(python("ask", NAME)), 8)
            python("checkpoint", NAME, f"{folder}/saved")
            python("remove", NAME)
            self.assertEqual(admitted(python("ask", NAME, f"{folder}/saved")), 2)
            python("remove", NAME)
            self.assertEqual(admitted(python("ask", NAME)), 8)

    def test_removing_a_missing_table_reports_its_path(self):
        done = subprocess.run(["/usr/bin/python3", EMBED / "embed.py", "remove", NAME],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"^embed\.py: cannot remove .*/?{NAME}\.v\d+: No such file")


class Hammer(unittest.TestCase):
    """C and Python take units of one key in parallel, at a fixed time."""

    LIMIT = 200_000

    def test_c_and_python_admit_exactly_the_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            table = embed.Table(NAME, dir=folder.encode(), memory_bytes=1 << 20)
            limit = embed.Limit(algorithm=embed.TOKEN_BUCKET, limit=self.LIMIT, period_ns=10**9)
            take = lambda d: embed.check(  # noqa: E731
                embed.lib.weir_take(table.handle, limit, b"key", 3, 1, NOW_NS, d)) or d.admitted
            hammer = subprocess.Popen([BUILD / "test/examples/hammer", folder, NAME, str(self.LIMIT), str(NOW_NS)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.assertEqual(hammer.stdout.readline(), "ready\n")
            decision = embed.Decision()
            mine = take(decision)
            self.assertEqual(decision.remaining, self.LIMIT - 2)
            hammer.stdin.write("\n")
            hammer.stdin.flush()
            while take(decision):
                mine += 1
            theirs = int(hammer.communicate(timeout=60)[0])
            table.close()
            self.assertEqual(hammer.returncode, 0)
            self.assertEqual(mine + theirs, self.LIMIT, f"Python {mine}, C {theirs}")


if __name__ == "__main__":
    unittest.main()
