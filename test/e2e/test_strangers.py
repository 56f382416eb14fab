"""Third-party clients: hey, siege and curl."""

import re
import subprocess

import pytest
from weirtest import Nginx, by_user, full, patience, scaled

pytestmark = pytest.mark.usefixtures("clock")  # no window ends within a test

LIMIT = scaled(1000)
ALL = f"""
domain: api
requests:
  - descriptor: [{{key: all, value: together}}]
descriptors:
  - key: all
    rate_limit: {{unit: minute, requests_per_unit: {LIMIT}, algorithm: sliding_window_log}}
"""
SERVER = "keepalive_requests 100000; location / { weir on; proxy_pass http://api; }"


def run(*argv, seconds=60):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=patience(seconds))


@full("repeats the limit across workers with another client; test_processes has it in every tier")
def test_hey_counts_one_refusal_of_1001(api):
    """1,001 requests over 91 connections with a limit of 1,000 per minute: hey counts 1,000 and 1. hey needs a multiple
    of its connections; 1,001 is 91 times 11."""
    asked = LIMIT + 1
    workers = next(n for n in range(min(91, asked), 0, -1) if asked % n == 0)
    with Nginx(rules=ALL, conf_server=SERVER, api=api, workers=4, reuseport=True) as nginx:
        out = run("hey", "-n", asked, "-c", workers, "-t", 0, f"http://127.0.0.1:{nginx.port}/hey")
        counts = {int(s): int(n) for s, n in re.findall(r"\[(\d+)\]\s+(\d+) responses", out.stdout)}
        assert counts == {200: LIMIT, 429: 1}, out.stdout + out.stderr
        assert api.count("/hey") == LIMIT


@full("repeats the limit across workers with another client; test_processes has it in every tier")
def test_siege_counts_one_refusal_of_1001(api, tmp_path):
    """siege with 7 users, each 143 requests: 1,001 in all. The test counts its log of transactions."""
    asked = LIMIT + 1
    users = next(n for n in (7, 3, 2, 1) if asked % n == 0)
    config = tmp_path / "siegerc"
    config.write_text("verbose = true\ncolor = off\nlogging = false\ncookies = false\n"
                      "connection = keep-alive\nprotocol = HTTP/1.1\nbenchmark = true\nparser = false\n"
                      "accept-encoding = identity\nfailures = 100000\n", encoding="utf-8")
    with Nginx(rules=ALL, conf_server=SERVER, api=api, workers=4, reuseport=True) as nginx:
        out = run("siege", f"--rc={config}", "-b", "-c", users, "-r", asked // users,
                  f"http://127.0.0.1:{nginx.port}/siege")
        text = out.stdout + out.stderr
        statuses = re.findall(r"HTTP/1\.1 (\d+)", text)
        assert (statuses.count("200"), statuses.count("429")) == (LIMIT, 1), text[-2000:]
        assert api.count("/siege") == LIMIT


def test_curl_retry_honours_retry_after(clock, api, tmp_path):
    """curl --retry reads our Retry-After, a second, and asks again. The token comes when curl was refused."""
    rules = by_user("{unit: second, requests_per_unit: 1, algorithm: token_bucket}")
    with Nginx(rules=rules, conf_server=SERVER, api=api) as nginx, open(tmp_path / "out", "w+", encoding="ascii") as out:
        url = f"http://127.0.0.1:{nginx.port}/curl"
        with subprocess.Popen(["curl", "-sS", "--retry", "5", "-H", "X-User: curl", "-w", "%{http_code} ", "-o",
                               tmp_path / "1", url, "-o", tmp_path / "2", url], stdin=subprocess.DEVNULL, stdout=out) as curl:
            try:
                nginx.wait_logged("weir: refused")  # once, or again if curl was faster than this test
                clock.advance(1)
                assert curl.wait(patience(30)) == 0
            finally:
                curl.kill()
        out.seek(0)
        assert out.read().split() == ["200", "200"]
        assert api.count("/curl") == 2


def test_curl_reads_the_fields_over_http2(api):
    """curl reads our header fields over HTTP/2 as over HTTP/1.1."""
    with Nginx(rules=by_user(), conf_server=SERVER, api=api, h2c=True, tls=True) as nginx:
        for flags, port, scheme in ((["--http1.1"], nginx.port, "http"),
                                    (["--http2-prior-knowledge"], nginx.h2c_port, "http"),
                                    (["--http2", "-k"], nginx.tls_port, "https"),
                                    (["--http1.0"], nginx.port, "http")):
            done = run("curl", "-sSi", *flags, "-H", f"X-User: {port}{flags[0]}",
                       f"{scheme}://127.0.0.1:{port}/curl")
            assert done.returncode == 0, done.stderr
            assert re.search(r"^x-ratelimit-remaining: 4\r?$", done.stdout, re.M | re.I), done.stdout
