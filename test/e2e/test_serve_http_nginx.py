"""examples/nginx-auth-request end to end: Debian's nginx asks weir serve and sends the 429 itself.

The rules of the other examples load, and the requests of their configurations are answered."""

import re

import pytest
import yaml

from weirtest import JSON, NGINX, ROOT, Client, Clock, fetch, free_port, programs, wait_for
from weirtest.clock import START
from weirtest.serve import Serve

EXAMPLE = ROOT / "examples/nginx-auth-request"


class Asking:
    """nginx with the example's configuration, on free ports, in front of `api`."""

    def __init__(self, api, weir_port):
        self.folder = programs.temp_folder("auth-request")
        self.port = free_port()
        text = (EXAMPLE / "nginx.conf").read_text(encoding="utf-8")
        for old, new in (("listen 8080", f"listen 127.0.0.1:{self.port}"),
                         ("127.0.0.1:8082", f"127.0.0.1:{weir_port}"),
                         ("127.0.0.1:3000", f"127.0.0.1:{api.port}")):
            assert old in text
            text = text.replace(old, new)
        temp = "".join(f"\t{kind}_temp_path {self.folder}/{kind};\n"
                       for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = text.replace("http {\n", f"http {{\n\taccess_log off;\n{temp}", 1)
        self.conf = f"{self.folder}/nginx.conf"
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(f"daemon off;\npid {self.folder}/pid;\nerror_log {self.folder}/error.log;\n{text}")

    def __enter__(self):
        self.process = programs.start([NGINX, "-p", self.folder, "-c", self.conf])
        wait_for(self._listens, "nginx to listen")
        return self

    def _listens(self):
        assert self.process.poll() is None, open(f"{self.folder}/error.log", encoding="utf-8").read()
        try:
            Client(self.port).__exit__()
            return True
        except OSError:
            return False

    def __exit__(self, *_):
        programs.stop(self.process)
        programs.remove_folder(self.folder)


@pytest.fixture(scope="module", autouse=True)
def clock():
    """The clock stands at half past a minute: no window ends during a test."""
    with Clock() as stands:
        yield stands


@pytest.fixture
def weir():
    with Serve(rules=(EXAMPLE / "rules.yaml").read_text(encoding="utf-8"), http=True) as serve:
        yield serve


def test_five_a_minute_then_429_with_all_fields(api, weir, clock):
    with Asking(api, weir.http_port) as nginx:
        answers = [fetch(nginx.port, "GET", f"/a?n={i}") for i in range(7)]
        assert [a.status for a in answers] == [200] * 5 + [429] * 2
        assert api.count("/a") == 5
        assert [a.get("x-ratelimit-remaining") for a in answers] == ["4", "3", "2", "1", "0", "0", "0"]
        refused = answers[5]
        assert refused.get("retry-after") == "30"
        assert refused.get("x-ratelimit-retry-after") == refused.get("retry-after")
        assert refused.get("x-ratelimit-limit") == "5" and refused.get("cache-control") == "no-store"
        assert refused.get("content-type") == "application/problem+json"
        assert re.search(r'q=5;w=60', refused.get("ratelimit-policy"))
        assert b'"status":429' in refused.body
        clock.advance(29.999)
        assert fetch(nginx.port, "GET", "/a").status == 429
        clock.advance(0.001)
        assert fetch(nginx.port, "GET", "/a").status == 200
        clock.set(START)


def test_methods_and_bodies(api, weir):
    with Asking(api, weir.http_port) as nginx:
        answers = [fetch(nginx.port, "POST", "/p", (), b"x" * 5000) for _ in range(3)]
        assert [a.status for a in answers] == [200, 200, 429]
        assert fetch(nginx.port, "GET", "/g").status == 200
        assert api.count("/p") == 2


def test_forged_fields_of_clients_have_no_effect(api, weir):
    forged = {"X-Forwarded-For": "192.0.2.99", "X-Forwarded-Uri": "/else", "X-Original-URI": "/else",
              "X-Forwarded-Method": "OPTIONS", "X-Original-Method": "OPTIONS", "X-Forwarded-Host": "else"}
    with Asking(api, weir.http_port) as nginx:
        statuses = [fetch(nginx.port, "POST", "/f", forged, b"").status for _ in range(3)]
        assert statuses == [200, 200, 429]


def test_response_403_of_the_api_is_passed_on(api, weir):
    with Asking(api, weir.http_port) as nginx:
        answer = fetch(nginx.port, "GET", "/own?status=403")
        assert answer.status == 403 and answer.get("retry-after") is None


def test_requests_pass_while_weir_is_down(api, weir):
    with Asking(api, weir.http_port) as nginx:
        assert fetch(nginx.port, "GET", "/up").get("x-ratelimit-limit") == "5"
        weir.kill()
        answers = [fetch(nginx.port, "GET", "/down") for _ in range(8)]
        assert [a.status for a in answers] == [200] * 8
        assert api.count("/down") == 8


# ---- the other examples ----

def test_requests_of_traefik_and_caddy_are_answered(weir):
    """The URLs in the configurations of Traefik and Caddy get the expected responses."""
    traefik = yaml.safe_load((ROOT / "examples/traefik/dynamic.yaml").read_text(encoding="utf-8"))
    address = traefik["http"]["middlewares"]["weir"]["forwardAuth"]["address"]
    caddy = re.search(r"rewrite (\S+)", (ROOT / "examples/caddy/Caddyfile").read_text(encoding="utf-8")).group(1)
    assert caddy.startswith(address.removeprefix("http://127.0.0.1:8082"))
    fields = {"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/x", "X-Forwarded-Host": "h",
              "X-Forwarded-For": "192.0.2.5", "X-Forwarded-Proto": "http", "X-Original-URI": "/forged"}
    answers = [fetch(weir.http_port, "GET", caddy, fields) for _ in range(3)]
    assert [a.status for a in answers] == [200, 200, 429]
    shown = traefik["http"]["middlewares"]["weir"]["forwardAuth"]["authResponseHeaders"]
    assert all(answers[0].get(name) for name in shown)


def test_actions_of_the_envoy_example_match_its_rules():
    conf = yaml.safe_load((ROOT / "examples/envoy/envoy.yaml").read_text(encoding="utf-8"))
    filters = conf["static_resources"]["listeners"][0]["filter_chains"][0]["filters"]
    manager = filters[0]["typed_config"]
    limiter = manager["http_filters"][0]["typed_config"]
    rules = yaml.safe_load((ROOT / "examples/envoy/rules.yaml").read_text(encoding="utf-8"))
    assert limiter["domain"] == rules["domain"]
    with Serve(rules_path=ROOT / "examples/envoy/rules.yaml", http=True) as serve:
        body = (b'{"domain":"api","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.7"}]},'
                b'{"entries":[{"key":"method","value":"POST"},{"key":"remote_address","value":"192.0.2.7"}]}]}')
        statuses = [fetch(serve.http_port, "POST", "/json", JSON, body).status for _ in range(3)]
        assert statuses == [200, 200, 429]


@pytest.mark.parametrize("name", ["envoy", "traefik", "caddy", "haproxy", "nginx-auth-request"])
def test_rules_of_examples_load_and_all_are_documented(name):
    assert (ROOT / "examples" / name / "README.md").exists()
    with Serve(rules_path=ROOT / "examples" / name / "rules.yaml", http=True) as serve:
        text = "".join(line for line in serve.log().splitlines(True) if "the service runs as root" not in line)
    assert "error" not in text and "warning" not in text, text
