#!/usr/bin/python3
"""libweir from Python with ctypes. Uses the same table and counters as embed.c.

  embed.py ask NAME [FILE]      asks eight times; a new table is restored from FILE
  embed.py checkpoint NAME FILE writes the table's state to FILE
  embed.py remove NAME          removes the table

$WEIR_LIB is the library to load (default libweir.so.0).
"""

import ctypes as c
import os
import sys
import time

lib = c.CDLL(os.environ.get("WEIR_LIB", "libweir.so.0"))

TOKEN_BUCKET = 1
OPEN_EXISTING = 1


# The structs of weir/error.h, algo.h and weir.h. The library finds out from `size` which fields a
# struct has. It returns an error if the size of Limit does not match its header.
class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 508)]


class Limit(c.Structure):
    _fields_ = [("size", c.c_uint32), ("algorithm", c.c_uint32), ("limit", c.c_uint32),
                ("flags", c.c_uint32), ("period_ns", c.c_uint64), ("burst", c.c_uint32),
                ("queue_size", c.c_uint32), ("max_wait_ns", c.c_uint64),
                ("window_start_ns", c.c_uint64), ("window_end_ns", c.c_uint64),
                ("soft_ceiling", c.c_uint32), ("reserved", c.c_uint32),
                ("soft_for_ns", c.c_uint64), ("max_debt", c.c_uint32),
                ("reserved_2", c.c_uint32), ("identity", c.c_uint64),
                ("written_by_check", c.c_uint64 * 4)]

    def __init__(self, **fields):
        super().__init__(size=c.sizeof(Limit), **fields)
        error = Error()
        check(lib.weir_limit_check(c.byref(self), c.byref(error)), error)


class Opts(c.Structure):
    _fields_ = [("size", c.c_uint32), ("flags", c.c_uint32), ("name", c.c_char_p),
                ("dir", c.c_char_p), ("memory_bytes", c.c_uint64), ("log_bytes", c.c_uint64),
                ("restore_from", c.c_char_p), ("now_ns", c.c_uint64)]


class Decision(c.Structure):
    _fields_ = [("admitted", c.c_uint8), ("soft", c.c_uint8), ("full", c.c_uint8),
                ("banned", c.c_uint8), ("limit", c.c_uint32), ("remaining", c.c_uint32),
                ("granted", c.c_uint32), ("retry_after_ns", c.c_uint64),
                ("reset_after_ns", c.c_uint64), ("delay_ns", c.c_uint64),
                ("charged_ns", c.c_uint64), ("debt", c.c_uint32), ("reserved", c.c_uint32)]


# Without these declarations ctypes passes integers as 32 bits, and truncates pointers and times.
lib.weir_take.argtypes = [c.c_void_p, c.POINTER(Limit), c.c_char_p, c.c_size_t, c.c_int64,
                          c.c_uint64, c.POINTER(Decision)]
lib.weir_checkpoint.argtypes = [c.c_void_p, c.c_char_p, c.c_uint64, c.POINTER(Error)]
lib.weir_close.argtypes = [c.c_void_p]
lib.weir_close.restype = None
lib.weir_strerror.restype = c.c_char_p


def check(code, error=None):
    if code < 0:
        text = error.text if error else lib.weir_strerror(code)
        raise OSError(text.decode())


class Table:
    """A table, found by its name in the default folder."""

    def __init__(self, name, **opts):
        opts = Opts(size=c.sizeof(Opts), name=name.encode(), **opts)
        self.handle = c.c_void_p()
        error = Error()
        check(lib.weir_open(c.byref(opts), c.byref(self.handle), c.byref(error)), error)

    def take(self, limit, key, cost=1):
        decision = Decision()
        check(lib.weir_take(self.handle, limit, key, len(key), cost, time.time_ns(), decision))
        return decision

    def checkpoint(self, path):
        error = Error()
        check(lib.weir_checkpoint(self.handle, path.encode(), time.time_ns(), error), error)

    def close(self):
        lib.weir_close(self.handle)


def ask(name, restore_from=None):
    limit = Limit(algorithm=TOKEN_BUCKET, limit=10, period_ns=3600 * 10**9)
    table = Table(name, memory_bytes=1 << 20, now_ns=time.time_ns(),
                  restore_from=restore_from and restore_from.encode())
    for _ in range(8):
        d = table.take(limit, b"user 7")
        print(f"python {os.getpid()}: {'admitted' if d.admitted else 'refused'}, "
              f"{d.remaining} left, retry after {d.retry_after_ns / 1e9:.0f} s", flush=True)
        time.sleep(0.005)
    table.close()


def checkpoint(name, path):
    table = Table(name, flags=OPEN_EXISTING)
    table.checkpoint(path)
    table.close()


def remove(name):
    error = Error()
    check(lib.weir_remove(name.encode(), None, c.byref(error)), error)


if __name__ == "__main__":
    commands = {"ask": ask, "checkpoint": checkpoint, "remove": remove}
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except (KeyError, IndexError, TypeError):
        sys.exit(__doc__)
    except OSError as e:
        sys.exit(f"embed.py: {e}")
