#!/usr/bin/python3
"""test_install.py [BUILD]: installs the libraries, then builds programs with the installed pkg-config files.

With BUILD, that build is installed under its configured prefix. Without, `make install` builds in a new folder, as packagers
do.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "test/lib"
CLIENT = ROOT / "examples/client/get.c"
VERSION = re.search(r'WEIR_VERSION "(.*)"', (ROOT / "include/weir/weir.h").read_text())[1]


def run(*argv, **env):
    # Variables of an outer make must not reach this one.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PKG_CONFIG"))}
    done = subprocess.run([str(a) for a in argv], env={**clean, **env}, cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, argv))}\n{done.stdout}")
    return done.stdout


class Install(unittest.TestCase):
    """`make install` installs one build folder under two prefixes: the second install must not contain the first prefix."""

    built = None  # a complete build folder

    @classmethod
    def setUpClass(cls):
        cls.tmp = Path(tempfile.mkdtemp(prefix="weir-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.tmp)
        if cls.built:
            cache = (cls.built / "CMakeCache.txt").read_text()
            cls.prefixes = (re.search(r"^CMAKE_INSTALL_PREFIX:PATH=(.*)$", cache, re.M)[1],)
            run("cmake", "--install", cls.built, DESTDIR=str(cls.root(cls.prefixes[0])))
            return
        cls.prefixes = ("/usr", "/opt/weir")
        for prefix in cls.prefixes:
            run("make", "install", f"BUILD={cls.tmp}/build", f"DESTDIR={cls.root(prefix)}",
                f"PREFIX={prefix}", "JOBS=2")

    @classmethod
    def root(cls, prefix):
        return cls.tmp / f"root{prefix.replace('/', '-')}"

    def libdir(self, prefix):
        """Returns the folder of the libraries: lib, or lib/x86_64-linux-gnu on Debian under /usr."""
        found = list((self.root(prefix) / prefix[1:]).glob("lib/**/pkgconfig"))
        self.assertEqual(len(found), 1)
        return found[0].parent

    def pkg_config(self, prefix, *args, library="weir"):
        """Runs pkg-config on the installed tree only, as for a cross compiler."""
        return run("pkg-config", *args, library, PKG_CONFIG_SYSROOT_DIR=str(self.root(prefix)),
                   PKG_CONFIG_LIBDIR=str(self.libdir(prefix) / "pkgconfig"),
                   PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1", PKG_CONFIG_ALLOW_SYSTEM_LIBS="1").split()

    def build_and_run(self, prefix, compiler, *flags, static=False):
        program = self.tmp / "consumer"
        wanted = self.pkg_config(prefix, *(["--static"] if static else []), "--cflags", "--libs")
        run(*compiler, "-Wall", "-Wextra", HERE / "consumer.c", "-x", "none", "-o", program, *wanted,
            *flags)
        output = run(program, self.tmp, LD_LIBRARY_PATH="" if static else str(self.libdir(prefix)))
        self.assertEqual(output, f"{VERSION} 7\n")
        return self.needed(program)

    @staticmethod
    def needed(program):
        return re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", program))

    def run_client(self, program, **env):
        """Runs the example of the client without URLs: it only opens and closes a client."""
        self.assertEqual(run(program, **env), "")

    def each_prefix(self):
        for prefix in self.prefixes:
            with self.subTest(prefix=prefix):
                yield prefix

    def test_files(self):
        for prefix in self.each_prefix():
            root = self.root(prefix) / prefix[1:]
            headers = sorted(p.name for p in (ROOT / "include/weir").iterdir())
            self.assertEqual(sorted(p.name for p in (root / "include/weir").iterdir()), headers)
            libs = {p.name for p in self.libdir(prefix).iterdir() if p.name != "nginx"}
            self.assertEqual(libs, {"pkgconfig"} | {f"{name}.{end}" for name in ("libweir", "libweir-client")
                                                    for end in ("a", "so", "so.0", f"so.{VERSION}")})
            modules = {p.name for p in (root / "lib/nginx/modules").iterdir()}
            self.assertEqual(modules, {"ngx_http_weir_module.so"})

    def test_pkg_config(self):
        for prefix in self.each_prefix():
            text = (self.libdir(prefix) / "pkgconfig/weir.pc").read_text()
            self.assertIn(f"prefix={prefix}\n", text)
            self.assertNotIn(str(self.tmp), text)
            self.assertEqual(self.pkg_config(prefix, "--modversion"), [VERSION])
            self.assertEqual(self.pkg_config(prefix, "--libs-only-l"), ["-lweir"])
            self.assertEqual(self.pkg_config(prefix, "--static", "--libs-only-l"), ["-lweir", "-lyaml"])

    def test_shared(self):
        for prefix in self.each_prefix():
            self.assertIn("libweir.so.0", self.build_and_run(prefix, ["cc", "-std=c11"]))

    def test_cxx(self):
        needed = self.build_and_run(self.prefixes[0], ["g++", "-x", "c++", "-std=c++11", "-Wpedantic"])
        self.assertIn("libweir.so.0", needed)

    def test_archive_in_a_dynamic_program(self):
        """Links with the archive. The linker prefers the shared library, so the file name of the archive is given."""
        archive = self.libdir(self.prefixes[0]) / "libweir.a"
        wanted = self.pkg_config(self.prefixes[0], "--cflags")
        program = self.tmp / "consumer"
        run("cc", HERE / "consumer.c", "-o", program, *wanted, archive, "-lyaml")
        self.assertEqual(run(program, self.tmp), f"{VERSION} 7\n")

    def test_static(self):
        self.assertEqual(self.build_and_run(self.prefixes[0], ["cc", "-static"], static=True), [])

    def test_client_pkg_config(self):
        for prefix in self.each_prefix():
            text = (self.libdir(prefix) / "pkgconfig/weir-client.pc").read_text()
            self.assertIn(f"prefix={prefix}\n", text)
            self.assertNotIn(str(self.tmp), text)
            libs = self.pkg_config(prefix, "--libs-only-l", library="weir-client")
            self.assertEqual(libs, ["-lweir-client", "-lweir"])
            libs = self.pkg_config(prefix, "--static", "--libs-only-l", library="weir-client")
            self.assertEqual(libs, ["-lweir-client", "-lcurl", "-lm", "-lweir", "-lyaml"])

    def test_client_shared(self):
        for prefix in self.each_prefix():
            program = self.tmp / "client"
            run("cc", "-std=c11", "-Wall", "-Wextra", CLIENT, "-o", program,
                *self.pkg_config(prefix, "--cflags", "--libs", library="weir-client"))
            self.run_client(program, LD_LIBRARY_PATH=str(self.libdir(prefix)))
            self.assertIn("libweir-client.so.0", self.needed(program))

    def test_client_archives_in_a_dynamic_program(self):
        libdir, program = self.libdir(self.prefixes[0]), self.tmp / "client"
        run("cc", CLIENT, "-o", program, *self.pkg_config(self.prefixes[0], "--cflags", library="weir-client"),
            libdir / "libweir-client.a", libdir / "libweir.a", "-lcurl", "-lm", "-lyaml")
        self.run_client(program)
        self.assertEqual([name for name in self.needed(program) if "weir" in name], [])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Install.built = Path(sys.argv.pop(1))
    unittest.main()
