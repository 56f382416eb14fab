"""Responses: header fields of each profile by value, admitted and refused, and bodies.

The wall clock stands still, so each wait is an exact number."""

import json

import pytest
from weirtest import Clock, Nginx

# One token a day, seven at once: the eighth request is refused, and the next token comes in a day.
SEVEN = "{unit: week, requests_per_unit: 7, algorithm: token_bucket}"
DAY, WEEK = 86400, 604800

RULES = f"""
domain: api
requests:
  - when: {{path: /one/*}}
    descriptor: [{{key: user, from: header.x-user}}]
  - when: {{path: /many/*}}
    descriptor: [{{key: user, from: header.x-user}}]
  - when: {{path: /many/*}}
    descriptor: [{{key: route, value: many}}, {{key: user, from: header.x-user}}]
  - when: {{path: /own/*}}
    descriptor: [{{key: own, from: header.x-user}}]
  - when: {{path: /status/*}}
    descriptor: [{{key: status, from: header.x-user}}]
  - when: {{path: /deny/*}}
    descriptor: [{{key: user, from: header.x-user, missing: deny}}]
  - when: {{path: /never/*}}
    descriptor: [{{key: never, value: ever}}]
  - when: {{path: /shadow/*}}
    descriptor: [{{key: shadow, from: header.x-user}}]
  - when: {{path: /allowed/*}}
    allow: true
  - when: {{path: /allowed/*}}
    descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {SEVEN}
  - key: route
    value: many
    descriptors:
      - key: user
        rate_limits:
          - {{name: two, unit: week, requests_per_unit: 2, algorithm: token_bucket}}
          - {{name: weekly, period: 1w, requests_per_unit: 9, algorithm: sliding_window_log}}
  - key: own
    rate_limit:
      unit: week
      requests_per_unit: 1
      algorithm: token_bucket
      response: {{status: 503, content_type: application/vnd.slow+json, body: '{{"slow":"down"}}'}}
  - key: status
    rate_limit: {{unit: week, requests_per_unit: 1, algorithm: token_bucket, response: {{status: 420}}}}
  - key: never
    value: ever
    rate_limit: {{unit: week, requests_per_unit: 0}}
  - key: shadow
    shadow_mode: true
    rate_limit: {{unit: week, requests_per_unit: 1, algorithm: token_bucket}}
"""

SERVER = """
	weir on;
	location /one/x/ { proxy_pass http://api; }
	location /one/ietf/ { weir_headers ietf; proxy_pass http://api; }
	location /one/github/ { weir_headers github; proxy_pass http://api; }
	location /one/none/ { weir_headers none; proxy_pass http://api; }
	location /one/page/ { error_page 429 /sorry.html; proxy_pass http://api; }
	location /one/named/ { error_page 429 = @sorry; proxy_pass http://api; }
	location /one/as200/ { error_page 429 =200 /sorry.html; proxy_pass http://api; }
	location /one/off/ { weir off; proxy_pass http://api; }
	location /one/static/ { alias {prefix}/html/; add_header X-Mine yes always; }
	location = /sorry.html { weir off; internal; }
	location @sorry { weir off; add_header X-From named; proxy_pass http://api; }
	location /own/page/ { error_page 503 /sorry.html; proxy_pass http://api; }
	location / { proxy_pass http://api; }
"""

IETF = {"ratelimit-policy", "ratelimit"}
X = {"x-ratelimit-limit", "x-ratelimit-remaining"} | IETF
GITHUB = {f"x-ratelimit-{n}" for n in ("limit", "remaining", "used", "reset", "resource")}
ALL = X | GITHUB | {"x-ratelimit-retry-after", "retry-after"}


@pytest.fixture(scope="module")
def clock():
    with Clock() as still:
        yield still


@pytest.fixture(scope="module")
def nginx(clock, _api):
    del clock  # in use before nginx starts
    with Nginx(rules=RULES, conf_server=SERVER, api=_api,
               files={"sorry.html": "<h1>Sorry</h1>\n"}) as server:
        yield server


