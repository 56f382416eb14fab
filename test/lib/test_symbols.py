#!/usr/bin/python3
"""test_symbols.py BUILD: the symbols that the libraries libweir and libweir-client export."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(sys.argv.pop())


def output_of(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=True).stdout


CLIENT_HEADERS = ("client.h", "ratelimit.h")  # of libweir-client; the other headers are of libweir


def declared(client=False):
    """Returns the names that the headers of a library declare with WEIR_API. A name is the last word before the first
    bracket."""
    names = []
    for header in (ROOT / "include/weir").glob("*.h"):
        if (header.name in CLIENT_HEADERS) != client:
            continue
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = re.sub(r"^\s*#.*(\\\n.*)*$", "", text, flags=re.M)
        names += re.findall(r"\bWEIR_API\b[^;(]*?(\w+)\s*\(", text)
    return names


def defined(*argv):
    """Returns the global names that the library defines (kinds T, D, B, R …), without the lines for members of an archive."""
    return re.findall(r"^(\S+) [A-Z] ", output_of("nm", "--defined-only", "--extern-only", "--format=posix", *argv), re.M)


def dynamic(tag, library="libweir.so"):
    text = output_of("readelf", "--dynamic", "--wide", BUILD / library)
    return sorted(re.findall(rf"\({tag}\).*\[(.*)\]", text))


class Symbols(unittest.TestCase):
    maxDiff = None

    def test_shared_exports_what_the_headers_declare(self):
        names = declared()
        self.assertIn("weir_take", names)
        self.assertEqual(len(names), len(set(names)), "declared twice")
        self.assertEqual(sorted(defined("--dynamic", BUILD / "libweir.so")), sorted(names))

    def test_the_client_exports_what_its_headers_declare(self):
        names = declared(client=True)
        self.assertIn("weir_client_send", names)
        self.assertEqual(sorted(defined("--dynamic", BUILD / "libweir-client.so")), sorted(names))
        exported = defined(BUILD / "libweir-client.a")
        self.assertEqual([n for n in exported if not re.match(r"weir_|wr_", n)], [])

    def test_the_client_links_libweir_and_libcurl(self):
        self.assertEqual(dynamic("SONAME", "libweir-client.so"), ["libweir-client.so.0"])
        self.assertEqual(dynamic("NEEDED", "libweir-client.so"), ["libc.so.6", "libcurl.so.4", "libm.so.6", "libweir.so.0"])

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
