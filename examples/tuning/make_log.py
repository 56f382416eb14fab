#!/usr/bin/env python3
"""Writes the access log of a shop that does not exist, in nginx's combined format, to standard output.

The log is the same each time: two hours of 2,500 visitors, a monitor, a crawler, a scanner, a client that guesses
passwords, and a program that retries without a pause.

    python3 examples/tuning/make_log.py > shop.log
"""

import sys
import time

START = 1772442000  # 2026-03-02 09:00:00 UTC
SECONDS = 2 * 3600
VISITORS = 2500

BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:135.0) Gecko/20100101 Firefox/135.0"
RESOURCES = ["/assets/site.css", "/assets/fonts.css", "/assets/app.js", "/assets/cart.js", "/assets/logo.svg",
             "/assets/hero.webp", "/assets/icons.svg", "/assets/inter.woff2", "/assets/track.js", "/favicon.ico"]
WORDS = ["chair", "table", "lamp", "shelf", "sofa", "rug", "desk", "mirror"]


class Random:
    """A generator of pseudo-random numbers (splitmix64), so that the log does not depend on the Python version."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return (z ^ z >> 31) % n

    def chance(self, percent):
        return self.below(100) < percent


def address(number):
    """Returns the address of a visitor. Every fourth visitor has IPv6."""
    if number % 4 == 3:
        return f"2001:db8:{number // 256:x}:{number % 256:x}::{number % 7 + 1:x}"
    return f"198.18.{number // 250}.{number % 250 + 1}"


class Log:
    """Requests as (time in ms, number, line)."""

    def __init__(self):
        self.lines = []

    def add(self, ms, client, request, status=200, size=1200, agent=BROWSER):
        if 0 <= ms < SECONDS * 1000:
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(START + ms // 1000))
            line = f'{client} - - [{stamp}] "{request} HTTP/1.1" {status} {size} "-" "{agent}"'
            self.lines.append((ms, len(self.lines), line))

    def write(self, out):
        for _, _, line in sorted(self.lines):
            out.write(line + "\n")


def visit(log, random, client):
    """One visit: a first page with its files, then some pages and searches, sometimes an order."""
    ms = random.below(SECONDS * 1000)
    log.add(ms, client, "GET /", size=18200)
    for name in RESOURCES[:4 + random.below(7)]:
        log.add(ms + 80 + random.below(900), client, f"GET {name}", size=2000 + random.below(60000))
    for _ in range(random.below(7)):
        ms += 4000 + random.below(50000)
        if random.chance(30):  # the search box asks at each letter
            word = WORDS[random.below(8)]
            for letters in range(2, len(word) + 1):
                log.add(ms + 200 * letters, client, f"GET /api/search?q={word[:letters]}", size=900)
            ms += 2500
        else:
            log.add(ms, client, f"GET /products/{1 + random.below(400)}", size=9100)
            log.add(ms + 120, client, f"GET /images/products/{1 + random.below(400)}.webp", size=48000)
    if random.chance(12):
        log.add(ms + 9000, client, "POST /login", 401 if random.chance(15) else 303)
        log.add(ms + 21000, client, "POST /cart", 303)
        log.add(ms + 55000, client, "POST /api/orders", 201)


def machines(log, random):
    """The clients that are not visitors."""
    for ms in range(0, SECONDS * 1000, 30000):
        log.add(ms + random.below(400), "203.0.113.10", "GET /health", size=15, agent="uptime-check/2.1")
    for i in range(1500):
        log.add(600000 + i * 3100 + random.below(900), "203.0.113.99", f"GET /products/{1 + i % 400}", size=9100,
                agent="ExampleBot/3.0 (+https://example.com/bot)")
    for i in range(700):
        log.add(2400000 + i * 180, "203.0.113.66", f"GET /{WORDS[i % 8]}-{i}.php", 404, 160, "curl/8.5.0")
    for i in range(900):
        log.add(3600000 + i * 1100, "203.0.113.77", "POST /login", 401, 310, "python-requests/2.31")
    for i in range(1200):
        log.add(5000000 + i * 250, "203.0.113.88", "POST /api/orders", 503, 90, "shop-app/1.4")


def main():
    random = Random(20260302)
    log = Log()
    for number in range(VISITORS):
        for _ in range(1 + (random.below(3) == 0)):
            visit(log, random, address(number))
    machines(log, random)
    log.write(sys.stdout)


if __name__ == "__main__":
    main()
