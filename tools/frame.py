"""The common part of tools/test and tools/lint: the build configurations, logs, and the summary at the end."""

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PR_SET_PDEATHSIG = 1  # prctl(2)

# The folder under build/, the compiler and its CMake settings. `plain` is the folder of `make all` and uses its
# compiler, $CC or cc. Warnings are errors, except with a sanitizer, where GCC wrongly reports uninitialised variables.
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


RECAP_LINES, RECAP_COLUMNS = 25, 200  # size of each failure's output in the summary
SLOWEST = 10


@dataclass
class Result:
    """One suite, model, fuzz target or linted file. `passed`, `failed` and `skipped` count its tests. `reasons` holds
    the name of each skipped test and the reason."""
    name: str
    ok: bool
    output: str = ""
    seconds: float = 0.0
    passed: int = 1
    failed: int = 0
    skipped: int = 0
    reasons: list = field(default_factory=list)
    counted: bool = False  # whether `passed` is a count of tests and not the default

    def __post_init__(self):
        if not self.ok and self.failed == 0:
            self.failed, self.passed = 1, self.passed if self.counted else 0


class Report:
    """Counts tests. Prints a line per stage and the output of each failure; at the end the failures in short, the
    skipped tests, the slowest suites and the time of each stage."""

    def __init__(self, logs):
        self.logs = logs
        self.stages = []  # (name, seconds, results)
        self.name = ""    # the current stage
        logs.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def stage(self, name):
        """Yields a list to which the body appends a Result for each item that it ran."""
        if sys.stdout.isatty():
            print(f"{name} …", end="\r", flush=True)
        start = time.monotonic()
        self.name = name
        results = []
        try:
            yield results
        except StageError as e:
            results.append(Result(e.what, False, e.output))
        if not results:
            results.append(Result("stage", False, "nothing ran\n"))
        took = time.monotonic() - start
        self.stages.append((name, took, results))
        if sys.stdout.isatty():
            print("\33[K", end="")
        for result in results:
            if not result.ok:
                print(f"--- {name}: {result.name} failed\n{result.output.rstrip()}\n---")
        print(f"{name:<10} {counts(results)}  {took:6.1f} s", flush=True)

    def finish(self):
        """Prints the summary; the last line is `N passed, N failed`."""
        everything = [(stage, result) for stage, _, results in self.stages for result in results]
        for stage, result in everything:
            if not result.ok:
                print(f"failed: {stage}: {result.name}")
                for line in tail(result.output.rstrip(), RECAP_LINES).splitlines():
                    print(f"    {line[:RECAP_COLUMNS]}")
        self._print_skipped(everything)
        self._print_times(everything)
        results = [result for _, result in everything]
        if skipped := sum(r.skipped for r in results):
            print(f"{skipped} skipped")
        print(counts(results, with_skipped=False))
        return 0 if all(r.ok for r in results) else 1

    @staticmethod
    def _print_skipped(everything):
        for stage, result in everything:
            if result.skipped:
                by_reason = {}
                for test, reason in result.reasons:
                    by_reason.setdefault(reason, []).append(test)
                named = "; ".join(f"{reason}: {', '.join(tests)}" for reason, tests in by_reason.items())
                print(f"skipped: {stage}: {result.name}: {result.skipped}: {named or 'no reason given'}")

    def _print_times(self, everything):
        timed = sorted(((r.seconds, stage, r.name) for stage, r in everything if r.seconds), reverse=True)
        if timed:
            print("slowest:  " + ", ".join(f"{name} ({stage}) {s:.1f} s" for s, stage, name in timed[:SLOWEST]))
        print("stages:   " + ", ".join(f"{name} {s:.0f} s" for name, s, _ in self.stages)
              + f"; {sum(s for _, s, _ in self.stages):.0f} s in all")


def counts(results, with_skipped=True):
    passed, failed, skipped = (sum(getattr(r, n) for r in results) for n in ("passed", "failed", "skipped"))
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped and with_skipped else "")


class StageError(Exception):
    """Raised if a tool is missing or a build failed. The stage counts as failed, not as skipped."""

    def __init__(self, what, output):
        super().__init__(what)
        self.what = what
        self.output = output


