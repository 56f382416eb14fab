#!/usr/bin/python3
"""Memory of a key in Redis, compared with common layouts at equal key length.

    WEIR_BUILD=build bench/redis_bytes.py [FILE]

Memory per key is the growth of Redis' used memory divided by the number of keys: value, name, expiry and
the share of the hash tables. bench/central.py calls measure() with its own Redis.
"""

import contextlib
import subprocess
import sys
import time

import redis

import frame
from frame import BUILD

HOUR_US = 3_600_000_000
HOUR_MS = HOUR_US // 1000
KEYS = 1 << 13  # a power of two, like the size of Redis' hash tables, so the tables of all layouts are equally full
TOKEN_BUCKET, LEAKY_BUCKET, FIXED_WINDOW, SLIDING_COUNTER, SLIDING_LOG = range(1, 6)


def name(i):
    return f"weir:1:{{{i:032x}}}:limit/1h"


class Filled:
    """Memory per key, for keys that fill(pipe, key) writes."""

    def __init__(self, client, fill, keys=KEYS):
        self.write(client, fill, keys)  # a first run, in which Redis allocates its buffers and statistics
        client.flushall()
        before = self.used(client)
        self.write(client, fill, keys)
        self.bytes = round((self.used(client) - before) / keys)
        client.flushall()

    @staticmethod
    def write(client, fill, keys):
        with client.pipeline(transaction=False) as pipe:
            for i in range(keys):
                fill(pipe, name(i))
                if i % 1000 == 999 or i == keys - 1:
                    pipe.execute()

    @staticmethod
    def used(client):
        """Returns the used memory after it has stopped changing: pipeline buffers are freed, hash tables have grown."""
        client.connection_pool.disconnect()
        last = -1
        while (now := client.info("memory")["used_memory"]) != last:
            last = now
            time.sleep(0.2)
        return last


def taken(sha1, algorithm, limit, used):
    """Returns a function that takes `used` units with weir's script. For a log it sends one request per unit."""
    rate = [limit] if algorithm <= LEAKY_BUCKET else []
    times, cost = (used, 1) if algorithm == SLIDING_LOG else (1, used)

    def fill(pipe, key):
        for _ in range(times):
            pipe.evalsha(sha1, 1, key, algorithm, cost, limit, HOUR_US, *rate)
    return fill


def counted(pipe, key):
    pipe.incrby(key, 5).pexpire(key, HOUR_MS)


def counted_twice(pipe, key):
    """Writes the current and the previous window: two keys, each as long as weir's key."""
    for window in "01":
        counted(pipe, key[:-1] + window)


def bucket_hash(pipe, key):
    pipe.hset(key, mapping={"tokens": "4.2831", "last": f"{time.time():.6f}"}).pexpire(key, HOUR_MS)


def bucket_string(pipe, key):
    """Writes the state of GCRA: the theoretical arrival time in seconds."""
    pipe.set(key, f"{time.time():.6f}", px=HOUR_MS)


def sorted_set(entries):
    def fill(pipe, key):
        stamp = time.time_ns() // 1000
        pipe.zadd(key, {str(stamp + i): stamp + i for i in range(entries)}).pexpire(key, HOUR_MS)
    return fill


def measure(client):
    """Returns {name: (weir's bytes, {layout: bytes})}."""
    sha1 = client.script_load((BUILD / "src/redis/take.lua").read_text())
    hashes = {"GCRA string": bucket_string, "hash of two fields": bucket_hash}
    cases = [("token_bucket", TOKEN_BUCKET, 10, 5, KEYS, hashes),
             ("leaky_bucket", LEAKY_BUCKET, 10, 5, KEYS, hashes),
             ("fixed_window", FIXED_WINDOW, 10, 5, KEYS, {"INCR": counted}),
             ("sliding_window_counter", SLIDING_COUNTER, 10, 5, KEYS, {"two INCR keys": counted_twice}),
             ("sliding_window_log", SLIDING_LOG, 10, 5, KEYS, {"sorted set": sorted_set(5)}),
             ("sliding_window_log_1000", SLIDING_LOG, 1000, 1000, 128, {"sorted set": sorted_set(1000)})]
    return {case: (Filled(client, taken(sha1, algorithm, limit, used), keys).bytes,
                   {layout: Filled(client, fill, keys).bytes for layout, fill in layouts.items()})
            for case, algorithm, limit, used, keys, layouts in cases}


def add_figures(figures, client):
    """Adds bytes_per_key_NAME, and the smallest other layout as bytes_per_key_NAME_classic."""
    for case, (weir, layouts) in measure(client).items():
        beside = ", ".join(f"{layout} {size:.0f}" for layout, size in layouts.items())
        figures.add(f"bytes_per_key_{case}", weir, f"other layouts: {beside}")
        figures.add(f"bytes_per_key_{case}_classic", min(layouts.values()), "the smallest other layout")


@contextlib.contextmanager
def own_redis():
    with contextlib.ExitStack() as stack:
        folder = frame.folder(stack, "redis")
        server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", folder / "sock", "--save", ""],
                                  cwd=folder, stdout=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        while not (folder / "sock").exists():
            if server.poll() is not None:
                sys.exit("bench: redis-server did not start")
            time.sleep(0.02)
        yield redis.Redis(unix_socket_path=str(folder / "sock"))


if __name__ == "__main__":
    with own_redis() as own:
        result = frame.Figures(frame.Path(sys.argv[1] if len(sys.argv) > 1 else BUILD / "bench/redis_bytes.json"))
        add_figures(result, own)
        result.write()