def limit_fields(response):
    """Returns the names of the rate limit fields in a response."""
    return {n for n in response.names() if n in ALL}


def take(nginx, target, user, count):
    """Uses up `count` requests."""
    with nginx.client() as c:
        for _ in range(count):
            assert c.get(target, {"X-User": user}).status == 200


# ---- profiles ----

def test_x_fields_of_an_admitted_request(nginx):
    with nginx.client() as c:
        for left in (6, 5, 4):
            r = c.get("/one/x/", {"X-User": "x-admitted"})
            assert r.status == 200
            assert limit_fields(r) == X
            assert r.get("X-Ratelimit-Limit") == "7"
            assert r.get("X-Ratelimit-Remaining") == str(left)
            assert r.get("RateLimit-Policy") == f'"user/1w";q=7;w={WEEK}'
            assert r.get("RateLimit") == f'"user/1w";r={left};t={DAY}'
            assert r.get("Cache-Control") is None
            assert [n for n, _ in r.headers if n.lower() in ALL] == [
                "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "RateLimit-Policy", "RateLimit"]


def test_x_fields_of_a_refused_request(nginx):
    take(nginx, "/one/x/", "x-refused", 7)
    r = nginx.get("/one/x/", {"X-User": "x-refused"})
    assert (r.status, r.reason) == (429, "Too Many Requests")
    assert limit_fields(r) == X | {"x-ratelimit-retry-after", "retry-after"}
    assert r.get("X-Ratelimit-Limit") == "7"
    assert r.get("X-Ratelimit-Remaining") == "0"
    assert r.get("Retry-After") == r.get("X-Ratelimit-Retry-After") == str(DAY)
    assert r.get("RateLimit-Policy") == f'"user/1w";q=7;w={WEEK}'
    assert r.get("RateLimit") == f'"user/1w";r=0;t={DAY}'
    assert r.get("Cache-Control") == "no-store"


def test_ietf_fields(nginx):
    take(nginx, "/one/ietf/", "ietf", 6)
    r = nginx.get("/one/ietf/", {"X-User": "ietf"})
    assert (r.status, limit_fields(r)) == (200, IETF)
    assert r.get("RateLimit") == f'"user/1w";r=0;t={DAY}'
    r = nginx.get("/one/ietf/", {"X-User": "ietf"})
    assert (r.status, limit_fields(r)) == (429, IETF | {"retry-after"})
    assert r.get("Retry-After") == str(DAY)
    assert r.get("Cache-Control") == "no-store"


def test_github_fields(nginx, clock):
    r = nginx.get("/one/github/", {"X-User": "github"})
    assert (r.status, limit_fields(r)) == (200, GITHUB)
    names = [n for n, _ in r.headers if n.lower() in GITHUB]
    assert names == ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-used",
                     "x-ratelimit-reset", "x-ratelimit-resource"]
    assert [r.get(n) for n in names[:3]] == ["7", "6", "1"]
    assert r.get("x-ratelimit-resource") == "user/1w"
    # The epoch second when the token is refilled, rounded up: the clock stands a nanosecond past a full second.
    assert int(r.get("x-ratelimit-reset")) == clock.now() + DAY + 1
    take(nginx, "/one/github/", "github", 6)
    r = nginx.get("/one/github/", {"X-User": "github"})
    assert (r.status, limit_fields(r)) == (429, GITHUB | {"retry-after"})
    assert [r.get(n) for n in names[:3]] == ["7", "0", "7"]
    assert r.get("retry-after") == str(DAY)
    assert "retry-after" in [n for n, _ in r.headers]


