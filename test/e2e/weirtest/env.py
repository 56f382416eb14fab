"""How this run is to be done: which build, what nginx runs under, and what that costs.

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

# How many times fewer requests the heavy tests make, and how many times longer everything may take.
# Counts are scaled together with the limits they are held against, so they are as exact as without.
_COST = {"": (1, 1), "asan": (4, 3), "valgrind": (20, 12)}
if WRAP not in _COST:
    raise SystemExit(f"WEIR_WRAP={WRAP}: there are: {' '.join(k or '(empty)' for k in _COST)}")
FEWER, SLOWER = _COST[WRAP]


def scaled(count, least=1):
    """A heavy count under this run's wrapper: `count`, or the FEWERth part of it."""
    return max(count // FEWER, least)


def patience(seconds):
    """A timeout that a loaded machine and this run's wrapper do not exceed unless something hangs."""
    return seconds * SLOWER


# A frame of a program that is not weir's. The module is unloaded before leaks are looked for, so its own
# frames have no name, or that of a library that came to lie there.
_OTHERS = re.compile(r"#\d+ 0x[0-9a-f]+ +(in \S+ .*|\((/usr/sbin/nginx|/\S*/lib(c|ssl|crypto|pcre2-8)\.so\S*)\+0x.*)$")


def complaints(text):
    """What a report says about weir; "" if nothing. nginx leaves things behind when it ends (pools of a
    configuration that it only tested, its connections); leaks without a frame of weir's are those."""
    if "LeakSanitizer" not in text or "ERROR: AddressSanitizer" in text or "runtime error" in text:
        return text.strip()
    leaks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", text)[1:]
    ours = [leak for leak in leaks if any(
        not _OTHERS.match(line.strip()) or "weir" in line
        for line in leak.splitlines() if line.strip().startswith("#"))]
    return "\n".join(ours)


def asan_runtime():
    """The runtime of AddressSanitizer, to be preloaded into programs that were built without it."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, text=True, capture_output=True)
    return os.path.realpath(found.stdout.strip())


def wrapper(reports):
    """What stands before nginx's command line, and the variables it needs; reports are written into
    the folder `reports`, which everybody may write to (workers are not root)."""
    if WRAP == "valgrind":
        return ["valgrind", "-q", "--trace-children=yes", "--vgdb=no", "--keep-debuginfo=yes", "--leak-check=full",
                "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
                f"--suppressions={SUPPRESSIONS / 'valgrind.supp'}", "--num-callers=30",
                f"--log-file={reports}/valgrind.%p"], {}
    if WRAP == "asan":
        inherited = os.environ.get("ASAN_OPTIONS", "")
        return [], {
            "LD_PRELOAD": asan_runtime(),
            # Stacks through nginx, which has no frame pointers; and the exit codes of nginx, whatever
            # it left behind: leaks are found in the reports.
            "ASAN_OPTIONS": f"{inherited}:log_path={reports}/asan:detect_leaks=1:"
                            "fast_unwind_on_malloc=0:exitcode=0",
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}/ubsan",
        }
    return [], {}
