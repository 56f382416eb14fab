"""A request counts once, whatever internal redirects and subrequests it has."""

import pytest
from weirtest import Nginx, by_user, wait_for

FIVE_LEFT = ["4", "3", "2"]

SERVER = """
	weir on;

	# Before weir decides.
	rewrite ^/rewritten$ /plain last;
	location = /returned { rewrite ^ /plain redirect; }

	# Internal redirects behind it, each to a location where weir is on as well.
	location = /try { try_files /none @api; }
	location = /try-uri { try_files /none /also-none /plain; }
	location = /try-off { weir off; try_files /none @api; }
	location @api { proxy_pass http://api; }
	location = /error { error_page 404 /fallback; proxy_pass http://api/?status=404; proxy_intercept_errors on; }
	location = /error-named { error_page 404 = @api; proxy_pass http://api/?status=404; proxy_intercept_errors on; }
	location = /error-chain { error_page 404 /error-again; proxy_pass http://api/?status=404; proxy_intercept_errors on; recursive_error_pages on; }
	location = /error-again { error_page 503 /fallback; proxy_pass http://api/?status=503; proxy_intercept_errors on; recursive_error_pages on; }
	location = /missing { error_page 404 /fallback; root {prefix}/html/nowhere; }
	location = /fallback { proxy_pass http://api/fallback; }
	location = /accel { proxy_pass http://api/?h=X-Accel-Redirect:/protected/index.html; }
	location = /accel-named { proxy_pass http://api/?h=X-Accel-Redirect:@api; }
	location /protected/ { internal; alias {prefix}/html/; }
	location /folder/ { alias {prefix}/html/; index index.html; }

	# Subrequests.
	location = /auth-request { auth_request /auth; proxy_pass http://api/main; }
	location = /auth { proxy_pass http://api/auth; proxy_pass_request_body off; proxy_set_header Content-Length ""; }
	location = /mirror { mirror /mirrored; mirror /mirrored; proxy_pass http://api/main; }
	location = /mirrored { proxy_pass http://api/mirrored; }
	location = /ssi { ssi on; ssi_types text/plain; try_files /ssi.txt =404; }
	location = /add { add_before_body /part/1; add_after_body /part/2; addition_types text/plain; proxy_pass http://api/main; }
	location /part/ { proxy_pass http://api/part; }
	location = /all { auth_request /auth; mirror /mirrored; error_page 404 /fallback; proxy_intercept_errors on; proxy_pass http://api/?status=404; }

	location / { proxy_pass http://api; }
"""


@pytest.fixture(scope="module")
def nginx(_api):
    page = '[<!--# include virtual="/part/1" -->|<!--# include virtual="/part/2" -->]\n'
    with Nginx(rules=by_user(), conf_server=SERVER, api=_api, files={"ssi.txt": page}) as server:
        yield server


@pytest.mark.parametrize("target, status", [
    ("/plain", 200), ("/rewritten", 200), ("/try", 200), ("/try-uri", 200), ("/try-off", 200),
    ("/error", 404), ("/error-named", 200), ("/error-chain", 503), ("/missing", 404),
    ("/accel", 200), ("/accel-named", 200), ("/folder/", 200), ("/auth-request", 200),
    ("/mirror", 200), ("/ssi", 200), ("/add", 200), ("/all", 404)])
def test_request_counts_once(nginx, target, status):
    """Five are allowed: after three requests two are left, and after two more none."""
    user = {"X-User": f"once{target}"}
    seen = [nginx.get(target, user) for _ in range(3)]
    assert [r.get("X-Ratelimit-Remaining") for r in seen] == FIVE_LEFT
    assert {r.status for r in seen} == {status}
    assert [len(r.all("X-Ratelimit-Limit")) for r in seen] == [1, 1, 1]
    assert [nginx.get("/plain", user).status for _ in range(4)] == [200, 200, 429, 429]
    assert nginx.get(target, user).status == 429


def test_subrequests_still_run(nginx, api):
    """SSI, add_before_body, auth_request and mirror work in locations with weir."""
    user = {"X-User": "inside"}
    assert nginx.get("/ssi", user).body == b"[ok\n|ok\n]\n"
    assert nginx.get("/add", user).body == b"ok\nok\nok\n"
    assert nginx.get("/auth-request", user).status == 200
    assert nginx.get("/mirror", user).status == 200
    assert api.count("/part") == 4
    assert api.count("/auth") == 1
    wait_for(lambda: api.count("/mirrored") == 2, "both mirrored requests")


def test_refused_request_starts_no_subrequest(nginx, api):
    user = {"X-User": "nothing"}
    for _ in range(5):
        nginx.get("/plain", user)
    api.reset()
    for target in ("/auth-request", "/mirror", "/ssi", "/add", "/error", "/accel", "/all", "/try"):
        assert nginx.get(target, user).status == 429
    assert api.count() == 0


def test_decision_of_the_first_location_holds(api):
    """An error page in a location with other descriptors makes no new decision."""
    server = """
	location = /first { weir_descriptor api user=$http_x_user; error_page 404 /second;
		proxy_intercept_errors on; proxy_pass http://api/?status=404; }
	location = /second { weir_descriptor api user=second; proxy_pass http://api/second; }
	"""
    with Nginx(rules=by_user(), conf_server=server, api=api) as nginx:
        for left in ("4", "3", "2", "1", "0"):
            r = nginx.get("/first", {"X-User": "a"})
            assert (r.status, r.get("X-Ratelimit-Remaining")) == (404, left)
        r = nginx.get("/second")
        assert (r.status, r.get("X-Ratelimit-Remaining")) == (200, "4")
        assert nginx.get("/first", {"X-User": "a"}).status == 429


def test_subrequests_of_an_unlimited_page_are_not_limited(api):
    """A page in a location with weir off includes a location with weir on. A subrequest is part of its request, which
    is not limited."""
    server = """
	location = /page { ssi on; ssi_types text/plain; try_files /ssi.txt =404; }
	location /part/ { weir on; proxy_pass http://api; }
	"""
    page = '[<!--# include virtual="/part/1" -->|<!--# include virtual="/part/2" -->]\n'
    with Nginx(rules=by_user(), conf_server=server, api=api, files={"ssi.txt": page}) as nginx:
        with nginx.client() as c:
            for _ in range(8):
                r = c.get("/page", {"X-User": "parts"})
                assert (r.status, r.body) == (200, b"[ok\n|ok\n]\n")
        assert nginx.get("/part/1", {"X-User": "parts"}).get("X-Ratelimit-Remaining") == "4"
