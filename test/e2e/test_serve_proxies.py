"""examples/caddy and examples/haproxy end to end: Debian's proxies ask weir serve about each request. When weir is down
or frozen, requests pass."""

import base64
import json
import os
import signal

import pytest

from weirtest import ROOT, Client, Clock, fetch, free_port, programs, wait_for
from weirtest.serve import Serve


class Proxy:
    """A proxy with an example's configuration, on free ports, in front of `api`."""

    program, example, files, listen, first_lines = [], "", (), ("", ""), ""

    def __init__(self, api, weir_port):
        self.folder = programs.temp_folder(self.example)
        self.port = free_port()
        for name in self.files:
            text = (ROOT / "examples" / self.example / name).read_text(encoding="utf-8")
            for old, new in ((self.listen[0], self.listen[1] % self.port), ("127.0.0.1:8082", f"127.0.0.1:{weir_port}"),
                             ("127.0.0.1:3000", f"127.0.0.1:{api.port}")):
                text = text.replace(old, new)
            with open(f"{self.folder}/{name}", "w", encoding="utf-8") as f:
                f.write(self.first_lines + text)

    def __enter__(self):
        with open(f"{self.folder}/log", "wb") as log:
            self.process = programs.start([word.format(folder=self.folder) for word in self.program], cwd=self.folder,
                                        stdout=log, stderr=log, env={**os.environ, "HOME": self.folder})
        wait_for(self._listens, "the proxy to listen")
        return self

    def _listens(self):
        assert self.process.poll() is None, open(f"{self.folder}/log", encoding="utf-8").read()
        try:
            Client(self.port).__exit__()
            return True
        except OSError:
            return False

    def __exit__(self, *_):
        programs.stop(self.process)
        programs.remove_folder(self.folder)


class Caddy(Proxy):
    program, example, files = ["caddy", "run", "--config", "Caddyfile"], "caddy", ("Caddyfile",)
    listen, first_lines = (":8080 {", ":%d {\n\tbind 127.0.0.1"), "{\n\tadmin off\n\tauto_https off\n}\n"


class Haproxy(Proxy):
    program, example, files = ["haproxy", "-f", "haproxy.cfg"], "haproxy", ("haproxy.cfg", "weir.lua")
    listen = ("bind :8080", "bind 127.0.0.1:%d")


PROXIES = [Caddy, Haproxy]


@pytest.fixture(scope="module", autouse=True)
def clock():
    """The clock stands at half past a minute: no window ends during a test."""
    with Clock() as stands:
        yield stands


@pytest.fixture
def weir(request):
    """A service with the rules of the proxy's example."""
    kind = request.getfixturevalue("kind") if "kind" in request.fixturenames else Caddy
    rules = (ROOT / "examples" / kind.example / "rules.yaml").read_text(encoding="utf-8")
    with Serve(rules=rules, http=True) as serve:
        yield serve


@pytest.mark.parametrize("kind", PROXIES)
def test_five_a_minute_then_429_with_all_fields(api, weir, kind):
    with kind(api, weir.http_port) as proxy:
        answers = [fetch(proxy.port, "GET", f"/a?n={i}") for i in range(7)]
        assert [a.status for a in answers] == [200] * 5 + [429] * 2
        assert api.count("/a") == 5
        assert [a.get("x-ratelimit-remaining") for a in answers] == ["4", "3", "2", "1", "0", "0", "0"]
        assert all(a.get("x-ratelimit-limit") == "5" and "q=5;w=60" in a.get("ratelimit-policy") for a in answers)
        assert answers[5].get("retry-after") == "30" and b'"status":429' in answers[5].body
        assert answers[5].get("content-type") == "application/problem+json"


@pytest.mark.parametrize("kind", PROXIES)
def test_methods_bodies_and_forged_fields(api, weir, kind):
    forged = {"X-Forwarded-For": "192.0.2.99", "X-Forwarded-Uri": "/else", "X-Original-URI": "/else",
              "X-Forwarded-Method": "OPTIONS", "X-Original-Method": "OPTIONS", "X-Forwarded-Host": "else"}
    with kind(api, weir.http_port) as proxy:
        answers = [fetch(proxy.port, "POST", "/p", forged, b"x" * 5000) for _ in range(3)]
        assert [a.status for a in answers] == [200, 200, 429]
        assert api.count("/p") == 2
        assert fetch(proxy.port, "GET", "/own?status=403").status == 403


@pytest.mark.parametrize("kind", PROXIES)
def test_requests_pass_while_weir_is_frozen_or_down(api, weir, kind):
    """weir is frozen, then down: requests pass with their bodies, once each, and within the proxy's timeout."""
    with kind(api, weir.http_port) as proxy:
        os.kill(weir.pid, signal.SIGSTOP)
        try:
            frozen = [fetch(proxy.port, "POST", "/frozen?echo=1", (), b"body") for _ in range(2)]
        finally:
            os.kill(weir.pid, signal.SIGCONT)
        assert [(a.status, json.loads(a.body)["body_bytes"]) for a in frozen] == [(200, 4)] * 2
        weir.kill()
        answers = [fetch(proxy.port, "POST", "/down?echo=1", (), b"body") for _ in range(8)]
        assert [(a.status, json.loads(a.body)["body_bytes"]) for a in answers] == [(200, 4)] * 8
        assert (api.count("/frozen"), api.count("/down")) == (2, 8)


@pytest.mark.parametrize("kind", PROXIES)
def test_failed_request_to_the_api_is_not_sent_twice(api, weir, kind):
    with kind(api, weir.http_port) as proxy:
        assert fetch(proxy.port, "POST", "/drop?drop=1", (), b"x").status in (500, 502, 504)
        assert api.count("/drop") == 1


def test_identity_set_by_caddy_cannot_be_forged(api, weir):
    """Three a minute for bob, whatever the header contains. Anonymous clients have no identity."""
    bob = {"Authorization": "Basic " + base64.b64encode(b"bob:hiccup").decode()}
    with Caddy(api, weir.http_port) as proxy, Client(proxy.port) as client:
        statuses = [client.request("GET", "/private/x", {**bob, "X-Weir-Identity": f"other{i}"}).status for i in range(4)]
        assert statuses == [200, 200, 200, 429]
        anonymous = client.get("/private/x")
        assert anonymous.status == 401 and anonymous.get("WWW-Authenticate")
        assert api.count("/private/x") == 3
        weir.kill()  # without weir, authentication still applies
        assert client.get("/private/x").status == 401 and api.count("/private/x") == 3
