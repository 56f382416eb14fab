"""libweir through ctypes: a program that embeds the engine.

`python3 -m weirtest.library TABLE-DIR RULES` is such a program in a process of its own: it reads lines
"COUNT KEY VALUE", asks COUNT times and prints "ADMITTED REFUSED" for each line.
"""

import ctypes
import sys

from . import clock
from .env import BUILD


class Str(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_char_p), ("len", ctypes.c_size_t)]

    @classmethod
    def of(cls, text):
        return cls(text.encode(), len(text.encode()))


class Entry(ctypes.Structure):
    _fields_ = [("key", Str), ("value", Str), ("source", Str)]


class Opts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("dir", ctypes.c_char_p), ("memory_bytes", ctypes.c_uint64),
                ("log_bytes", ctypes.c_uint64), ("restore_from", ctypes.c_char_p),
                ("now_ns", ctypes.c_uint64)]


class Result(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("verdict", ctypes.c_uint32),
                ("http_status", ctypes.c_uint32), ("descriptors", ctypes.c_uint32),
                ("delay_ns", ctypes.c_uint64), ("retry_after_ns", ctypes.c_uint64),
                ("generation", ctypes.c_uint64)]


class StatusHead(ctypes.Structure):
    """The beginning of struct weir_status. Its other fields are not read."""
    _fields_ = [("size", ctypes.c_uint32), ("code", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("requests_per_unit", ctypes.c_uint32), ("unit", ctypes.c_uint32),
                ("remaining", ctypes.c_uint32), ("limit", ctypes.c_uint32), ("reset_s", ctypes.c_uint32),
                ("period_ns", ctypes.c_uint64), ("texts", Str * 3), ("decision", ctypes.c_uint64 * 6)]


class Library:  # not with AddressSanitizer: Python without the runtime cannot load the library
    """libweir in this process, with an engine on the table in a folder."""

    def __init__(self, table, rules_path, name=None):
        self.lib = ctypes.CDLL(str(BUILD / "libweir.so"))
        self.table, self.engine = ctypes.c_void_p(), ctypes.c_void_p()
        rules = ctypes.c_void_p()
        opts = Opts(size=ctypes.sizeof(Opts), dir=str(table).encode(),
                    name=name.encode() if name else None)
        assert self.lib.weir_open(ctypes.byref(opts), ctypes.byref(self.table), None) == 0
        assert self.lib.weir_rules_load(str(rules_path).encode(), ctypes.byref(rules), None) == 0
        assert self.lib.weir_engine_new(self.table, rules, None, ctypes.byref(self.engine)) == 0
        self.lib.weir_ask_size.restype = ctypes.c_size_t
        self.memory = (ctypes.c_uint64 * (self.lib.weir_ask_size() // 8 + 1))()

    def close(self):
        self.lib.weir_engine_free(self.engine)
        self.lib.weir_close(self.table)

    def settle(self, *pairs, cost=1, actual=None, domain="api"):
        """Asks for `cost` units and settles the request with `actual` units. Without `actual`, the request never ends: it
        stays charged and keeps its slots. Returns whether it was admitted."""
        lib, ask = self.lib, ctypes.c_void_p()
        entries = (Entry * len(pairs))(*[Entry(Str.of(k), Str.of(v), Str.of("")) for k, v in pairs])
        assert lib.weir_ask_init(self.memory, ctypes.c_size_t(ctypes.sizeof(self.memory)), self.engine, Str.of(domain),
                                 ctypes.byref(ask)) == 0
        assert lib.weir_ask_add(ask, entries, ctypes.c_size_t(len(pairs)), None, ctypes.c_int64(cost)) == 0
        verdict = lib.weir_ask_decide(ask, ctypes.c_uint64(clock.wall_ns()))
        if verdict == 1 and actual is not None:
            assert lib.weir_ask_settle(ask, ctypes.c_int64(actual), ctypes.c_uint64(clock.wall_ns())) == 0
        lib.weir_ask_done(ask)
        return verdict == 1

    def ask(self, *pairs, domain="api"):
        """Returns (admitted, remaining)."""
        lib, ask = self.lib, ctypes.c_void_p()
        lib.weir_ask_decide.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        entries = (Entry * len(pairs))(*[Entry(Str.of(k), Str.of(v), Str.of("")) for k, v in pairs])
        assert lib.weir_ask_init(self.memory, ctypes.c_size_t(ctypes.sizeof(self.memory)), self.engine, Str.of(domain),
                                 ctypes.byref(ask)) == 0
        assert lib.weir_ask_add(ask, entries, ctypes.c_size_t(len(pairs)), None, ctypes.c_int64(1)) == 0
        verdict = lib.weir_ask_decide(ask, clock.wall_ns())
        status = StatusHead(size=ctypes.sizeof(StatusHead))
        assert lib.weir_ask_tightest(ask, ctypes.byref(status)) == 0
        result = Result(size=ctypes.sizeof(Result))
        assert lib.weir_ask_result(ask, ctypes.byref(result)) == 0 and result.verdict == verdict
        lib.weir_ask_done(ask)
        return verdict == 1, status.remaining


def main():
    library = Library(sys.argv[1], sys.argv[2])
    for line in sys.stdin:
        count, key, value = line.split()
        admitted = sum(library.ask((key, value))[0] for _ in range(int(count)))
        print(admitted, int(count) - admitted, flush=True)
    library.close()


if __name__ == "__main__":
    main()