def test_waits_are_rounded_up_and_shrink(nginx, clock):
    """Retry-After after half a second, after a second, a microsecond before the next token, and with the token."""
    take(nginx, "/one/x/", "shrink", 7)
    for step, reported in ((0.5, DAY), (0.5, DAY - 1), (DAY - 1 - 0.000001, 1)):
        clock.advance(step)
        r = nginx.get("/one/x/", {"X-User": "shrink"})
        assert (r.status, r.get("Retry-After"), r.get("RateLimit")) == (429, str(reported), f'"user/1w";r=0;t={reported}')
    clock.advance(0.000001)
    r = nginx.get("/one/x/", {"X-User": "shrink"})
    assert (r.status, r.get("RateLimit")) == (200, f'"user/1w";r=0;t={DAY}')


def test_profile_none_adds_no_fields(nginx):
    take(nginx, "/one/none/", "none", 6)
    r = nginx.get("/one/none/", {"X-User": "none"})
    assert (r.status, limit_fields(r)) == (200, set())
    r = nginx.get("/one/none/", {"X-User": "none"})
    assert (r.status, limit_fields(r)) == (429, set())
    assert r.get("Cache-Control") == "no-store"


# ---- several limits ----

def test_tightest_limit_is_reported_and_all_are_listed(nginx):
    """The X fields describe the limit with the fewest remaining units; the IETF fields list all limits."""
    r = nginx.get("/many/", {"X-User": "many"})
    assert r.status == 200
    assert r.get("X-Ratelimit-Limit") == "2"  # of 7, 2 and 9 the limit with the least left
    assert r.get("X-Ratelimit-Remaining") == "1"
    assert r.get("RateLimit-Policy") == (
        f'"user/1w";q=7;w={WEEK}, "two";q=2;w={WEEK}, "weekly";q=9;w={WEEK}')
    assert r.get("RateLimit") == (
        f'"user/1w";r=6;t={DAY}, "two";r=1;t={WEEK // 2}, "weekly";r=8;t={WEEK}')
    assert len(r.all("RateLimit")) == len(r.all("X-Ratelimit-Limit")) == 1


