#!/usr/bin/python3
"""make bench-lab: how fast `weir replay`, `weir tune` and `weir simulate` are.

The log has 10 million lines and 2 GB (test/lab/make_log.c). It is read once before the measurements, so that all programs
read it from memory. A round runs weir and its peer in turn. A figure is the median of the ratios of all rounds.

The rules have one limit per client and minute. `wc -l` is the least that a program that reads lines can do. The program
for awk counts the requests of each client and minute. A second one relies on the order of the lines: it forgets the
counts of a minute when the next minute begins.

The simulated fleet has three nodes and gets 20,000 requests per second. Its figures are requests per minute of processor
time.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import frame
from frame import BUILD

LINES = 10_000_000
FEWER_LINES = 1_000_000
BYTES_PER_LINE = 200
DAY_S = 86400
LIMIT = 60
AWK_ROUNDS = 3  # a round of replay and awk takes half a minute

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
# Zipf's law gives the most active of 100 clients four times as many requests as its limit admits.
SCENARIO = """
limit: {requests_per_unit: 1000, unit: second, algorithm: fixed_window}
nodes: 3
clients: {count: %d, zipf: 1.0}
duration: 60s
traffic:
- {kind: steady, rate: 20000/s}
"""


class Run:
    """A command. Each run adds to .seconds, .cpu_s and .peak_mb; .output is that of the latest run."""

    def __init__(self, *argv):
        self.argv = [str(a) for a in argv]
        self.seconds, self.cpu_s, self.peak_mb, self.output = [], [], [], ""

    def __call__(self):
        begun = time.monotonic()
        with subprocess.Popen(self.argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
            self.output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"bench-lab: {' '.join(self.argv)} exited with {process.returncode}")
        self.seconds.append(time.monotonic() - begun)
        self.cpu_s.append(usage.ru_utime + usage.ru_stime)
        self.peak_mb.append(usage.ru_maxrss / 1024)
        return self.seconds[-1]

    def lines_per_s(self, lines=LINES):
        return lines / statistics.median(self.seconds)


def make_log(stack, kind, lines):
    """Writes a log to a folder below the build folder. The log stays in memory, as far as memory suffices."""
    parent = BUILD / "bench"
    parent.mkdir(exist_ok=True)
    free = shutil.disk_usage(parent).free
    if free < 1.2 * BYTES_PER_LINE * lines:
        sys.exit(f"bench-lab: {parent} has {free / 1e9:.1f} GB of free space, and the log needs "
                 f"{1.2 * BYTES_PER_LINE * lines / 1e9:.1f} GB")
    path = frame.folder(stack, "lab", parent) / f"{kind}.log"
    with open(path, "wb") as out:
        subprocess.run([BUILD / "make-log", str(lines), str(DAY_S), kind], stdout=out, check=True)
    return path


def replay_of(stack, log):
    rules = frame.folder(stack, "rules") / "rules.yaml"
    rules.write_text(RULES)
    return Run(BUILD / "weir", "replay", log, "--rules", rules, "--json")


def check_same(replay, awk):
    """Exits if replay and awk do not count the same: the ratio would be of something else."""
    result = json.loads(replay.output)["limits"][0]
    counts = [result["requests"], result["refused"]]
    if counts != [int(n) for n in awk.output.split()]:
        sys.exit(f"bench-lab: replay counted {counts}, awk counted {awk.output.split()}")


def bench_replay(figures, stack, rounds):
    log = make_log(stack, "combined", LINES)
    replay, wc = replay_of(stack, log), Run("wc", "-l", log)
    wc()
    figures.add("replay_vs_wc", 1 / frame.interleaved(rounds, replay, wc), "wc -l ÷ replay; to reach: >= 0.05")
    for name, program in ("replay_vs_awk", AWK), ("replay_vs_awk_in_order", AWK_IN_ORDER):
        awk = Run("mawk", program, log)
        ratio = 1 / frame.interleaved(min(rounds, AWK_ROUNDS), replay, awk)
        check_same(replay, awk)
        figures.add(name, ratio, "awk, per client and minute ÷ replay" + ("; to reach: >= 2" if program == AWK else ""))
    figures.add("replay_lines_per_s", replay.lines_per_s(), "lines per second")
    figures.add("replay_memory_mb_10m_lines", max(replay.peak_mb), "MB resident with the table; to reach: <= 256")


def bench_formats(figures, stack, rounds):
    """Other readers, and tune. They are compared with nothing."""
    combined, as_json = make_log(stack, "combined", FEWER_LINES), make_log(stack, "json", FEWER_LINES)
    with open(f"{combined}.gz", "wb") as out:
        subprocess.run(["gzip", "-c", combined], stdout=out, check=True)
    for name, run in (("json", replay_of(stack, as_json)), ("gz", replay_of(stack, f"{combined}.gz")),
                      ("tune", Run(BUILD / "weir", "tune", combined, "--json"))):
        for _ in range(min(rounds, 3)):
            run()
        figures.add(f"{name}_lines_per_s", run.lines_per_s(FEWER_LINES), "lines per second")


def bench_simulate(figures, stack, rounds):
    scenario = frame.folder(stack, "scenario") / "fleet.yaml"
    for name, mode, clients, remark in (
            ("simulate_local", "local", 100, "; to reach: >= 10,000,000"),
            ("simulate_eventual", "eventual", 100, "; to reach: >= 10,000,000"),
            ("simulate_eventual_1k_clients", "eventual", 1000, ", 1,000 clients")):
        scenario.write_text(SCENARIO % clients)
        run = Run(BUILD / "weir", "simulate", scenario, "--modes", mode, "--json")
        for _ in range(min(rounds, 3)):
            run()
        requests = json.loads(run.output)["runs"][0]["requests"]
        figures.add(f"{name}_per_minute", 60 * requests / statistics.median(run.cpu_s),
                    f"simulated requests per minute of processor time{remark}")


if __name__ == "__main__":
    frame.main(__doc__, {"replay": bench_replay, "formats": bench_formats, "simulate": bench_simulate}, rounds=7)
