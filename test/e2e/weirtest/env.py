"""Settings of the test run: the build, the tool that nginx runs under, and the slowdown of that tool.

WEIR_BUILD  the build folder (default: build/ of the source tree)
WEIR_WRAP   empty, `asan` (the build has AddressSanitizer: its runtime is preloaded) or `valgrind`
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import machine  # noqa: E402

os.environ["PATH"] = machine.with_sbin(os.environ.get("PATH", ""))
BUILD = Path(os.environ.get("WEIR_BUILD") or ROOT / "build").resolve()
MODULE = BUILD / "ngx_http_weir_module.so"
WEIR = BUILD / "weir"
NGINX = os.environ.get("WEIR_NGINX") or "/usr/sbin/nginx"
WRAP = os.environ.get("WEIR_WRAP", "")
SUPPRESSIONS = Path(__file__).resolve().parent

# For each wrapper: the divisor of the request counts of heavy tests, and the factor on timeouts. Counts are scaled
# together with the limits that they are compared with, so the checks stay exact.
_COST = {"": (1, 1), "asan": (4, 3), "valgrind": (20, 12)}
if WRAP not in _COST:
    raise SystemExit(f"WEIR_WRAP={WRAP}: there are: {' '.join(k or '(empty)' for k in _COST)}")
FEWER, SLOWER = _COST[WRAP]


def scaled(count, least=1):
    """Returns a heavy count scaled for this run's wrapper: `count` divided by FEWER."""
    return max(count // FEWER, least)


def patience(seconds):
    """Returns a timeout that a loaded machine under this run's wrapper exceeds only if something hangs."""
    return seconds * SLOWER


# A stack frame outside weir. The module is unloaded before the leak check, so its own frames have no name, or the name
# of a library that was loaded at the same address.
_OTHERS = re.compile(r"#\d+ 0x[0-9a-f]+ +(in \S+ .*|\((/usr/sbin/nginx|/\S*/lib(c|ssl|crypto|pcre2-8)\.so\S*)\+0x.*)$")


def complaints(text):
    """Returns the part of a sanitizer report that concerns weir, or "". nginx leaks memory at its exit (the pools of a
    configuration that was only tested, its connections). Leaks without a frame of weir are ignored."""
    if "LeakSanitizer" not in text or "ERROR: AddressSanitizer" in text or "runtime error" in text:
        return text.strip()
    leaks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", text)[1:]
    ours = [leak for leak in leaks if any(
        not _OTHERS.match(line.strip()) or "weir" in line
        for line in leak.splitlines() if line.strip().startswith("#"))]
    return "\n".join(ours)


def asan_runtime():
    """Returns the path of AddressSanitizer's runtime. It is preloaded into programs that were built without it."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, text=True, capture_output=True)
    return os.path.realpath(found.stdout.strip())


def wrapper(reports):
    """Returns the words before nginx's command line, and the environment variables that they need. Reports are written
    into the folder `reports`, which every user may write to, because workers do not run as root."""
    if WRAP == "valgrind":
        return ["valgrind", "-q", "--trace-children=yes", "--vgdb=no", "--keep-debuginfo=yes", "--leak-check=full",
                "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
                f"--suppressions={SUPPRESSIONS / 'valgrind.supp'}", "--num-callers=30",
                f"--log-file={reports}/valgrind.%p"], {}
    if WRAP == "asan":
        inherited = os.environ.get("ASAN_OPTIONS", "")
        return [], {
            "LD_PRELOAD": asan_runtime(),
            # Unwind through nginx, which has no frame pointers. Keep the exit codes of nginx: leaks are found in the
            # reports.
            "ASAN_OPTIONS": f"{inherited}:log_path={reports}/asan:detect_leaks=1:"
                            "fast_unwind_on_malloc=0:exitcode=0",
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}/ubsan",
        }
    return [], {}