def test_refusal_by_one_limit_takes_nothing_from_the_others(nginx):
    """Of three limits one refuses. The response shows that the other two kept their units."""
    take(nginx, "/many/", "several", 2)
    for _ in range(2):
        r = nginx.get("/many/", {"X-User": "several"})
        assert r.status == 429
        assert r.get("X-Ratelimit-Limit") == "2"
        assert r.get("X-Ratelimit-Remaining") == "0"
        assert r.get("Retry-After") == str(WEEK // 2)
        items = [i.split(";")[:2] for i in r.get("RateLimit").split(", ")]
        # The other limits still have the units that the two admitted requests left.
        assert items == [['"user/1w"', "r=5"], ['"two"', "r=0"], ['"weekly"', "r=7"]]
        assert json.loads(r.body)["violated-policies"] == ["two"]


# ---- no fields ----

def test_weir_off_adds_no_fields(nginx):
    r = nginx.get("/one/off/", {"X-User": "off"})
    assert (r.status, limit_fields(r), r.get("Cache-Control")) == (200, set(), None)


def test_weir_off_keeps_upstream_fields(nginx):
    r = nginx.get("/one/off/?h=X-Ratelimit-Limit:99&h=RateLimit:mine&h=Retry-After:5",
                  {"X-User": "off"})
    assert r.get("X-Ratelimit-Limit") == "99"
    assert r.get("RateLimit") == "mine"
    assert r.get("Retry-After") == "5"


def test_request_without_a_limit_has_no_fields(nginx):
    """There are no fields without an entry of `requests:`, with a missing source, and for a rule that only counts."""
    for target, headers in (("/elsewhere", {"X-User": "1"}), ("/one/x/", {}),
                            ("/shadow/", {"X-User": "1"}), ("/shadow/", {"X-User": "1"})):
        r = nginx.get(target, headers)
        assert (r.status, limit_fields(r)) == (200, set()), target


def test_allowed_request_has_no_fields(nginx):
    """An exempt request has no fields and takes no unit."""
    for _ in range(9):
        r = nginx.get("/allowed/", {"X-User": "allowed"})
        assert (r.status, limit_fields(r)) == (200, set())
    assert nginx.get("/one/x/", {"X-User": "allowed"}).get("X-Ratelimit-Remaining") == "6"


def test_upstream_fields_of_the_same_name_are_dropped(nginx):
    """Rate limit fields of the API are replaced by those of weir, in any spelling of their names."""
    r = nginx.get("/one/x/?h=X-Ratelimit-Limit:99&h=x-ratelimit-remaining:98&h=RateLimit:%22up%22"
                  "&h=RATELIMIT-POLICY:%22up%22&h=X-Ratelimit-Limit:97", {"X-User": "upstream"})
    assert r.status == 200
    assert r.all("X-Ratelimit-Limit") == ["7"]
    assert r.all("X-Ratelimit-Remaining") == ["6"]
    assert r.all("RateLimit") == [f'"user/1w";r=6;t={DAY}']
    assert r.all("RateLimit-Policy") == [f'"user/1w";q=7;w={WEEK}']


def test_other_upstream_fields_are_kept(nginx):
    """The Retry-After of an overloaded API passes through a gateway that admitted the request."""
    r = nginx.get("/one/x/?status=503&h=Retry-After:120&h=Cache-Control:max-age=9&h=X-Ratelimit-Used:3",
                  {"X-User": "busy"})
    assert (r.status, r.get("Retry-After"), r.get("Cache-Control")) == (503, "120", "max-age=9")
    assert r.get("X-Ratelimit-Used") == "3"
    assert r.get("X-Ratelimit-Remaining") == "6"


@pytest.mark.parametrize("target, status", [("/one/x/?status=404", 404), ("/one/x/?status=500", 500),
                                            ("/one/x/?status=204", 204), ("/one/x/?drop=1", 502),
                                            ("/one/static/none", 404),
                                            ("/one/static/index.html", 200)])
def test_fields_are_sent_with_every_status(nginx, target, status):
    """The fields are added to error responses of the API and of nginx itself."""
    user = f"status-{target}"
    r = nginx.get(target, {"X-User": user})
    assert r.status == status
    assert r.get("X-Ratelimit-Remaining") == "6"
    if "static" in target:
        assert r.get("X-Mine") == "yes"


def test_fields_on_a_304(nginx):
    r = nginx.get("/one/static/index.html", {"X-User": "304"})
    r = nginx.get("/one/static/index.html", {"X-User": "304", "If-None-Match": r.get("ETag")})
    assert (r.status, r.get("X-Ratelimit-Remaining")) == (304, "5")


# ---- bodies of refusals ----

@pytest.mark.parametrize("accept, kind", [
    (None, "problem"), ("*/*", "problem"), ("application/json", "problem"),
    ("application/problem+json", "problem"), ("text/plain", "text"), ("text/html", "html"),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "html"),
    ("text/html;q=0.2, text/plain;q=0.9", "text"), ("image/png", "problem"), ("\xff;;,,=", "problem"),
])
def test_body_by_accept(nginx, accept, kind):
    """A refusal is JSON, HTML or plain text, depending on Accept."""
    user = f"accept-{kind}"
    headers = {"X-User": user, **({"Accept": accept} if accept else {})}
    while (r := nginx.get("/one/x/", headers)).status == 200:
        pass
    assert r.status == 429
    assert r.get("Content-Length") == str(len(r.body))
    body = r.body.decode()
    retry = r.get("Retry-After")
    if kind == "problem":
        assert r.get("Content-Type") == "application/problem+json"
        assert json.loads(body) == {
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Too Many Requests", "status": 429,
            "detail": f"A rate limit was exceeded. Try again in {retry} s.",
            "violated-policies": ["user/1w"]}
    elif kind == "text":
        assert r.get("Content-Type") == "text/plain; charset=utf-8"
        assert body == f"A rate limit was exceeded. Try again in {retry} s. Limit: user/1w.\n"
    else:
        assert r.get("Content-Type") == "text/html; charset=utf-8"
        assert body.startswith("<!DOCTYPE html>") and "<h1>Too Many Requests</h1>" in body
        assert f"Try again in {retry} s. Limit: user/1w." in body


