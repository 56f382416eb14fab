"""Refusals in locations that an `error_page` led to: status and body are those of the refusal, not those of the earlier
error."""

import json

import pytest
from weirtest import H2, Nginx, by_user

OWN = """
      unit: week
      requests_per_unit: 1
      algorithm: token_bucket
      response: {status: 503, content_type: text/x-own, body: own}
"""
ONE = "{unit: week, requests_per_unit: 1, algorithm: token_bucket}"

# Each leads to a location with weir, where the second request is above the limit.
SERVER = """
	proxy_intercept_errors on;
	error_page 503 /err.html;
	location = /err.html { weir on; }
	location = /maint { return 503; }
	location = /missing { error_page 404 @app; proxy_pass http://api/?status=404; }
	location = /found { error_page 404 =200 /app; proxy_pass http://api/?status=404; }
	location = /created { error_page 404 =201 @app; proxy_pass http://api/?status=404; }
	location = /app { weir on; proxy_pass http://api; }
	location @app { weir on; proxy_pass http://api; }

	# The refusal has a page as well, which is shown.
	location = /page { error_page 404 @page; proxy_pass http://api/?status=404; }
	location @page { weir on; error_page 429 /sorry.html; proxy_pass http://api; }
	location = /named { error_page 404 @named; proxy_pass http://api/?status=404; }
	location @named { weir on; error_page 429 =418 @sorry; proxy_pass http://api; }
	location @sorry { return 418 "sorry\\n"; }
	location = /sorry.html { }

	# No page is left after ten redirects: rewrites count as such.
	location = /far { error_page 404 /r9; proxy_pass http://api/?status=404; }
	location ~ ^/r([1-9])$ { rewrite ^/r9 /r8 last; rewrite ^/r8 /r7 last; rewrite ^/r7 /r6 last; rewrite ^/r6 /r5 last;
		rewrite ^/r5 /r4 last; rewrite ^/r4 /r3 last; rewrite ^/r3 /r2 last; rewrite ^/r2 /r1 last;
		rewrite ^/r1 /far-app last; }
	location = /far-app { weir on; error_page 429 /sorry.html; proxy_pass http://api; }
"""


@pytest.fixture(scope="module")
def nginx(_api):
    with Nginx(rules=by_user(ONE), conf_server=SERVER, api=_api, h2c=True,
               files={"err.html": "maintenance\n", "sorry.html": "sorry\n"}) as server:
        yield server


@pytest.mark.parametrize("target, first", [
    ("/maint", 503), ("/missing", 404), ("/found", 200), ("/created", 201), ("/app", 200)])
def test_status_is_that_of_the_refusal(nginx, target, first):
    """The second request has the status and body of a refusal, over HTTP/1.1 and HTTP/2."""
    user = {"X-User": f"status{target}"}
    assert nginx.get(target, user).status == first
    for _ in range(2):
        r = nginx.get(target, user)
        assert (r.status, json.loads(r.body)["status"]) == (429, 429)
        assert r.get("Content-Type") == "application/problem+json"
        assert int(r.get("Retry-After")) > 0
    with H2(nginx.h2c_port) as client:
        assert client.get(target, user).status == 429


@pytest.mark.parametrize("target, status", [("/page", 429), ("/named", 418)])
def test_page_is_that_of_the_refusal(nginx, target, status):
    """The error page for the refusal's status is shown, not the page of the earlier error."""
    user = {"X-User": f"page{target}"}
    assert nginx.get(target, user).status == 404
    for _ in range(2):
        r = nginx.get(target, user)
        assert (r.status, r.body, len(r.all("Retry-After"))) == (status, b"sorry\n", 1)


def test_refusal_after_too_many_redirects_has_its_own_body(nginx):
    """nginx allows ten internal redirects. A refusal after the last one is sent without an error page."""
    user = {"X-User": "far"}
    assert nginx.get("/far", user).status == 404
    r = nginx.get("/far", user)
    assert (r.status, json.loads(r.body)["status"]) == (429, 429)


def test_response_of_the_rule_in_an_error_page(api):
    """The refusal has the status of the earlier error, for which there is a page. The page of the refusal's status is
    shown."""
    with Nginx(rules=by_user(OWN), conf_server=SERVER, api=api,
               files={"err.html": "maintenance\n", "sorry.html": "sorry\n"}) as nginx:
        user = {"X-User": "own"}
        assert nginx.get("/found", user).status == 200
        r = nginx.get("/found", user)
        assert (r.status, r.body) == (503, b"maintenance\n")
    with Nginx(rules=by_user(OWN), conf_server=SERVER.replace("error_page 503 /err.html;", ""), api=api) as nginx:
        assert nginx.get("/found", user).status == 200
        r = nginx.get("/found", user)
        assert (r.status, r.get("Content-Type"), r.body) == (503, "text/x-own", b"own")
