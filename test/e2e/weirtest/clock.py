"""A wall clock that the test moves, for every process that the test starts while the clock is in use.

    def test_three_a_minute(api, clock):
        with Nginx(rules=..., api=api) as nginx:      # starts at clock.now(), 12:00:30
            ...                                       # time stands still, however slow the machine is
            clock.advance(29.5)                       # one half second before the next minute
            clock.advance(0.5)                        # the next minute

`clock.c`, preloaded, answers CLOCK_REALTIME, gettimeofday() and time() from one word in a shared file, so all processes
see a step at once. Monotonic clocks (timeouts, timers, leases) run in real time. The test's own time.time() is real.

Every file of tests has a clock that runs from START at real speed, so that no hour or day ends in a test whatever the
real time is. A clock of a test replaces it while it is in use.
"""

import calendar
import mmap
import os
import struct
import time
from pathlib import Path

from . import env

LIBRARY = env.BUILD / "test/e2e/libtestclock.so"
START = "2026-01-14 12:00:30"  # a Wednesday, half a minute after noon: no edge of a window is near

current = None  # the clock in use; programs.start() passes it to every process


def seconds_of(text):
    """Returns a time such as `2026-01-14 12:00:30`, UTC, in seconds since 1970."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S"))


def wall_ns():
    """Returns the time of the clock in use, in nanoseconds."""
    return current.now_ns() if current else time.time_ns()


def for_weir(base=None):
    """Returns the environment for a run of `weir` that programs.start() does not start: `base` or os.environ, and the
    clock."""
    base = os.environ if base is None else base
    return current.variables(base, sanitized=env.WRAP == "asan") if current else base


class Clock:
    """`with Clock() as clock:` starts at START and stands still; `at` is another time, as text or in seconds.

    clock.now()             the time in seconds since 1970, a float that is exact to the microsecond
    clock.advance(seconds)  moves the clock forward, or back if negative; clock.set(text or seconds) sets it
    clock.run()             lets the clock run at real speed from its present time; clock.stop() halts it
    clock.variables()       the environment variables for a program that the harness does not start
    clock.apart(seconds)    variables for a process whose clock is always this many seconds ahead
    """

    def __init__(self, at=START):
        self.at = at
        self._offset_ns = None  # the offset from the real time while the clock runs; None while it stands still

    def __enter__(self):
        global current
        assert LIBRARY.exists(), f"{LIBRARY}: not there; build weir, or set WEIR_BUILD"
        from . import programs  # programs passes the clock to the processes that it starts, and so imports this module
        self.folder = programs.temp_folder("clock")
        self.path = Path(self.folder, "clock")
        self._library = Path(self.folder, LIBRARY.name)  # a link, because LD_PRELOAD cannot contain a path with a space
        self._library.symlink_to(LIBRARY)
        self._words = [(self._word(self.path), 0)]  # pairs: a shared word, and the nanoseconds by which its clock is ahead
        self.set(self.at)
        self._outer, current = current, self
        return self

    def __exit__(self, *_):
        global current
        current = self._outer
        for word, _ in self._words:
            word.close()
        from . import programs
        programs.remove_folder(self.folder)

    @staticmethod
    def _word(path):
        """Creates a file of eight bytes and maps it."""
        path.write_bytes(bytes(8))
        with open(path, "r+b") as f:
            return mmap.mmap(f.fileno(), 8)

    def _write(self, value):
        """Writes the value into all words, each with the offset of its clock."""
        for word, ahead_ns in self._words:
            word[:] = struct.pack("=q", value + ahead_ns)

    def apart(self, seconds):
        path = Path(self.folder, f"apart-{len(self._words)}")
        self._words.append((self._word(path), round(seconds) * 10**9))
        self._write(self._now_ns | 1 if self._offset_ns is None else self._offset_ns)
        return {"TESTCLOCK_FILE": str(path)}

    def now_ns(self):
        return self._now_ns if self._offset_ns is None else time.time_ns() + self._offset_ns

    def now(self):
        return self.now_ns() // 1000 / 1e6

    def set(self, at):
        seconds = seconds_of(at) if isinstance(at, str) else at
        self._set_ns(round(seconds * 1e6) * 1000)

    def advance(self, seconds):
        self._set_ns(self.now_ns() + round(seconds * 1e6) * 1000)

    def _set_ns(self, now_ns):
        if self._offset_ns is not None:
            self._offset_ns = now_ns - time.time_ns() & ~1
            self._write(self._offset_ns)
            return
        self._now_ns = now_ns
        self._write(now_ns | 1)  # an odd value: the clock stands still

    def run(self):
        self._offset_ns = self._now_ns - time.time_ns() & ~1
        self._write(self._offset_ns)

    def stop(self):
        now_ns, self._offset_ns = self.now_ns(), None
        self._set_ns(now_ns)

    def variables(self, base=None, sanitized=False):
        """Returns `base` (os.environ unless given) with the variables that preload the clock. It comes before all other
        libraries except the runtime of AddressSanitizer, which has to be the first. `sanitized`: the program was built
        with AddressSanitizer."""
        base = dict(os.environ if base is None else base)
        others = [p for p in base.get("LD_PRELOAD", "").split(":") if p and os.path.basename(p) != LIBRARY.name]
        first = [p for p in others if "libasan" in p] or ([env.asan_runtime()] if sanitized else [])
        libraries = [*first, str(self._library), *(p for p in others if p not in first)]
        return {"TESTCLOCK_FILE": str(self.path), **base, "LD_PRELOAD": ":".join(libraries)}
