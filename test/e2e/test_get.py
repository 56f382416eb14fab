"""weir get: retries, waits, redirects, the cache, exit codes and the summary."""

import dataclasses
import email.utils
import gzip
import json
import os
import resource
import signal
import ssl
import subprocess
import threading
import time

import pytest

from test_progress import Terminal
from weirtest import WEIR, certificate, free_port, wait_for
from weirtest.gateway import Gateway
from weirtest.h2scripted import H2Scripted
from weirtest.scripted import Answer, Scripted


@pytest.fixture(name="server")
def _server():
    with Scripted() as server:
        yield server


def command(*words):
    return [WEIR, "get", "--no-proxy", *map(str, words)]


def run(*words, **more):
    return subprocess.run(command(*words), capture_output=True, check=False, timeout=120, **more)


def name_of(url):
    """Returns the name that weir get gives to the file of a URL."""
    url = url.removeprefix("https://")
    return "".join("_" if c == "/" else c if c.isalnum() or c in ".-=&,@+" else f"%{ord(c):02X}" for c in url)


def results(done):
    report = json.loads(done.stdout)
    return {entry["url"]: entry for entry in report["urls"]}, report["totals"]


# ---- one URL ----


def test_writes_the_body_to_standard_output(server):
    server.on("/a", Answer(body=b"\x00bytes\n"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (0, b"\x00bytes\n")
    assert b"weir get: 1 URL: 1 complete, 0 skipped, 0 failed\n" in done.stderr
    assert b"weir get: 1 request, 0 retries, 0 refusals, 0 waits" in done.stderr


def test_quiet_writes_no_summary(server):
    server.on("/a", Answer(body=b"x"))
    assert run("-q", server.url("/a")).stderr == b""


def test_an_error_is_exit_22_and_its_body_is_left_out(server):
    server.on("/a", Answer(404, body=b"none"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (22, b"")
    assert b"HTTP status 404" in done.stderr
    done = run("--fail-with-body", server.url("/a"))
    assert (done.returncode, done.stdout) == (22, b"none")


def test_sends_fields_method_and_body(server):
    server.on("/a", Answer(body=b"ok"))
    assert run("-H", "X-One: 1", "-H", "X-Empty:", "--data", "a=b", server.url("/a")).returncode == 0
    (seen,) = server.seen()
    assert (seen.method, seen.body) == ("POST", b"a=b")
    assert (seen.fields["x-one"], seen.fields["x-empty"]) == ("1", "")
    assert seen.fields["user-agent"].startswith("weir/")
    assert "content-type" not in seen.fields and "idempotency-key" not in seen.fields


@pytest.mark.parametrize("words, code, text", [
    (["http://"], 3, b"http://"),
    (["http:///x"], 3, b"the host is missing"),
    (["http:/x"], 3, b"the host is missing"),
    (["ftp://127.0.0.1/"], 3, b"the scheme must be http or https"),
    (["file:///etc/passwd"], 3, b"the scheme must be http or https"),
    (["example.com"], 3, b"begin with http:// or https://"),
    (["http://user:secret@127.0.0.1/"], 3, b"must not have a user"),
    (["http://127.0.0.1/a\r\nX: y"], 3, b"control character"),
    (["-H", "X: a\r\nY: b", "http://127.0.0.1/"], 2, b"control character"),
    (["-H", "X", "http://127.0.0.1/"], 2, b"NAME: VALUE"),
    (["-H", "Host: x", "http://127.0.0.1/"], 2, b"the client sets the header field Host itself"),
    (["http://127.0.0.1/", "http://127.0.0.1/b"], 2, b"several URLs need --out DIR"),
    (["--from", "-"], 2, b"several URLs need --out DIR"),
    (["--rate", "fast", "http://127.0.0.1/"], 2, b"--rate fast is not a rate such as 10/s"),
    (["--json", "http://127.0.0.1/"], 2, b"--out"),
    (["http://no-such-host.invalid/", "--attempts", "1"], 6, b"no-such-host.invalid"),
    ([], 2, b"no URL"),
])
def test_exit_codes_of_bad_input(words, code, text):
    done = run(*words)
    assert done.returncode == code, done.stderr
    assert text in done.stderr and b"secret@" not in done.stdout


@pytest.mark.parametrize("words", [[], ["--data", "x"]])
def test_no_connection_is_exit_7_after_all_attempts(words):
    """A POST is retried too: nothing of it was sent."""
    done = run("--attempts", "2", f"http://127.0.0.1:{free_port()}/", *words)
    assert done.returncode == 7
    assert b"not retried: all attempts are used" in done.stderr
    assert b"2 requests, 1 retry" in done.stderr


def test_a_server_that_stays_silent_is_exit_28(server):
    never = threading.Event()
    server.on("/a", Answer(hold=never))
    try:
        assert run("--attempts", "1", "--timeout", "1s", server.url("/a")).returncode == 28
    finally:
        never.set()


@pytest.mark.parametrize("words", [[], ["--out", "OUT", "--json"]])
def test_a_full_disk_at_standard_output_is_exit_23(server, tmp_path, words):
    server.on("/a", Answer(body=b"x"))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command(*[str(tmp_path) if w == "OUT" else w for w in words], server.url("/a")), stdout=full,
                              stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 23 and b"No space left on device" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_output_is_exit_23(server, tmp_path, closed):
    """No socket gets the number of standard output, so the body is not written into a connection."""
    server.on("/a", Answer(body=b"x" * 100))
    for words in [server.url("/a")], [server.url("/a"), "--out", str(tmp_path / "out"), "--json"]:
        done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command(*words)], stderr=subprocess.PIPE, check=False,
                              timeout=60)
        assert done.returncode == 23
        assert ("2>&-" in closed) or b"Bad file descriptor" in done.stderr
    assert [(seen.method, seen.path) for seen in server.seen()] == [("GET", "/a")] * 2


@pytest.mark.parametrize("status, fields", [(302, {}), (300, {})])
def test_a_status_without_a_body_to_keep_is_exit_22(server, tmp_path, status, fields):
    server.on("/a", Answer(status, fields, b"moved"))
    done = run(server.url("/a"), "--out", tmp_path)
    assert done.returncode == 22 and b"HTTP status %d" % status in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_of_partial_files_that_others_can_write_is_refused(server, tmp_path):
    (tmp_path / ".weir-get").mkdir()
    (tmp_path / ".weir-get").chmod(0o777)
    done = run(server.url("/a"), "--out", tmp_path)
    assert done.returncode == 23 and b"other users can write to it" in done.stderr
    assert not server.seen()


# ---- TLS ----


@pytest.fixture(name="secure")
def _secure(tmp_path):
    """A server whose certificate is for localhost only, signed by ca.pem. other.pem has signed nothing."""
    certificate.authority(tmp_path)
    certificate.signed(tmp_path, "localhost", "DNS:localhost")
    certificate.self_signed(tmp_path, cert="other.pem", key="other-key.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "localhost.pem", tmp_path / "localhost-key.pem")
    with Scripted(tls=context) as server:
        server.on("/a", Answer(body=b"secret"))
        yield server


def test_a_trusted_certificate(secure, tmp_path):
    done = run("--cacert", tmp_path / "ca.pem", f"https://localhost:{secure.port}/a")
    assert (done.returncode, done.stdout) == (0, b"secret"), done.stderr


@pytest.mark.parametrize("words, host", [
    ([], "localhost"),  # the system does not know the authority
    (["--cacert", "other.pem"], "localhost"),  # signed by another authority
    (["--cacert", "ca.pem"], "127.0.0.1"),  # a certificate for another name
    (["--cacert", "ca-key.pem"], "localhost"),  # a file without certificates
])
def test_an_untrusted_certificate_is_exit_60(secure, tmp_path, words, host):
    done = run(*words, f"https://{host}:{secure.port}/a", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (60, b""), done.stderr
    assert b"1 request, 0 retries" in done.stderr  # another attempt would fail too
    assert not secure.seen()


def test_no_redirect_leads_from_https_to_http(secure, server, tmp_path):
    secure.on("/a", Answer(302, {"Location": server.url("/b")}))
    done = run("--cacert", tmp_path / "ca.pem", f"https://localhost:{secure.port}/a")
    assert done.returncode == 47 and b"from https to http" in done.stderr
    assert not server.seen()


def test_no_tls_at_the_port_is_exit_35(server):
    done = run("--attempts", "1", f"https://127.0.0.1:{server.port}/a")
    assert done.returncode == 35, done.stderr


# ---- waits and retries ----


@pytest.mark.parametrize("value", ["-1", "NaN", "1e400", "abc", "", "-9223372036854775808"])
def test_a_wait_that_is_no_number_is_ignored(server, value):
    server.on("/a", Answer(429, {"Retry-After": value}), Answer(body=b"ok"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (0, b"ok")


@pytest.mark.parametrize("value", ["31622400", "99999999999999999999999999", "Fri, 31 Dec 2499 23:59:59 GMT",
                                   "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_wait_of_a_year_ends_at_once(server, tmp_path, value):
    server.on("/a", Answer(429, {"Retry-After": value}))
    server.on("/b", Answer(body=b"ok"))
    done = run(server.url("/a"), server.url("/b"), "--out", tmp_path, "--concurrency", "1")
    assert done.returncode == 22 and len(server.seen()) == 1
    assert b"would pass the deadline" in done.stderr


def test_hostile_policies_do_not_stop_the_client(server, tmp_path):
    policies = ", ".join(f'"p{i}";q={i % 3};w={i % 5}' for i in range(300))
    limits = ", ".join(f'"p{i}";r={i % 2 * 99999999999999999999};t={i}' for i in range(300))
    server.on("/a", Answer(200, {"RateLimit-Policy": policies, "RateLimit": limits}, b"x"))
    server.on("/b", Answer(200, {"RateLimit-Policy": '"a";q=0;w=0', "RateLimit": '"a";r=0;t=-1'}, b"x"))
    server.on("/c", Answer(200, {"RateLimit-Policy": '"a";q=1e400;w=NaN', "RateLimit": '"a";r=-1;t=1e400'}, b"x"))
    urls = [server.url(path) for path in ("/a", "/b", "/c")]
    assert run(*urls, "--out", tmp_path).returncode == 0


@pytest.mark.parametrize("fields, least_s", [
    ({"Retry-After": "1"}, 1.0),
    ({"retry-after-ms": "700"}, 0.7),
])
def test_never_sooner_than_told(server, fields, least_s):
    server.on("/a", Answer(429, fields, b"slow down"), Answer(body=b"ok"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (0, b"ok")
    first, second = server.seen("/a")
    assert second.at - first.at >= least_s
    assert b"2 requests, 1 retry, 1 refusal" in done.stderr


def test_a_date_in_retry_after_is_compared_with_the_date_of_the_server(server):
    # The clock of the server is a day behind, which must not matter.
    now = time.time() - 86400
    fields = {"Date": email.utils.formatdate(now, usegmt=True), "Retry-After": email.utils.formatdate(now + 2, usegmt=True)}
    server.on("/a", Answer(503, fields), Answer(body=b"ok"))
    assert run(server.url("/a")).returncode == 0
    first, second = server.seen("/a")
    assert second.at - first.at >= 2.0


def test_the_wait_of_one_url_holds_back_the_others(server, tmp_path):
    server.on("/first", Answer(429, {"Retry-After": "1"}), Answer(body=b"a"))
    for i in range(4):
        server.on(f"/{i}", Answer(body=b"b"))
    urls = [server.url(p) for p in ("/first", "/0", "/1", "/2", "/3")]
    assert run(*urls, "--out", tmp_path / "out", "--concurrency", "1").returncode == 0
    seen = server.seen()
    assert [s.path for s in seen][0] == "/first" and len(seen) == 6
    assert all(s.at - seen[0].at >= 1.0 for s in seen[1:])


def test_a_told_wait_counts_before_the_body_arrives(server, tmp_path):
    """The header of the refusal has arrived, its body has not. A transfer that ends meanwhile is followed by none."""
    header, body, other = threading.Event(), threading.Event(), threading.Event()
    refusal = Answer(429, {"Retry-After": "3"}, b"n", hold=header, pause=body)
    server.on("/a", Answer(body=b"ok"))
    server.on("/b", refusal, Answer(body=b"ok"))
    server.on("/c", Answer(body=b"ok", hold=other))
    server.on("/d", Answer(body=b"ok"))
    urls = [server.url(path) for path in ("/a", "/b", "/c", "/d")]
    with subprocess.Popen(command("--out", tmp_path, "--concurrency", "2", *urls), stderr=subprocess.DEVNULL) as client:
        wait_for(lambda: server.seen("/b") and server.seen("/c"), "two requests at once")
        header.set()
        time.sleep(1)
        other.set()
        time.sleep(0.7)
        early = server.seen("/d")
        body.set()
        assert client.wait(30) == 0
    assert not early and server.seen("/d")[0].at - server.seen("/b")[0].at >= 3


def test_the_wait_of_the_refused_url_begins_with_the_header(server):
    """The body of the refusal is cut after 5 s. The wait of 4 s has ended then."""
    never = threading.Event()
    server.on("/a", Answer(429, {"Retry-After": "4"}, b"12", pause=never), Answer(body=b"ok"))
    try:
        assert run(server.url("/a")).returncode == 0
    finally:
        never.set()
    first, second = server.seen()
    assert 5 <= second.at - first.at < 8


def test_a_wait_is_kept_while_many_other_hosts_are_asked(tmp_path):
    """A client knows 4096 hosts. At most 1024 URLs are under way, so the last one is asked after all others."""
    with Scripted("0.0.0.0") as server:
        server.on("/told", Answer(429, {"Retry-After": "3600"}))
        server.on("/a", Answer(body=b"x"))
        hosts = [f"127.{i // 250 + 1}.{i % 250 + 1}.1" for i in range(5200)]
        told = f"http://127.0.0.1:{server.port}"
        lines = [f"{told}/told", *(f"http://{host}:{server.port}/a" for host in hosts), f"{told}/last"]
        done = run("--from", "-", "--out", tmp_path, "--json", "--deadline", "10m", input="\n".join(lines).encode())
        assert results(done)[1]["complete"] == len(hosts)
        assert len(server.seen("/told")) == 1 and not server.seen("/last")


def test_a_wait_beyond_the_deadline_returns_the_refusal_at_once(server):
    server.on("/a", Answer(429, {"Retry-After": "3600"}, b"later"))
    done = run("--deadline", "30s", server.url("/a"))
    assert done.returncode == 22
    assert b"HTTP status 429, and the wait would pass the deadline" in done.stderr
    assert len(server.seen()) == 1


@pytest.mark.parametrize("status, fields", [
    (429, {}), (503, {}), (403, {"Retry-After": "1"}), (302, {"Location": "/b"}),
])
def test_the_body_of_a_refusal_is_read_for_5_seconds(server, status, fields):
    """Half of the body arrives. The status counts, and what has arrived is the body."""
    never = threading.Event()
    server.on("/a", Answer(status, fields, b"12345678", pause=never))
    server.on("/b", Answer(404, body=b"1234"))
    begin = time.monotonic()
    try:
        done = run(server.url("/a"), "--attempts", "1", "--timeout", "9s", "--fail-with-body")
    finally:
        never.set()
    assert (done.returncode, done.stdout) == (22, b"1234"), done.stderr
    assert time.monotonic() - begin >= 5
    assert b"HTTP status %d" % (404 if status == 302 else status) in done.stderr


@pytest.mark.parametrize("status, fields, words", [
    (429, {}, ["--timeout", "1s"]), (503, {}, ["--timeout", "1s"]), (302, {"Location": "/b"}, ["--timeout", "1s"]),
    (429, {}, ["--deadline", "1s"]), (429, {"Retry-After": "1"}, ["--deadline", "1500ms"]),
])
def test_the_status_of_a_refusal_counts_if_its_body_never_comes(server, status, fields, words):
    never = threading.Event()
    server.on("/a", Answer(status, fields, b"1", pause=never))
    server.on("/b", Answer(404))
    try:
        done = run(server.url("/a"), "--attempts", "1", *words)
    finally:
        never.set()
    assert done.returncode == 22, done.stderr
    assert b"HTTP status %d" % (404 if status == 302 else status) in done.stderr
    assert (b"1 refusal" in done.stderr) == (status != 302)


def test_the_status_of_a_refusal_counts_if_its_body_breaks(server):
    server.on("/a", Answer(429, {}, b"12345678", cut=4))
    done = run(server.url("/a"), "--attempts", "1", "--fail-with-body")
    assert (done.returncode, done.stdout) == (22, b"1234"), done.stderr
    assert b"HTTP status 429" in done.stderr and b"1 refusal" in done.stderr


def test_a_403_that_is_no_refusal_has_its_whole_body(server):
    body = b"x" * (3 << 20)
    server.on("/a", Answer(403, body=body))
    done = run("--fail-with-body", server.url("/a"))
    assert (done.returncode, len(done.stdout)) == (22, len(body))


def test_a_broken_body_is_no_response_after_a_wait_beyond_the_deadline(server, tmp_path):
    """The wait of another URL ends the request between two attempts. Its last attempt got a part of the body only."""
    refusal, broken = threading.Event(), threading.Event()
    server.on("/a", Answer(body=b"ok"))
    server.on("/b", Answer(200, {"ETag": '"v1"'}, b"0123456789", cut=5, hold=broken))
    server.on("/c", Answer(429, {"Retry-After": "100"}, hold=refusal))
    urls = [server.url(path) for path in ("/a", "/b", "/c")]
    with subprocess.Popen(command("--json", "--out", tmp_path, "--concurrency", "2", "--deadline", "20s", *urls),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        wait_for(lambda: server.seen("/b") and server.seen("/c"), "two requests at once")
        refusal.set()
        time.sleep(0.5)
        broken.set()
        stdout, _ = client.communicate(timeout=30)
    urls = {url["url"]: url for url in json.loads(stdout)["urls"]}
    assert urls[server.url("/b")]["exit"] == 28
    assert urls[server.url("/c")]["exit"] == 22
    assert not (tmp_path / name_of(server.url("/b"))).exists()


def test_attempts_are_bounded(server):
    server.on("/a", Answer(503))
    assert run("--attempts", "3", server.url("/a")).returncode == 22
    assert len(server.seen()) == 3


def test_a_reset_connection_is_retried(server):
    server.on("/a", Answer(reset=True), Answer(body=b"ok"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout, len(server.seen())) == (0, b"ok", 2)


def test_other_errors_are_not_retried(server):
    server.on("/a", Answer(500))
    assert run(server.url("/a")).returncode == 22
    assert len(server.seen()) == 1


def test_a_post_is_not_retried_without_a_key(server):
    server.on("/a", Answer(503), Answer(body=b"ok"))
    assert run("--data", "x", server.url("/a")).returncode == 22
    assert len(server.seen()) == 1


def test_a_post_is_retried_with_one_key_for_all_attempts(server):
    server.on("/a", Answer(503), Answer(reset=True), Answer(body=b"ok"))
    assert run("--data", "x", "--retry-all", server.url("/a")).returncode == 0
    keys = [s.fields["idempotency-key"] for s in server.seen()]
    assert len(keys) == 3 and len(set(keys)) == 1 and len(keys[0]) == 36 and keys[0][14] == "4"


def test_the_callers_key_is_kept(server):
    server.on("/a", Answer(503), Answer(body=b"ok"))
    assert run("--data", "x", "-H", "Idempotency-Key: mine", server.url("/a")).returncode == 0
    assert [s.fields["idempotency-key"] for s in server.seen()] == ["mine", "mine"]


def listed(server, tmp_path, *paths):
    """Writes a list of URLs, and returns the options that load it into a folder one after the other."""
    urls = tmp_path / "urls"
    urls.write_text("".join(server.url(path) + "\n" for path in paths))
    return "--from", urls, "--out", tmp_path / "out", "--concurrency", "1"


@pytest.mark.parametrize("words, sent", [
    (["--method", "PATCH"], 1), (["--method", "POST"], 1), (["--retry-all"], 3), (["--method", "PUT"], 3),
])
def test_a_connection_that_ends_without_a_response(server, tmp_path, words, sent):
    """The server may have handled the request. Only a request that may run twice is sent again, as an attempt."""
    server.on("/a", Answer(body=b"ok"))
    server.on("/b", Answer(raw=b""))
    done = run(*listed(server, tmp_path, "/a", "/b"), "--data", "x", "--attempts", "3", *words)
    assert done.returncode == 56
    assert len(server.seen("/b")) == sent
    assert b"weir get: %d requests, %d retr" % (1 + sent, sent - 1) in done.stderr


def test_a_kept_connection_that_ends_takes_an_attempt(server, tmp_path):
    server.on("/a", Answer(body=b"ok"))
    server.on("/b", Answer(raw=b""), Answer(body=b"ok"))
    done = run(*listed(server, tmp_path, "/a", "/b"), "--attempts", "1", "--overwrite")
    assert done.returncode == 56 and b"the server closed a kept connection without a response" in done.stderr
    assert len(server.seen("/b")) == 1
    server.on("/b", Answer(raw=b""), Answer(body=b"ok"))
    done = run(*listed(server, tmp_path, "/a", "/b"), "--attempts", "2", "--overwrite")
    assert done.returncode == 0 and b"weir get: 3 requests, 1 retry" in done.stderr


def once_per_connection(seen):
    """Answers the first request of a connection, and closes the connection at the second one without a response."""
    return Answer(body=b"ok") if seen.number == 1 else Answer(raw=b"")


def test_kept_connections_that_end_do_not_use_the_retry_budget(server, tmp_path):
    """A retry budget has room for 10 retries. More URLs are sent on a connection that ends."""
    paths = [f"/{i}" for i in range(40)]
    for path in paths:
        server.on(path, once_per_connection)
    done = run(*listed(server, tmp_path, *paths))
    assert done.returncode == 0, done.stderr
    ended = [seen.number for seen in server.seen()].count(2)
    assert ended > 10 and len(server.seen()) == 40 + ended
    assert b"weir get: 40 URLs: 40 complete, 0 skipped, 0 failed" in done.stderr
    assert b"weir get: %d requests, %d retries" % (40 + ended, ended) in done.stderr


def test_kept_connections_that_end_are_no_failures_of_the_host(server, tmp_path):
    """Six kept connections end together. After five failures in a row, the requests would wait for the host's breaker."""
    all_first, all_second = threading.Barrier(6), threading.Barrier(6)

    def first(_):
        all_first.wait(30)
        return Answer(body=b"ok")

    def second(seen):
        if seen.number == 1:
            return Answer(body=b"ok")
        all_second.wait(30)
        return Answer(raw=b"")

    server.on("/", Answer(body=b"ok"))
    for i in range(6):
        server.on(f"/a{i}", first)
        server.on(f"/b{i}", second)
    urls = [server.url(path) for path in ["/"] + [f"/{letter}{i}" for letter in "ab" for i in range(6)]]
    done = run(*urls, "--out", tmp_path, "--concurrency", "6")
    assert done.returncode == 0, done.stderr
    assert b"weir get: 19 requests, 6 retries, 0 refusals, 6 waits" in done.stderr


def test_a_request_that_must_not_run_twice_uses_a_new_connection(server, tmp_path):
    paths = ["/a", "/b", "/c"]
    for path in paths:
        server.on(path, once_per_connection)
    done = run(*listed(server, tmp_path, *paths), "--data", "x")
    assert done.returncode == 0, done.stderr
    assert [(seen.path, seen.number) for seen in server.seen()] == [("/a", 1), ("/b", 1), ("/c", 1)]


def test_a_post_on_a_shared_connection_of_http_2_is_sent_once(secure, tmp_path):
    """The connection of the POST to /a gets a second request, and ends without a response to both."""
    asked = threading.Event()

    def handle(connection, stream, method, path):
        if path == "/first":
            connection.answer(stream, 200, last=True)
        elif path == "/a" and not asked.is_set():
            asked.set()
        elif path == "/b":
            asked.wait(30)
            connection.answer(stream, 303, [("location", "/c")], last=True)
        elif ("POST", "/a") in connection.seen:
            connection.reset()
        else:
            connection.answer(stream, 200, body=b"ok")

    assert secure.port  # makes the certificates
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "localhost.pem", tmp_path / "localhost-key.pem")
    with H2Scripted(context, handle) as server:
        urls = [f"https://localhost:{server.port}{path}" for path in ("/first", "/a", "/b")]
        done = run(*urls, "--data", "x", "--cacert", tmp_path / "ca.pem", "--concurrency", "2", "--out", tmp_path / "out")
    assert server.seen.count(("POST", "/a")) == 1
    assert done.returncode == 56, done.stderr
    assert b"not retried: the method is not idempotent" in done.stderr
    assert b"weir get: 3 URLs: 2 complete, 0 skipped, 1 failed" in done.stderr
    assert server.seen.count(("GET", "/c")) == 2


def test_a_broken_body_is_continued(server):
    body = bytes(range(256)) * 100

    def rest(seen):
        start = int(seen.fields["range"].removeprefix("bytes=").removesuffix("-"))
        return Answer(206, {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}", "ETag": '"v1"'}, body[start:])

    server.on("/a", Answer(200, {"ETag": '"v1"'}, body, cut=10000), rest)
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (0, body)
    first, second = server.seen()
    assert "range" not in first.fields
    assert (second.fields["range"], second.fields["if-range"]) == ("bytes=10000-", '"v1"')


def test_a_part_smaller_than_asked_for_is_continued(server, tmp_path):
    """A server may send less than the rest. The file is complete only with the last byte."""
    body = bytes(range(250)) * 4

    def some(seen):
        start = int(seen.fields["range"].removeprefix("bytes=").removesuffix("-"))
        end = min(start + 300, len(body))
        return Answer(206, {"Content-Range": f"bytes {start}-{end - 1}/{len(body)}", "ETag": '"v1"'}, body[start:end])

    server.on("/a", Answer(200, {"ETag": '"v1"'}, body, cut=100), some)
    assert run(server.url("/a"), "--out", tmp_path).returncode == 0
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == body
    assert [s.fields.get("range") for s in server.seen()] == [None, "bytes=100-", "bytes=400-", "bytes=700-"]


@pytest.mark.parametrize("content_range", [
    None, "", "bytes 0-399/1000", "bytes 101-999/1000", "bytes 100-99/1000", "bytes 100-999/500", "bytes -1-5/6", "bytes 100-999",
    "bytes 100-99999999999999999999/*", "bytes 100-400/1000",  # the part has 900 bytes
])
def test_a_part_that_does_not_fit_is_an_error(server, tmp_path, content_range):
    fields = {"ETag": '"v1"', **({} if content_range is None else {"Content-Range": content_range})}
    server.on("/a", Answer(200, {"ETag": '"v1"'}, b"a" * 1000, cut=100), Answer(206, fields, b"b" * 900))
    assert run(server.url("/a"), "--out", tmp_path, "--attempts", "2").returncode == 56
    assert not (tmp_path / name_of(server.url("/a"))).exists()


def test_a_part_that_nobody_asked_for_is_an_error(server, tmp_path):
    server.on("/a", Answer(206, {"Content-Range": "bytes 0-4/1000"}, b"first"))
    assert run(server.url("/a"), "--out", tmp_path, "--attempts", "1").returncode == 56
    done = run(server.url("/a"), "-H", "Range: bytes=0-4")
    assert (done.returncode, done.stdout) == (0, b"first")
    assert run(server.url("/a"), "-H", "Range: bytes=0-4", "--resume", "--out", tmp_path).returncode == 2


MODIFIED = "Mon, 01 Jan 2024 00:00:00 GMT"
DATED = {"Last-Modified": MODIFIED, "Date": "Mon, 01 Jan 2024 00:00:01 GMT"}


@pytest.mark.parametrize("first, part", [
    ({"ETag": '"a"'}, {"ETag": '"b"', "Content-Range": "bytes 5-9/10"}),
    ({"ETag": '"a"'}, {"Content-Range": "bytes 5-9/10"}),
    ({"ETag": '"a"'}, {"ETag": 'W/"a"', "Content-Range": "bytes 5-9/10"}),
    ({"ETag": '"a"'}, {"ETag": '"a"', "Content-Range": "bytes 5-9/11"}),
    (DATED, {"Last-Modified": "Tue, 02 Jan 2024 00:00:00 GMT", "Content-Range": "bytes 5-9/10"}),
    (DATED, {"Content-Range": "bytes 5-10/*"}),
])
def test_a_part_of_another_version_begins_again(server, tmp_path, first, part):
    """Bytes of two versions never come together in one file: the third request asks for the whole body."""
    length = 6 if part["Content-Range"].endswith("10/*") else 5
    server.on("/a", Answer(200, first, b"0123456789", cut=5), Answer(206, part, b"X" * length), Answer(200, first, b"abcdefghij"))
    done = run(server.url("/a"), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == b"abcdefghij"
    assert [s.fields.get("range") for s in server.seen()] == [None, "bytes=5-", None]


@pytest.mark.parametrize("words", [[], ["--resume"]])
def test_a_part_longer_than_it_says_begins_again(server, tmp_path, words):
    part = Answer(206, {"ETag": '"a"', "Content-Range": "bytes 5-9/10"}, b"56789EVIL")
    whole = Answer(200, {"ETag": '"a"'}, b"0123456789")
    server.on("/a", dataclasses.replace(whole, cut=5), part, whole)
    if words:
        assert run(server.url("/a"), "--out", tmp_path, "--attempts", "1").returncode == 56
    done = run(server.url("/a"), "--out", tmp_path, "--attempts", "3", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == b"0123456789"
    assert [s.fields.get("range") for s in server.seen()] == [None, "bytes=5-", None]


@pytest.mark.parametrize("fields", [
    {"Content-Range": "bytes */5"},  # the first response has said that the body has 10 bytes
    {"Content-Range": "bytes */10", "ETag": '"b"'},
])
def test_a_body_that_became_shorter_begins_again(server, tmp_path, fields):
    first = Answer(200, {"ETag": '"a"'}, b"0123456789", cut=5)
    server.on("/a", first, Answer(416, fields), Answer(200, {"ETag": '"b"'}, b"abcde"))
    done = run(server.url("/a"), "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == b"abcde"
    assert [s.fields.get("range") for s in server.seen()] == [None, "bytes=5-", None]


def test_a_part_of_another_version_is_not_written_to_standard_output(server):
    part = Answer(206, {"ETag": '"b"', "Content-Range": "bytes 5-9/10"}, b"XXXXX")
    server.on("/a", Answer(200, {"ETag": '"a"'}, b"0123456789", cut=5), part)
    done = run("--attempts", "2", server.url("/a"))
    assert (done.returncode, done.stdout) == (56, b"01234")
    assert b"the server sent a part of another version of the body" in done.stderr


@pytest.mark.parametrize("fields", [
    {"ETag": '"a"', "Content-Range": "bytes 5-9/10"},
    {"ETag": '"a"', "Content-Range": "bytes 5-9/*"},  # the length is known from the first response
])
def test_a_part_of_the_same_version_is_continued(server, fields):
    server.on("/a", Answer(200, {"ETag": '"a"'}, b"0123456789", cut=5), Answer(206, fields, b"56789"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (0, b"0123456789"), done.stderr


def test_a_part_may_leave_out_last_modified(server):
    server.on("/a", Answer(200, DATED, b"0123456789", cut=5), Answer(206, {"Content-Range": "bytes 5-9/10"}, b"56789"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (0, b"0123456789"), done.stderr


@pytest.mark.parametrize("answer, text", [
    (Answer(206, {"Content-Range": "bytes 3-5/10"}, b"345"), b"the server sent a part of the body (status 206)"),
    (Answer(304, {"ETag": '"a"'}), b"the server sent the status 304 to a request without a condition"),
])
def test_a_response_that_nobody_asked_for_is_exit_56(server, tmp_path, answer, text):
    server.on("/a", answer)
    done = run(server.url("/a"), "--out", tmp_path)
    assert done.returncode == 56 and text in done.stderr
    assert len(server.seen()) == 1 and not list(tmp_path.iterdir())


def test_the_status_101_is_final_and_no_success(server, tmp_path):
    server.on("/a", Answer(raw=b"HTTP/1.1 101 Switching Protocols\r\n\r\nbytes"))
    done = run(server.url("/a"), "--attempts", "1")
    assert (done.returncode, done.stdout) == (22, b""), done.stderr
    assert b"HTTP status 101" in done.stderr
    done = run(server.url("/a"), "--attempts", "1", "--out", tmp_path)
    assert done.returncode == 22 and not list(tmp_path.iterdir())


def test_a_response_that_is_not_http_is_exit_56(server):
    server.on("/a", Answer(raw=b"hello\r\n"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (56, b"") and b"the response is not HTTP" in done.stderr
    assert len(server.seen()) == 1


@pytest.mark.parametrize("line, count", [(400_000, 1), (1_000, 400)])
def test_a_header_that_is_too_large_is_exit_63(server, line, count):
    server.on("/a", Answer(raw=b"HTTP/1.1 200 OK\r\n" + (b"A: " + b"x" * line + b"\r\n") * count + b"\r\n"))
    done = run(server.url("/a"))
    assert done.returncode == 63 and b"the response is too large" in done.stderr
    assert len(server.seen()) == 1


def with_lengths(*lengths, status=200, fields="", body="abcde"):
    """Returns an answer with these Content-Length fields, after which the connection ends."""
    fields = fields + "".join(f"Content-Length: {length}\r\n" for length in lengths)
    return Answer(raw=f"HTTP/1.1 {status} Reason\r\n{fields}\r\n{body}".encode())


@pytest.mark.parametrize("line, count", [(400_000, 1), (1_000, 400)])
def test_a_header_that_is_too_large_is_exit_63(server, line, count):
    server.on("/a", Answer(raw=b"HTTP/1.1 200 OK\r\n" + (b"A: " + b"x" * line + b"\r\n") * count + b"\r\n"))
    done = run(server.url("/a"))
    assert done.returncode == 63 and b"the response is too large" in done.stderr
    assert len(server.seen()) == 1


@pytest.mark.parametrize("lengths", [
    ["99999999999999999999999999"], ["9223372036854775808"], ["3", "5"], ["5", "3"], ["5, 3"], ["5x"],
])
def test_a_length_that_is_not_one_number_is_exit_56(server, tmp_path, lengths):
    server.on("/a", with_lengths(*lengths))
    done = run(server.url("/a"), "--out", tmp_path)
    assert done.returncode == 56 and b"its Content-Length is not one number" in done.stderr
    assert len(server.seen()) == 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("words, answer, body", [
    ([], with_lengths("5", "5"), b"abcde"),
    ([], with_lengths("5, 5"), b"abcde"),
    ([], with_lengths("5", "3", fields="Transfer-Encoding: chunked\r\n", body="4\r\nabcd\r\n0\r\n\r\n"), b"abcd"),
    (["--method", "HEAD"], with_lengths("99999999999999999999999999", body=""), b""),
])
def test_a_length_that_is_told_twice_or_does_not_count(server, words, answer, body):
    server.on("/a", answer)
    done = run(server.url("/a"), *words)
    assert (done.returncode, done.stdout) == (0, body), done.stderr


def test_a_304_to_the_callers_condition_is_exit_22(server):
    server.on("/a", Answer(304, {"ETag": '"a"'}))
    done = run(server.url("/a"), "-H", 'If-None-Match: "a"')
    assert done.returncode == 22 and b"HTTP status 304" in done.stderr


@pytest.mark.parametrize("fields", [
    {"Last-Modified": MODIFIED, "Date": MODIFIED},
    {"Last-Modified": MODIFIED},
    {"Last-Modified": MODIFIED, "Date": "Sun, 31 Dec 2023 23:59:59 GMT"},
    {"Last-Modified": MODIFIED, "Date": "tomorrow"},
    {"Last-Modified": "2023", "Date": MODIFIED},
    {**DATED, "ETag": 'W/"a"'},
])
def test_a_body_without_a_strong_validator_is_not_continued(server, tmp_path, fields):
    """The body may have changed without another validator: neither a retry nor a later run asks for the rest."""
    server.on("/a", Answer(200, fields, b"0123456789", cut=5), Answer(200, fields, b"abcdefghij", cut=5), Answer(body=b"ABCDEFGHIJ"))
    assert run(server.url("/a"), "--out", tmp_path, "--attempts", "2").returncode == 56
    assert run(server.url("/a"), "--out", tmp_path, "--resume").returncode == 0
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == b"ABCDEFGHIJ"
    assert [s.fields.get("if-range") for s in server.seen()] == [None, None, None]


def test_a_last_modified_a_second_before_the_date_continues_a_body(server, tmp_path):
    server.on("/a", Answer(200, DATED, b"0123456789", cut=5), Answer(206, {"Content-Range": "bytes 5-9/10"}, b"56789"))
    assert run(server.url("/a"), "--out", tmp_path, "--attempts", "1").returncode == 56
    assert run(server.url("/a"), "--out", tmp_path, "--resume").returncode == 0
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == b"0123456789"
    assert [s.fields.get("if-range") for s in server.seen()] == [None, MODIFIED]


def test_a_validator_cannot_add_a_field(server, tmp_path):
    server.on("/a", Answer(200, {"ETag": '"v1\rX-Evil: 1"', "Last-Modified": "\x01"}, b"x" * 1000, cut=100), Answer(body=b"y" * 1000))
    assert run(server.url("/a"), "--out", tmp_path).returncode == 0
    second = server.seen()[1]
    assert "if-range" not in second.fields and "x-evil" not in second.fields
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == b"y" * 1000


def test_a_broken_body_without_a_validator_begins_again(server, tmp_path):
    server.on("/a", Answer(body=b"x" * 5000, cut=1000), Answer(body=b"y" * 5000))
    assert run(server.url("/a"), "--out", tmp_path).returncode == 0
    assert (tmp_path / name_of(server.url("/a"))).read_bytes() == b"y" * 5000
    # Standard output cannot take the first bytes back.
    server.on("/a", Answer(body=b"x" * 5000, cut=1000), Answer(body=b"y" * 5000))
    done = run(server.url("/a"))
    assert done.returncode == 56 and b"the connection broke, and the server cannot continue the body; use --out DIR" in done.stderr


def test_the_own_rate_spreads_requests(server, tmp_path):
    urls = [server.url(f"/{i}") for i in range(5)]
    for i in range(5):
        server.on(f"/{i}", Answer(body=b"x"))
    assert run(*urls, "--out", tmp_path / "out", "--rate", "10/s").returncode == 0
    times = sorted(s.at for s in server.seen())
    # The client's clock stamps requests before the server does. So the span of all is the least.
    assert times[-1] - times[0] >= 0.35


# ---- redirects ----


def test_redirects_are_followed(server):
    server.on("/a", Answer(302, {"Location": "/b?x=1"}))
    server.on("/b?x=1", Answer(301, {"Location": server.url("/c#part")}))
    server.on("/c", Answer(body=b"end"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (0, b"end")
    assert [s.path for s in server.seen()] == ["/a", "/b?x=1", "/c"]


@pytest.mark.parametrize("deadline, code", [("1m", 0), ("1s", 28)])
def test_a_redirect_is_followed_after_its_wait(server, deadline, code):
    with Scripted() as other:
        server.on("/a", Answer(302, {"Location": other.url("/b"), "Retry-After": "2"}))
        other.on("/b", Answer(body=b"x"))
        done = run(server.url("/a"), "--deadline", deadline)
        assert done.returncode == code, done.stderr
        assert b"1 wait" in done.stderr or b"would pass the deadline" in done.stderr
        assert all(seen.at - server.seen()[0].at >= 2 for seen in other.seen())
        assert len(other.seen()) == (1 if code == 0 else 0)


def test_redirects_are_bounded(server):
    server.on("/a", Answer(302, {"Location": "/a"}))
    assert run("--max-redirects", "4", server.url("/a")).returncode == 47
    assert len(server.seen()) == 5


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://127.0.0.1/", "http://u:p@127.0.0.1/", "http://"])
def test_a_redirect_leads_to_http_only(server, location):
    server.on("/a", Answer(302, {"Location": location}, b"moved"))
    done = run(server.url("/a"))
    assert (done.returncode, done.stdout) == (47, b"")


def test_credentials_stay_with_their_host(server):
    with Scripted("127.0.0.2") as other:
        server.on("/a", Answer(307, {"Location": "/b"}))
        server.on("/b", Answer(307, {"Location": other.url("/c")}))
        other.on("/c", Answer(body=b"end"))
        fields = ["-H", "Authorization: Bearer t", "-H", "Cookie: c=1", "-H", "X-Kept: 1"]
        assert run(*fields, server.url("/a")).returncode == 0
        assert [s.fields["authorization"] for s in server.seen()] == ["Bearer t"] * 2
        (there,) = other.seen()
        assert "authorization" not in there.fields and "cookie" not in there.fields
        assert there.fields["x-kept"] == "1"


def test_a_303_becomes_a_get(server):
    server.on("/a", Answer(303, {"Location": "/b"}))
    server.on("/b", Answer(body=b"end"))
    assert run("--data", "x", server.url("/a")).returncode == 0
    assert [(s.method, s.body) for s in server.seen()] == [("POST", b"x"), ("GET", b"")]


# ---- the cache ----


def test_a_fresh_response_needs_no_request(server, tmp_path):
    server.on("/a", Answer(200, {"Cache-Control": "max-age=3600"}, b"one"), Answer(body=b"two"))
    for _ in range(2):
        done = run("--cache", tmp_path / "cache", server.url("/a"))
        assert (done.returncode, done.stdout) == (0, b"one")
    assert b"0 requests" in done.stderr and b"1 cache hit" in done.stderr
    assert len(server.seen()) == 1
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_a_stale_response_is_confirmed(server, tmp_path):
    def confirm(seen):
        assert seen.fields["if-none-match"] == '"v1"'
        return Answer(304, {"ETag": '"v1"', "Cache-Control": "max-age=3600"})

    server.on("/a", Answer(200, {"ETag": '"v1"'}, b"one"), confirm)
    for _ in range(3):
        done = run("--cache", tmp_path, server.url("/a"))
        assert (done.returncode, done.stdout) == (0, b"one")
    assert len(server.seen()) == 2  # the 304 made the response fresh


@pytest.mark.parametrize("stored, sent", [
    ({"ETag": '"v1"'}, {"ETag": '"v2"'}),
    ({"ETag": 'W/"v1"'}, {"ETag": 'W/"v2"'}),
    ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {"ETag": '"v2"'}),
])
def test_a_304_about_another_version_is_not_used(server, tmp_path, stored, sent):
    """A single faulty 304 must not give the stored body the ETag of the new one: all later answers would confirm it."""
    server.on("/a", Answer(200, stored, b"old"), Answer(304, sent), Answer(200, {"ETag": '"v2"'}, b"new"),
              Answer(304, {"ETag": '"v2"'}))
    assert [run("--cache", tmp_path, server.url("/a")).stdout for _ in range(4)] == [b"old", b"new", b"new", b"new"]
    conditions = [seen.fields.get("if-none-match", seen.fields.get("if-modified-since")) for seen in server.seen()]
    assert conditions == [None, *stored.values(), None, '"v2"', '"v2"']


def test_a_server_that_only_sends_304_is_asked_twice(server, tmp_path):
    server.on("/a", Answer(200, {"ETag": '"v1"'}, b"old"), Answer(304, {"ETag": '"v2"'}))
    run("--cache", tmp_path, server.url("/a"))
    done = run("--cache", tmp_path, server.url("/a"))
    assert done.returncode == 56 and b"the status 304 to a request without a condition" in done.stderr
    assert len(server.seen()) == 3


def test_a_304_about_another_version_is_no_response(server, tmp_path):
    """The request had no condition of the caller. The next attempt would start after the deadline."""
    server.on("/a", Answer(200, {"ETag": '"v1"'}, b"old"), Answer(304, {"ETag": '"v2"', "Retry-After": "3600"}))
    run("--cache", tmp_path, server.url("/a"))
    done = run("--cache", tmp_path, "--deadline", "5s", server.url("/a"))
    assert done.returncode == 28 and b"would pass the deadline" in done.stderr
    assert len(server.seen()) == 2


@pytest.mark.parametrize("stored, sent", [
    ({"ETag": 'W/"v1"'}, {"ETag": '"v1"'}),  # the body was compressed, the 304 has none
    ({"ETag": '"v1"'}, {}),
    ({"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}, {"ETag": '"v1"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}),
])
def test_a_304_about_the_same_version_confirms_it(server, tmp_path, stored, sent):
    server.on("/a", Answer(200, stored, b"old"), Answer(304, sent))
    for _ in range(2):
        assert run("--cache", tmp_path, server.url("/a")).stdout == b"old"
    assert len(server.seen()) == 2


def test_a_304_that_cannot_be_stored_keeps_the_stored_response(server, tmp_path):
    """The process that gets the 304 cannot write a file. Other processes never find the response missing."""
    server.on("/a", Answer(200, {"ETag": '"v1"'}, b"one"), Answer(304, {"ETag": '"v1"'}))
    assert run("--cache", tmp_path, server.url("/a")).stdout == b"one"
    done = run("--cache", tmp_path, server.url("/a"), restore_signals=False,  # SIGXFSZ stays ignored
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
    assert (done.returncode, done.stdout) == (0, b"one"), done.stderr
    assert run("--cache", tmp_path, server.url("/a")).stdout == b"one"
    assert [seen.fields.get("if-none-match") for seen in server.seen()] == [None, '"v1"', '"v1"']


def test_users_do_not_share_responses(server, tmp_path):
    server.on("/a", lambda seen: Answer(200, {"Cache-Control": "max-age=3600"}, seen.fields["authorization"].encode()))
    for user in ("one", "two", "one"):
        assert run("--cache", tmp_path, "-H", f"Authorization: {user}", server.url("/a")).stdout == user.encode()
    assert len(server.seen()) == 2


@pytest.mark.parametrize("reload", ["Cache-Control: no-cache", "cache-control: max-age=0", "Pragma: no-cache"])
@pytest.mark.parametrize("fields", [{}, {"ETag": '"v"'}])
def test_a_reload_replaces_what_a_plain_request_gets(server, tmp_path, reload, fields):
    fresh = {"Cache-Control": "max-age=3600"}
    server.on("/a", *[Answer(200, {**fresh, **fields}, b"n%d" % i) for i in (1, 2, 3)])
    words = [[], ["-H", reload], [], ["-H", reload], []]
    got = [run("--cache", tmp_path, *more, server.url("/a")).stdout for more in words]
    assert got == [b"n1", b"n2", b"n2", b"n3", b"n3"]
    assert ["if-none-match" in seen.fields for seen in server.seen()] == [False, bool(fields), bool(fields)]
    assert len(list(tmp_path.glob("??/*"))) == 1


def test_a_reload_that_cannot_be_stored_removes_what_is_stored(server, tmp_path):
    server.on("/a", Answer(200, {"Cache-Control": "max-age=3600"}, b"n1"), Answer(200, {"Cache-Control": "no-store"}, b"n2"))
    words = [[], ["-H", "Cache-Control: no-cache"], []]
    assert [run("--cache", tmp_path, *more, server.url("/a")).stdout for more in words] == [b"n1", b"n2", b"n2"]


@pytest.mark.parametrize("field, used", [
    ("Cache-Control: max-age=3600", True),
    ("Cache-Control: min-fresh=3000", True),
    ("Cache-Control: min-fresh=3700", False),
    ("Cache-Control: max-stale", True),
    ("Cache-Control: only-if-cached", True),
    ("Cache-Control: no-store", False),
])
def test_cache_control_of_the_request(server, tmp_path, field, used):
    server.on("/a", Answer(200, {"Cache-Control": "max-age=3600"}, b"n1"), Answer(200, {"Cache-Control": "max-age=3600"}, b"n2"))
    assert run("--cache", tmp_path, server.url("/a")).stdout == b"n1"
    assert run("--cache", tmp_path, "-H", field, server.url("/a")).stdout == (b"n1" if used else b"n2")
    # no-store stores nothing; the stored response stays.
    assert run("--cache", tmp_path, server.url("/a")).stdout == (b"n2" if "min-fresh=3700" in field else b"n1")


@pytest.mark.parametrize("answer", [
    Answer(429, {"Cache-Control": "max-age=3600", "Retry-After": "3600"}),
    Answer(500, {"Cache-Control": "max-age=3600"}),
    Answer(200, {"Cache-Control": "no-store, max-age=3600"}, b"x"),
    Answer(200, {"Cache-Control": "max-age=3600", "Vary": "*"}, b"x"),
    Answer(200, {}, b"x"),
])
def test_what_is_never_stored(server, tmp_path, answer):
    server.on("/a", answer)
    for _ in range(2):
        run("--cache", tmp_path, "--deadline", "30s", server.url("/a"))
    assert len(server.seen()) == 2
    assert not list(tmp_path.glob("??/*"))


def test_a_damaged_file_is_ignored_and_replaced(server, tmp_path):
    server.on("/a", Answer(200, {"Cache-Control": "max-age=3600"}, b"one"))
    run("--cache", tmp_path, server.url("/a"))
    (file,) = tmp_path.glob("??/*")
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:40], b"", whole[:-1] + b"X", whole + b"X", whole.replace(b"/a", b"/b")):
        file.write_bytes(damaged)
        assert run("--cache", tmp_path, server.url("/a")).stdout == b"one"
        assert file.read_bytes()[:8] == whole[:8]
    assert len(server.seen()) == 7


def test_a_cache_that_others_can_write_is_refused(server, tmp_path):
    tmp_path.chmod(0o777)
    done = run("--cache", tmp_path, server.url("/a"))
    assert done.returncode == 2 and b"other users can write" in done.stderr


def test_a_compressed_response_is_bounded_and_decoded(server, tmp_path):
    server.on("/a", Answer(200, {"Content-Encoding": "gzip"}, gzip.compress(b"text")))
    done = run(server.url("/a"), "-H", "Accept-Encoding: gzip")
    assert gzip.decompress(done.stdout) == b"text"


# ---- several URLs ----


def test_a_list_from_standard_input(server, tmp_path):
    for i in range(20):
        server.on(f"/{i}", Answer(body=b"%d" % i))
    lines = "# a comment\n\n" + "".join(f"  {server.url(f'/{i}')}\r\n" for i in range(20)) + "nonsense\n"
    done = run("--from", "-", "--out", tmp_path, "--json", input=lines.encode())
    assert done.returncode == 3
    urls, totals = results(done)
    assert (totals["complete"], totals["failed"], totals["requests"], totals["bytes"]) == (20, 1, 20, 30)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {
        name_of(server.url(f"/{i}")): b"%d" % i for i in range(20)}
    assert urls[server.url("/7")]["file"] == name_of(server.url("/7"))


@pytest.mark.parametrize("path, text", [
    ("/", b"cannot read /: Is a directory"),
    ("/proc/self/mem", b"cannot read /proc/self/mem: Input/output error"),
    ("/nowhere/urls", b"cannot open /nowhere/urls: No such file or directory"),
])
def test_a_list_that_cannot_be_read_is_exit_26(tmp_path, path, text):
    done = run("--from", path, "--out", tmp_path)
    assert done.returncode == 26 and text in done.stderr


def test_a_closed_standard_input_is_exit_26(tmp_path):
    words = command("--from", "-", "--out", tmp_path)
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *words], capture_output=True, check=False, timeout=60)
    assert done.returncode == 26 and b"cannot read -: Bad file descriptor" in done.stderr


def test_a_line_with_control_characters_is_refused(server, tmp_path):
    """The line is named, and no part of it is loaded. Comments may have any character."""
    server.on("/a", Answer(body=b"x"))
    url = server.url("/a").encode()
    lines = [b"#\0comment", url + b"\0junk", url + b"\tb", b"\x01" + url, b"h\0", url, url + b"x" * (64 << 10)]
    (tmp_path / "urls").write_bytes(b"\n".join(lines))
    done = run("--from", tmp_path / "urls", "--out", tmp_path / "out", "--json")
    assert done.returncode == 3
    for line in 2, 3, 4, 5:
        assert f"{tmp_path}/urls:{line}: the line has a control character".encode() in done.stderr
    assert f"{tmp_path}/urls:7: the line is longer than 64 KiB".encode() in done.stderr
    entries = json.loads(done.stdout)["urls"]
    assert sorted(entry["url"] for entry in entries)[:4] == ["?" + server.url("/a"), "h?", server.url("/a"), server.url("/a?b")]
    assert [seen.path for seen in server.seen()] == ["/a"]


@pytest.mark.parametrize("words", [[], ["--overwrite"], ["--resume"]])
def test_a_url_that_is_in_the_list_twice_is_loaded_once(server, tmp_path, words):
    server.on("/a", Answer(body=b"x"))
    server.on("/b", Answer(body=b"y"))
    long = "/" + "l" * 300  # its name ends with a digest
    server.on(long, Answer(body=b"z"))
    urls = [server.url(path) for path in ("/a", "/b", "/a", "/a#part", long, long + "#part")]
    done = run(*urls, "--out", tmp_path, "--json", *words)
    assert done.returncode == 0, done.stderr
    totals = results(done)[1]
    assert (totals["complete"], totals["skipped"], totals["failed"], totals["requests"]) == (3, 3, 0, 3)


def test_many_urls_stay_different(server, tmp_path):
    """The table of names grows: none of 3000 URLs counts as one of the others, and each second one is skipped."""
    server.note = lambda seen: Answer(body=b"x")
    lines = "".join(f"{server.url(f'/{i}')}\n" * 2 for i in range(3000))
    done = run("--from", "-", "--out", tmp_path, "--json", "--concurrency", "16", input=lines.encode())
    totals = results(done)[1]
    assert (done.returncode, totals["complete"], totals["skipped"]) == (0, 3000, 3000)


def test_the_first_failure_of_the_list_counts(server, tmp_path):
    server.on("/late", Answer(body=b"x"))
    bad = f"http://127.0.0.1:{free_port()}/"
    assert run(server.url("/late"), server.url("/404"), "ftp://x/", bad, "--attempts", "1", "--out",
               tmp_path).returncode == 22
    assert run(bad, server.url("/404"), "--attempts", "1", "--out", tmp_path).returncode == 7


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/..%2f..%2fx", "/a/../../b", "/.hidden", "/" + "long" * 100, "/a?b=/../c",
                                  "/%00", "/a;b|c&d", "/~tilde", "/_under"])
def test_names_stay_in_the_folder(server, tmp_path, path):
    out = tmp_path / "out"
    asked = []
    server.note = lambda seen: asked.append(seen) or Answer(body=b"x")
    assert run(server.url(path), "--out", out).returncode == 0
    (file,) = out.iterdir()
    assert file.is_file() and not file.name.startswith(".") and len(file.name) <= 200
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_concurrency_is_bounded(server, tmp_path):
    event = __import__("threading").Event()
    for i in range(12):
        server.on(f"/{i}", Answer(body=b"x", hold=event))
    server.on("/first", Answer(body=b"x"))  # the first request to a host is sent alone
    urls = [server.url("/first")] + [server.url(f"/{i}") for i in range(12)]
    with subprocess.Popen(command(*urls, "--out", tmp_path, "--concurrency", "3", "-q")) as process:
        try:
            wait_for(lambda: len(server.seen()) == 4, "three requests after the first one")
            # Another request would come at once.
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            assert len(server.seen()) == 4
            event.set()
            assert process.wait(60) == 0
        finally:
            event.set()
            process.kill()
    assert len(server.seen()) == 13


# ---- resuming ----

BODY = bytes(i % 251 for i in range(1 << 20))


def ranged(seen):
    """The answer of a server with ranges and one version of the body."""
    start = int(seen.fields.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    fields = {"ETag": '"v1"', "Accept-Ranges": "bytes"}
    if "range" not in seen.fields or seen.fields.get("if-range") != '"v1"':
        return Answer(200, fields, BODY)
    if start >= len(BODY):
        return Answer(416, {**fields, "Content-Range": f"bytes */{len(BODY)}"})
    return Answer(206, {**fields, "Content-Range": f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"}, BODY[start:])


def test_resume_after_kill_9(server, tmp_path):
    event = __import__("threading").Event()
    server.on("/big", Answer(200, {"ETag": '"v1"'}, BODY, pause=event), ranged)
    url, partial = server.url("/big"), tmp_path / ".weir-get" / name_of(server.url("/big"))
    with subprocess.Popen(command(url, "--out", tmp_path, "-q")) as process:
        try:
            wait_for(lambda: partial.exists() and partial.stat().st_size == len(BODY) // 2, "half of the body")
        finally:
            process.kill()
            event.set()
    assert not (tmp_path / name_of(url)).exists()
    done = run(url, "--out", tmp_path, "--resume", "--json")
    assert done.returncode == 0
    entry = results(done)[0][url]
    assert (entry["resumed_at"], entry["bytes"], entry["status"]) == (len(BODY) // 2, len(BODY), 206)
    assert (tmp_path / name_of(url)).read_bytes() == BODY
    assert [p.name for p in tmp_path.iterdir()] == [name_of(url)]
    assert server.seen()[-1].fields["range"] == f"bytes={len(BODY) // 2}-"
    # The file is complete now.
    done = run(url, "--out", tmp_path, "--resume", "--json")
    assert results(done)[0][url]["result"] == "skipped" and len(server.seen()) == 2


@pytest.mark.parametrize("size, validator, requests", [
    (100, '"v1"\n', 1),  # continued
    (100, '"v0"\n', 1),  # another version: the server sends all of it
    (100, None, 1),  # without a validator the body begins again
    (100, '"v1"', 1),  # a validator that was not written completely
    (len(BODY), '"v1"\n', 1),  # all bytes are there, but the file had no name yet
    (len(BODY) + 5, '"v1"\n', 2),  # more bytes than there are
    (0, '"v1"\n', 1),
])
def test_partial_files(server, tmp_path, size, validator, requests):
    server.on("/big", ranged)
    url = server.url("/big")
    (tmp_path / ".weir-get").mkdir()
    (tmp_path / ".weir-get" / name_of(url)).write_bytes((BODY + b"12345")[:size])
    if validator is not None:
        (tmp_path / ".weir-get" / ("~" + name_of(url))).write_text(validator)
    done = run(url, "--out", tmp_path, "--resume")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name_of(url)).read_bytes() == BODY
    assert len(server.seen()) == requests
    assert [p.name for p in tmp_path.iterdir()] == [name_of(url)]


@pytest.mark.parametrize("words", [[], ["--resume"]])
def test_an_empty_body_replaces_a_partial_file(server, tmp_path, words):
    server.on("/big", Answer(200, {"ETag": '"v2"'}, b""))
    url = server.url("/big")
    (tmp_path / ".weir-get").mkdir()
    (tmp_path / ".weir-get" / name_of(url)).write_bytes(b"bytes of an earlier version")
    (tmp_path / ".weir-get" / ("~" + name_of(url))).write_text('"v1"\n')
    assert run(url, "--out", tmp_path, *words).returncode == 0
    assert (tmp_path / name_of(url)).read_bytes() == b""
    assert [p.name for p in tmp_path.iterdir()] == [name_of(url)]


def test_existing_files_are_kept(server, tmp_path):
    server.on("/a", Answer(body=b"new"))
    file = tmp_path / name_of(server.url("/a"))
    file.write_bytes(b"old")
    done = run(server.url("/a"), "--out", tmp_path)
    assert (done.returncode, file.read_bytes(), len(server.seen())) == (23, b"old", 0)
    assert b"--overwrite" in done.stderr
    assert run(server.url("/a"), "--out", tmp_path, "--overwrite").returncode == 0
    assert file.read_bytes() == b"new"


def test_a_symbolic_link_is_not_followed(server, tmp_path):
    server.on("/a", Answer(body=b"new"))
    outside = tmp_path / "outside"
    outside.write_bytes(b"old")
    out = tmp_path / "out"
    (out / ".weir-get").mkdir(parents=True)
    (out / ".weir-get" / name_of(server.url("/a"))).symlink_to(outside)
    assert run(server.url("/a"), "--out", out).returncode == 23
    assert outside.read_bytes() == b"old"


def test_an_error_leaves_no_file(server, tmp_path):
    server.on("/a", Answer(404, body=b"none"))
    assert run(server.url("/a"), "--out", tmp_path).returncode == 22
    assert not list(tmp_path.iterdir())


# ---- ending ----


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_with_the_summary(server, tmp_path, number):
    event = __import__("threading").Event()
    server.on("/a", Answer(body=b"x"))
    server.on("/b", Answer(body=b"x", hold=event))
    urls = [server.url("/a"), server.url("/b")]
    with subprocess.Popen(command(*urls, "--out", tmp_path, "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_for(lambda: len(server.seen()) == 2 and (tmp_path / name_of(urls[0])).exists(), "both requests")
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            event.set()
            process.kill()
    assert process.returncode == 130
    assert b"weir get: interrupted; 2 URLs: 1 complete, 0 skipped, 1 failed" in err
    report = json.loads(out)
    assert report["totals"]["interrupted"] is True and len(report["urls"]) == 2


def test_kill_9_leaves_a_usable_cache(server, tmp_path):
    """Kills processes that write to one cache, and reads every response afterwards."""
    cache = tmp_path / "cache"
    for i in range(50):
        server.on(f"/{i}", Answer(200, {"Cache-Control": "max-age=3600"}, b"%d " % i * 20000))
    urls = [server.url(f"/{i}") for i in range(50)]
    for done in (3, 10, 25):
        processes = [subprocess.Popen(command(*urls, "--out", tmp_path / f"{done}-{n}", "--cache", cache, "-q"))
                     for n in range(2)]
        try:
            wait_for(lambda least=done: len(list(cache.glob("??/*"))) >= least, "stored responses")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    for i in (0, 24, 49):
        assert run("--cache", cache, urls[i]).stdout == b"%d " % i * 20000
    assert run(*urls, "--out", tmp_path / "all", "--cache", cache).returncode == 0
    for i, url in enumerate(urls):
        assert (tmp_path / "all" / name_of(url)).read_bytes() == b"%d " % i * 20000
    assert all(os.path.getsize(p) > 0 for p in cache.glob("??/*"))


# ---- with a gateway, a table and a terminal ----

TWENTY_A_SECOND = """
domain: api
requests:
  - descriptor: [{key: client, from: remote_address}]
descriptors:
  - key: client
    rate_limit: {unit: second, requests_per_unit: 20, algorithm: token_bucket, burst: 5}
"""


def test_every_url_passes_a_gateway_that_limits(api, tmp_path):
    """15 requests at a burst of 5: all pass, and each refusal was retried."""
    with Gateway(api.port, rules=TWENTY_A_SECOND) as gateway:
        urls = [f"http://127.0.0.1:{gateway.port}/{i}" for i in range(15)]
        done = run(*urls, "--out", tmp_path / "out", "--json", "--attempts", "50", "--concurrency", "1")
        assert done.returncode == 0, done.stderr
        totals = results(done)[1]
        assert (totals["complete"], totals["failed"]) == (15, 0)
        assert totals["requests"] == 15 + totals["refusals"] == 15 + totals["retries"]
        assert api.count() == 15


def test_a_wait_is_shared_through_a_table(server, tmp_path):
    """One process is told to wait. Another process, which has not asked yet, waits too."""
    server.on("/told", Answer(429, {"Retry-After": "2"}))
    server.on("/other", Answer(body=b"x"))
    table = ["--table", "shared", "--table-dir", tmp_path]
    assert run(*table, "--attempts", "1", server.url("/told")).returncode == 22
    assert run(*table, server.url("/other")).returncode == 0
    told, other = server.seen()
    assert other.at - told.at >= 1.9  # the table rounds to its resolution


def test_a_wait_of_many_days_is_shared_through_a_table(server, tmp_path):
    """A wait of more than 10,000,000 s, which a table cannot hold, holds back other processes nevertheless."""
    server.on("/told", Answer(429, {"Retry-After": "10000001"}))
    server.on("/other", Answer(body=b"x"))
    table = ["--table", "shared", "--table-dir", tmp_path]
    assert run(*table, server.url("/told")).returncode == 22
    done = run(*table, server.url("/other"))
    assert done.returncode == 28 and b"would pass the deadline" in done.stderr
    assert [seen.path for seen in server.seen()] == ["/told"]


def test_urls_beyond_the_deadline_take_no_time_from_other_processes(server, tmp_path):
    """A request per 5 s. The first process has time for one or two of its URLs, the second one for both of its own."""
    fields = {"RateLimit-Policy": '"p";q=2;w=10', "RateLimit": '"p";r=1;t=10'}
    urls = [server.url(f"/{i}") for i in range(22)]
    for i in range(22):
        server.on(f"/{i}", Answer(200, fields, b"x"))
    table = ["--table", "deadline", "--table-dir", tmp_path, "--deadline", "3s"]
    done = run(*table, *urls[:20], "--out", tmp_path / "out")
    assert done.returncode == 28 and b"would pass the deadline" in done.stderr
    assert len(server.seen()) <= 2
    done = run(*table[:4], "--deadline", "20s", *urls[20:], "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr


def test_a_terminal_shows_what_it_waits_for(server, tmp_path):
    server.on("/a", Answer(429, {"Retry-After": "3"}), Answer(body=b"x"))
    terminal = Terminal(columns=120)
    try:
        done = subprocess.run(command(server.url("/a"), "--out", tmp_path), stderr=terminal.slave, check=False, timeout=60,
                              env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
    finally:
        shown = terminal.close()
    assert done.returncode == 0
    assert f"127.0.0.1:{server.port}: waits 3 s, told by Retry-After".encode() in shown
    assert b"1 URL: 1 complete" in shown.split(b"\x1b[K")[-1]


@pytest.mark.parametrize("from_file", [False, True])
def test_the_progress_counts_urls_that_have_ended(server, tmp_path, from_file):
    """One of two URLs waits: half of the work is done."""
    server.on("/a", Answer(body=b"x"))
    server.on("/b", Answer(429, {"Retry-After": "2"}), Answer(body=b"x"))
    words = [server.url("/a"), server.url("/b")]
    if from_file:
        (tmp_path / "urls").write_text("".join(f"{url}\n" for url in words))
        words = ["--from", tmp_path / "urls"]
    terminal = Terminal(columns=120)
    try:
        done = subprocess.run(command(*words, "--out", tmp_path / "out"), stderr=terminal.slave, check=False, timeout=60,
                              env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
    finally:
        shown = terminal.close()
    assert done.returncode == 0
    waiting = [line for line in shown.split(b"\r") if b"waits" in line]
    assert waiting and all(b" 50 %" in line and b" 1 URLs" in line for line in waiting), shown
