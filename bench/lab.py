#!/usr/bin/python3
"""make bench-lab: how fast `weir replay`, `weir tune` and `weir simulate` are.

The log has 10 million lines and 2 GB (test/lab/make_log.c). It is read once before the measurements, so that all programs
read it from memory. A round runs weir and its peer in turn. A figure is the median of the ratios of all rounds.

The rules have one limit per client and minute. `wc -l` is the least that a program that reads lines can do. The program
for awk counts the requests of each client and minute. A second one relies on the order of the lines: it forgets the
counts of a minute when the next minute begins.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import frame
from frame import BUILD, SERVER_CORE, pinned

LINES = 10_000_000
DAY_S = 86400
LOG_BYTES = 2_000_000_000
LIMIT = 60
TABLE_MB = 64
ROUNDS = 5  # a round of replay and awk takes half a minute

RULES = f"""
domain: bench
requests:
- descriptor: [{{key: client, from: remote_address}}]
descriptors:
- key: client
  rate_limit: {{unit: minute, requests_per_unit: {LIMIT}, algorithm: fixed_window}}
"""

# $4 is "[02/Mar/2026:00:00:45".
AWK = f"""
{{ count[$1, substr($4, 2, 17)]++ }}
END {{ for (key in count) if (count[key] > {LIMIT}) over += count[key] - {LIMIT}; print NR, over + 0 }}
"""
AWK_IN_ORDER = f"""
{{ minute = substr($4, 2, 17)
  if (minute != last) {{ split("", count); last = minute }}
  if (++count[$1] > {LIMIT}) over++ }}
END {{ print NR, over + 0 }}
"""


class Run:
    """A command that runs on one core. Each run adds to .seconds and .peak_mb; .output is that of the latest run."""

    def __init__(self, *argv, stdin=None):
        self.argv, self.stdin = [str(a) for a in argv], stdin
        self.seconds, self.peak_mb, self.output = [], [], ""

    def __call__(self):
        begun = time.monotonic()
        with subprocess.Popen(self.argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              preexec_fn=pinned(SERVER_CORE)) as process:
            self.output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"bench-lab: {' '.join(self.argv)} exited with {process.returncode}")
        self.seconds.append(time.monotonic() - begun)
        self.peak_mb.append(usage.ru_maxrss / 1024)
        return self.seconds[-1]

    def lines_per_s(self):
        return LINES / statistics.median(self.seconds)


def make_log(stack, kind="combined", lines=LINES):
    """Writes the log to a folder in the build folder. Exits if the disk has no room for it."""
    parent = BUILD / "bench"
    parent.mkdir(exist_ok=True)
    free = shutil.disk_usage(parent).free
    if free < 2.5 * LOG_BYTES:
        sys.exit(f"bench-lab: {parent} has {free / 1e9:.1f} GB of free space, but the logs need {2.5 * LOG_BYTES / 1e9:.0f} GB")
    path = frame.folder(stack, "lab", parent) / f"{kind}.log"
    with open(path, "wb") as out:
        subprocess.run([BUILD / "make-log", str(lines), str(DAY_S), kind], stdout=out, check=True)
    path.read_bytes()  # into memory
    return path
