#!/usr/bin/python3
"""test_headers.py: each public header compiles alone and twice, as C and as C++, without a warning, and refers to no private file."""

import re
import subprocess
import unittest
from pathlib import Path

INCLUDE = Path(__file__).resolve().parents[2] / "include"

COMPILERS = [(cc, "c", std) for cc in ("gcc", "clang") for std in ("c11", "c17")]
COMPILERS += [(cc, "c++", std) for cc in ("g++", "clang++") for std in ("c++11", "c++17", "c++20")]


class Headers(unittest.TestCase):
    def test_alone(self):
        headers = sorted(INCLUDE.glob("weir/*.h"))
        self.assertIn("weir.h", [h.name for h in headers])
        for header in headers:
            for cc, language, std in COMPILERS:
                with self.subTest(header=header.name, cc=cc, std=std):
                    self.compile(cc, language, std, header.relative_to(INCLUDE))

    def test_no_private_file_is_named(self):
        for header in sorted(INCLUDE.glob("weir/*.h")):
            named = re.findall(r"[\w./]+\.[hc]\b", header.read_text())
            self.assertEqual([name for name in named if not name.startswith("weir/")
                              and name not in ("stddef.h", "stdint.h")], [], header.name)

    def compile(self, cc, language, std, header):
        done = subprocess.run(
            [cc, "-x", language, f"-std={std}", "-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Werror",
             "-fsyntax-only", f"-I{INCLUDE}", "-"],
            input=f"#include <{header}>\n#include <{header}>\n", text=True, capture_output=True,
            check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
