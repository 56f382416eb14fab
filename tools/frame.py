"""What tools/test and tools/lint share: the build configurations, logs, and the count at the end."""

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The folder under build/, the compiler, and what it is told. `plain` is the folder of `make all` and
# has its compiler, $CC or cc. Warnings are errors where the code is compiled as users compile it;
# under sanitizers GCC sees uninitialised variables that are none.
CONFIGS = {
    "plain": (".", None, ["WEIR_WERROR=ON"]),
    "clang": ("clang", "clang", ["WEIR_WERROR=ON"]),
    "asan": ("asan", "gcc", ["WEIR_SANITIZE=address,undefined"]),
    "tsan": ("tsan", "clang", ["WEIR_SANITIZE=thread"]),
    "fuzz": ("fuzz", "clang", ["WEIR_SANITIZE=fuzzer-no-link,address,undefined"]),
}

SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
}


RECAP_LINES, RECAP_COLUMNS = 25, 200  # of the output of what failed, at the end


class Report:
    """Counts results; a line per stage, and the output of whatever failed."""

    def __init__(self, logs):
        self.logs = logs
        self.passed = self.failed = 0
        self.bad = []
        logs.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def stage(self, name):
        """The body yields its results through the list it is given: (name, ok, output)."""
        if sys.stdout.isatty():
            print(f"{name} …", end="\r", flush=True)
        start = time.monotonic()
        results = []
        try:
            yield results
        except StageError as e:
            results.append((e.what, False, e.output))
        if not results:
            results.append(("stage", False, "nothing ran\n"))
        bad = [r for r in results if not r[1]]
        for what, _, output in bad:
            print(f"--- {name}: {what} failed\n{output.rstrip()}\n---")
        self.bad += [(name, what, output) for what, _, output in bad]
        good = len(results) - len(bad)
        took = time.monotonic() - start
        print(f"{name:<8} {good} passed, {len(bad)} failed  {took:6.1f} s", flush=True)
        self.passed += good
        self.failed += len(bad)

    def finish(self):
        """Once more what failed, in short: of long logs people see the end."""
        for name, what, output in self.bad:
            print(f"failed: {name}: {what}")
            for line in tail(output.rstrip(), RECAP_LINES).splitlines():
                print(f"    {line[:RECAP_COLUMNS]}")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


class StageError(Exception):
    """A stage that cannot go on: a missing tool or a build that fails is a failure, never a skip."""

    def __init__(self, what, output):
        super().__init__(what)
        self.what = what
        self.output = output


def run(argv, log, env=None, timeout=None, cwd=ROOT):
    """Runs argv with its output in the file log; returns (exit code, output)."""
    env = {**os.environ, **(env or {})}
    with open(log, "wb") as f:
        try:
            code = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=f,
                                  stderr=subprocess.STDOUT, env=env, timeout=timeout,
                                  cwd=cwd, check=False).returncode
        except FileNotFoundError:
            f.write(f"{argv[0]}: not found\n".encode())
            code = 127
        except subprocess.TimeoutExpired:
            f.write(f"\n{argv[0]}: stopped after {timeout} s\n".encode())
            code = 124
    return code, Path(log).read_text(errors="replace")


def tail(text, lines=60):
    kept = text.splitlines()[-lines:]
    return "\n".join(kept) + "\n"


def folder(build, config):
    return (build / CONFIGS[config][0]).resolve()


def configure(build, config, log):
    _, cc, settings = CONFIGS[config]
    argv = ["cmake", "-S", ROOT, "-B", folder(build, config), "-G", "Ninja", "-Wno-dev",
            "-DBUILD_TESTING=ON", *(f"-D{s}" for s in settings)]
    if cc:
        argv.append(f"-DCMAKE_C_COMPILER={cc}")
    code, output = run(argv, log)
    if code:
        raise StageError("configure", tail(output))


def compile_all(build, config, jobs, log, target="all"):
    argv = ["cmake", "--build", folder(build, config), "--parallel", jobs, "--target", target]
    code, output = run(argv, log)
    if code:
        raise StageError("build", tail(output))


def without_aslr():
    """Clang 14's runtimes do not start where the kernel randomises more bits of an address than
    they know. Some containers forbid turning that off, and there we try our luck."""
    probe = subprocess.run(["setarch", "-R", "true"], stderr=subprocess.DEVNULL, check=False)
    return ["setarch", "-R"] if probe.returncode == 0 else []


@contextlib.contextmanager
def locked(build):
    """One run per build folder: two would compile into each other's files."""
    build.mkdir(parents=True, exist_ok=True)
    with open(build / ".lock", "w", encoding="utf-8") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{build} is in use by another run; waiting", flush=True)
            fcntl.flock(f, fcntl.LOCK_EX)
        yield