def test_head_has_the_fields_and_no_body(nginx):
    take(nginx, "/one/x/", "head", 7)
    with nginx.client() as c:
        got = c.get("/one/x/", {"X-User": "head"})
        head = c.request("HEAD", "/one/x/", {"X-User": "head"})
        again = c.get("/one/x/", {"X-User": "head"})  # the client would read a body of HEAD as the next head
    assert (got.status, head.status, again.status) == (429, 429, 429)
    assert head.body == b""
    assert head.get("Content-Type") == "application/problem+json"
    assert head.get("Content-Length") == str(len(again.body))
    assert limit_fields(head) == limit_fields(got)


def test_response_of_the_rule(nginx):
    """The `response` of a rule sets status, type and body for every Accept."""
    take(nginx, "/own/", "own", 1)
    for accept in ("*/*", "text/html"):
        r = nginx.get("/own/", {"X-User": "own", "Accept": accept})
        assert r.status == 503
        assert r.get("Content-Type") == "application/vnd.slow+json"
        assert r.body == b'{"slow":"down"}'
        assert r.get("X-Ratelimit-Remaining") == "0" and r.get("Retry-After") == str(WEEK)
        assert r.get("Cache-Control") == "no-store"


def test_status_of_the_rule_without_a_body(nginx):
    take(nginx, "/status/", "own", 1)
    r = nginx.get("/status/", {"X-User": "own"})
    assert r.status == 420
    assert json.loads(r.body)["status"] == 420
    assert r.get("Content-Type") == "application/problem+json"


def test_missing_deny_is_403(nginx):
    r = nginx.get("/deny/")
    assert r.status == 403
    assert json.loads(r.body)["title"] == "Forbidden"
    assert r.get("Retry-After") is None
    assert r.get("Cache-Control") == "no-store"
    assert nginx.get("/deny/", {"X-User": "known"}).status == 200


def test_limit_of_zero_has_no_retry_after(nginx):
    r = nginx.get("/never/")
    assert r.status == 429
    assert r.get("X-Ratelimit-Limit") == "0" and r.get("X-Ratelimit-Remaining") == "0"
    assert r.get("Retry-After") is None and r.get("X-Ratelimit-Retry-After") is None
    assert "Try again" not in json.loads(r.body)["detail"]


# ---- error_page ----

@pytest.mark.parametrize("page, status, body", [
    ("page", 429, b"<h1>Sorry</h1>\n"), ("named", 200, b"ok\n"), ("as200", 200, b"<h1>Sorry</h1>\n")])
def test_error_page_replaces_the_refusal_body(nginx, page, status, body):
    """The site's own page with weir's header fields. The error page takes no further unit."""
    target, user = f"/one/{page}/", f"page-{page}"
    take(nginx, target, user, 7)
    for _ in range(2):
        r = nginx.get(target, {"X-User": user})
        assert (r.status, r.body) == (status, body)
        assert r.get("X-Ratelimit-Remaining") == "0"
        assert r.get("Retry-After") == str(DAY)
        assert r.get("Cache-Control") == "no-store"
    if page == "named":
        assert r.get("X-From") == "named"


def test_error_page_of_a_status_set_by_the_rule(nginx):
    take(nginx, "/own/page/", "own-page", 1)
    r = nginx.get("/own/page/", {"X-User": "own-page"})
    assert (r.status, r.body) == (503, b"<h1>Sorry</h1>\n")
    assert r.get("X-Ratelimit-Remaining") == "0"


def test_refused_requests_do_not_reach_the_api(nginx, api):
    target = "/one/x/counted"
    take(nginx, target, "reach", 7)
    for _ in range(5):
        assert nginx.get(target, {"X-User": "reach"}).status == 429
    assert api.count(target) == 7