def run(argv, log, env=None, timeout=None, cwd=ROOT, progress=None):
    """Runs argv with its output in the file `log`. Returns (exit code, output). On a terminal, `progress` is called
    every second with the last line of the output, and the text that it returns is shown. The exit code is 127 if the
    program was not found and 124 after the timeout. Raises SystemExit while this program is shutting down."""
    env = {**os.environ, **(env or {})}
    if _ending:
        raise SystemExit
    with open(log, "wb") as f:
        try:
            with subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT,
                                  env=env, cwd=cwd, start_new_session=True, preexec_fn=_die_with_parent) as child:
                _running.add(child)
                try:
                    code = _wait(child, log, timeout, progress if sys.stdout.isatty() else None)
                except BaseException:
                    end_session(child)
                    raise
                finally:
                    _running.discard(child)
        except FileNotFoundError:
            f.write(f"{argv[0]}: not found\n".encode())
            code = 127
        except subprocess.TimeoutExpired:
            f.write(f"\n{argv[0]}: stopped after {timeout} s\n".encode())
            code = 124
    return code, Path(log).read_text(errors="replace")


def _die_with_parent():
    """Makes the kernel kill the child when this process dies, even by SIGKILL."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_session(child):
    """Ends the child's process group: TERM first, so that tests can clean up, then KILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(5)


_running = set()  # the children of run(), which several threads may call
_ending = False   # a signal has come: no further child is started


def end_by_signal():
    """Ctrl-C, TERM and HUP end the program together with all its children. Called once, by the main thread."""
    def leave(number, _frame):
        global _ending
        _ending = True
        for child in list(_running):
            end_session(child)
        print(f"\nended by {signal.Signals(number).name}", flush=True)
        sys.exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def _wait(child, log, timeout, progress):
    """Waits for the child, one second at a time. A wait without a timeout would hold the lock that end_session() needs
    in the signal handler."""
    deadline = time.monotonic() + (timeout or float("inf"))
    while True:
        try:
            return child.wait(max(0, min(1, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise
            lines = tail(Path(log).read_text(errors="replace"), 1).strip() if progress else ""
            if progress and (text := progress(lines)):
                print(f"\33[K{text[:100]}", end="\r", flush=True)


def tail(text, lines=60):
    last = text.splitlines()[-lines:]
    return "\n".join(last) + "\n"


def folder(build, config):
    return (build / CONFIGS[config][0]).resolve()


def configure(build, config, log):
    """Runs cmake for a configuration. Raises StageError if it fails."""
    _, cc, settings = CONFIGS[config]
    argv = ["cmake", "-S", ROOT, "-B", folder(build, config), "-G", "Ninja", "-Wno-dev",
            "-DBUILD_TESTING=ON", f"-DWEIR_NPM={build}/npm", *(f"-D{s}" for s in settings)]
    if cc:
        argv.append(f"-DCMAKE_C_COMPILER={cc}")
    code, output = run(argv, log)
    if code:
        raise StageError("configure", tail(output))


def compile_targets(build, config, jobs, log, targets=("all",)):
    """Builds these targets. Raises StageError if the build fails."""
    argv = ["cmake", "--build", folder(build, config), "--parallel", jobs, "--target", *targets]
    code, output = run(argv, log, progress=lambda line: f"build {config}: {line}")
    if code:
        raise StageError("build", tail(output))


def without_aslr():
    """Returns the command prefix that turns ASLR off, or an empty list if a container forbids that. Clang 14's
    runtimes do not start if ASLR uses more bits than they support."""
    probe = subprocess.run(["setarch", "-R", "true"], stderr=subprocess.DEVNULL, check=False)
    return ["setarch", "-R"] if probe.returncode == 0 else []


@contextlib.contextmanager
def locked(build):
    """Holds the lock of the build folder; waits while another run holds it."""
    build.mkdir(parents=True, exist_ok=True)
    with open(build / ".lock", "w", encoding="utf-8") as f:
        try:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{build} is in use by another run; waiting", flush=True)
            fcntl.flock(f, fcntl.LOCK_EX)
        yield
