#!/usr/bin/python3
"""test_symbols.py BUILD: the symbols that libweir.so and libweir.a export."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop())


def output_of(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True).stdout


def declared():
    """Returns the names that include/weir declares with WEIR_API. A name is the last word before the first bracket."""
    names = []
    for header in (ROOT / "include/weir").glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"^\s*#.*(\\\n.*)*$", "", text, flags=re.M)
        names += re.findall(r"\bWEIR_API\b[^;(]*?(\w+)\s*\(", text)
    return names


def defined(*argv):
    """Returns the global names that the library defines (kinds T, D, B, R …), without the lines for members of an archive."""
    return re.findall(r"^(\S+) [A-Z] ", output_of("nm", "--defined-only", "--extern-only", "--format=posix", *argv), re.M)


def dynamic(tag):
    text = output_of("readelf", "--dynamic", "--wide", BUILD / "libweir.so")
    return sorted(re.findall(rf"\({tag}\).*\[(.*)\]", text))


class Symbols(unittest.TestCase):
    maxDiff = None

    def test_shared_exports_what_the_headers_declare(self):
        names = declared()
        self.assertIn("weir_take", names)
        self.assertEqual(len(names), len(set(names)), "declared twice")
        self.assertEqual(sorted(defined("--dynamic", BUILD / "libweir.so")), sorted(names))

    def test_static_exports_our_prefixes_only(self):
        names = defined(BUILD / "libweir.a")
        self.assertLessEqual(set(declared()), set(names))
        self.assertEqual([n for n in names if not re.match(r"weir_|wr_", n)], [])

    def test_soname(self):
        self.assertEqual(dynamic("SONAME"), ["libweir.so.0"])
        self.assertEqual((BUILD / "libweir.so").readlink().name, "libweir.so.0")

    def test_links_libc_and_libyaml_and_nothing_else(self):
        self.assertEqual(dynamic("NEEDED"), ["libc.so.6", "libyaml-0.so.2"])
        self.assertEqual(dynamic("RUNPATH") + dynamic("RPATH"), [])


if __name__ == "__main__":
    unittest.main()
