"""`weir_auth` belongs to the location that answers. The authentication service of that location has to accept the
request, even if internal redirects led the request there."""

import pytest
from weirtest import Nginx, by_user, wait_for

HTTP = """
	map $http_authorization $says {
		""        "status=401&h=WWW-Authenticate:Bearer";
		banned    "status=403";
		expired   "status=401&h=Remote-User:anna&h=X-Reason:expired";
		broken    "status=500";
		mute      "status=204";
		default   "h=Remote-User:$http_authorization";
	}
	upstream away { server 127.0.0.1:1 down; }
	map $http_x_status $status_of { "" 200; default $http_x_status; }
	map $http_x_second $says_second {
		""        "status=401&h=WWW-Authenticate:Digest";
		default   "h=Remote-User:$http_x_second";
	}
"""

# Locations without weir_auth that redirect to a location with it.
SERVER = """
	weir on;
	proxy_set_header X-Who $weir_identity;
	proxy_set_header Remote-User $weir_auth_http_remote_user;
	proxy_intercept_errors on;

	location = /_auth { internal; proxy_pass http://api/auth?$says; proxy_intercept_errors off; }
	location = /_second { internal; proxy_pass http://api/second?$says_second; proxy_intercept_errors off; }

	location @app { weir_auth /_auth; rewrite ^ /app? break; proxy_pass http://api; }
	location /private/ { weir_auth /_auth; alias {prefix}/html/; }
	location = /private-api { weir_auth /_auth; proxy_pass http://api/app; }

	location = /try { try_files /none @app; }
	location = /try-uri { try_files /none /private/index.html; }
	location = /folder/ { index /private/index.html; root {prefix}/html/nowhere; }
	location = /error { error_page 404 /private/index.html; proxy_pass http://api/?status=404; }
	location = /error-named { error_page 404 = @app; proxy_pass http://api/?status=404; }
	location = /error-named-404 { error_page 404 @app; proxy_pass http://api/?status=404; }
	location = /error-chain { error_page 404 /error-again; proxy_pass http://api/?status=404;
		recursive_error_pages on; }
	location = /error-again { error_page 503 = @app; proxy_pass http://api/?status=503;
		recursive_error_pages on; }
	location = /accel { proxy_pass http://api/?h=X-Accel-Redirect:/private/index.html; }
	location = /accel-named { proxy_pass http://api/?h=X-Accel-Redirect:@app; }
	location = /rewrite { rewrite ^ /private/index.html last; }
	location = /error-rewrite { error_page 404 = /rewrite; proxy_pass http://api/?status=404; }
	location = /try-off { weir off; try_files /none @app; }

	# Several services.
	location = /two { weir_auth /_auth; error_page 404 = @second; proxy_pass http://api/?status=404;
		recursive_error_pages on; }
	location @second { weir_auth /_second; error_page 404 = @back;
		rewrite ^ /other?status=$status_of? break; proxy_pass http://api;
		recursive_error_pages on; }
	location @back { weir_auth /_auth; rewrite ^ /back? break; proxy_pass http://api; }
	location = /same { weir_auth /_auth; error_page 404 = @app; proxy_pass http://api/?status=404; }
	location = /args { weir_auth /_auth; error_page 404 = @args; proxy_pass http://api/?status=404; }
	location @args { weir_auth /_auth?for=args; rewrite ^ /app? break; proxy_pass http://api; }

	# Answers that refuse.
	location = /open-page { weir_auth /_auth; error_page 401 403 /open.html; proxy_pass http://api; }
	location = /open.html { weir_auth off; internal; }
	location = /open-named { weir_auth /_auth; error_page 401 = @open; proxy_pass http://api; }
	location @open { weir_auth off; proxy_set_header X-Who $weir_identity; proxy_set_header Remote-User
		$weir_auth_http_remote_user; proxy_set_header X-Reason $weir_auth_http_x_reason;
		rewrite ^ /open? break; proxy_pass http://api; }
	location = /closed-page { weir_auth /_auth; error_page 401 403 502 /private/index.html; proxy_pass http://api; }
	location = /closed-named { weir_auth /_auth; error_page 401 403 502 = @app; proxy_pass http://api; }
	location = /failed { weir_auth /_auth; error_page 502 = @counted; proxy_pass http://api; }
	location @counted { rewrite ^ /counted? break; proxy_pass http://api; }
	location = /closed-loop { weir_auth /_auth; error_page 401 403 502 = @loop; recursive_error_pages on;
		proxy_pass http://api; }
	location @loop { weir_auth /_auth; error_page 401 403 429 502 = @loop; recursive_error_pages on;
		rewrite ^ /app? break; proxy_pass http://api; }
	location = /limited-loop { error_page 429 = @loop; recursive_error_pages on; proxy_pass http://api/limited; }
	location = /try-page { try_files /none @page; }
	location @page { weir_auth /_auth; error_page 401 /open.html; rewrite ^ /app? break; proxy_pass http://api; }
	location = /limited { error_page 429 = @app; proxy_pass http://api/limited; }

	# Error pages of the locations that services are reached by: their own, or inherited.
	location = /paged-refusal { weir_auth /_paged; proxy_pass http://api/app; }
	location = /_paged { internal; proxy_pass http://api/auth?$says; error_page 401 403 500 =200 /open.html; }
	location = /paged-return { weir_auth /_return; proxy_pass http://api/app; }
	location = /_return { internal; error_page 401 =204 @open; return 401; }
	location = /paged-away { weir_auth /_away; proxy_pass http://api/app; }
	location = /_away { internal; error_page 502 = @open; proxy_pass http://away; }
	location = /paged-missing { weir_auth /_missing; proxy_pass http://api/app; }
	location = /_missing { internal; error_page 404 =200 /open.html; root {prefix}/html/nowhere; }

	# No location of the service, or one that leads to a location which wants the service.
	location /pages/ { weir_auth /pages/auth; try_files $uri /pages/index.html; alias {prefix}/html/; }
	location /named/ { weir_auth /named/auth; try_files $uri @named; root {prefix}/html/nowhere; }
	location @named { weir_auth /named/auth; rewrite ^ /app? break; proxy_pass http://api; }
	location /led/ { weir_auth /led/auth; proxy_pass http://api/app; }
	location = /led/auth { internal; try_files /none @led; }
	location @led { weir_auth off; proxy_pass http://api/auth?$says; }

	# Subrequests.
	location = /ssi { ssi on; ssi_types text/plain; try_files /ssi.txt =404; }
	location = /mirror { mirror /private-api; proxy_pass http://api/main; }
	location = /auth-request { auth_request /private-api; proxy_pass http://api/main; }
	location / { proxy_pass http://api; }
"""

WAYS = ["/try", "/try-uri", "/folder/", "/error", "/error-named", "/error-named-404", "/error-chain",
        "/accel", "/accel-named", "/rewrite", "/error-rewrite", "/try-off", "/private/index.html"]


@pytest.fixture(scope="module")
def nginx(_api):
    files = {"ssi.txt": '[<!--# include virtual="/private-api" -->]\n', "open.html": "open\n"}
    with Nginx(rules=by_user(), conf_http=HTTP, conf_server=SERVER, api=_api, files=files) as server:
        yield server


def as_user(name, **more):
    """Returns the header fields of a client that the authentication service knows by this name."""
    return {"Authorization": name, **{k.replace("_", "-"): v for k, v in more.items()}}


@pytest.mark.parametrize("target", WAYS)
def test_unknown_client_is_refused(nginx, api, target):
    """For each way to the protected location: an unknown client gets the refusal of the service and no
    content."""
    r = nginx.get(target)
    assert (r.status, r.all("WWW-Authenticate")) == (401, ["Bearer"])
    assert b"index" not in r.body
    assert (api.count("/auth"), api.count("/app")) == (1, 0)
    r = nginx.request("POST", target, as_user("banned"), b"body")
    assert (r.status, r.all("WWW-Authenticate")) == (403, [])
    assert api.count("/app") == 0


@pytest.mark.parametrize("target", WAYS)
def test_known_user_is_admitted_and_counted_once(nginx, api, target):
    """A known user reaches the protected location in each way. Each request takes one unit and one question to the
    service."""
    user = as_user("anna", X_User=f"let-in{target}")
    answers = [nginx.get(target, user) for _ in range(3)]
    assert [r.get("X-Ratelimit-Remaining") for r in answers] == ["4", "3", "2"]
    assert {r.status for r in answers} == {404 if target in ("/error", "/error-named-404") else 200}
    assert api.count("/auth") == 3
    reported = [r for r in api.records() if r.target == "/app"]
    assert {(r.get("X-Who"), r.get("Remote-User")) for r in reported} <= {("anna", "anna")}
    assert len(reported) == 3 or {r.body for r in answers} == {b"index\n"}


@pytest.mark.parametrize("target", ["/try", "/accel", "/error-named"])
def test_failing_service_admits_no_request(nginx, api, target):
    """If the service fails, the client gets 502, and the API gets no request."""
    assert nginx.get(target, as_user("broken")).status == 502
    assert (api.count("/auth"), api.count("/app")) == (1, 0)


@pytest.mark.parametrize("target, status", [("/paged-refusal", 401), ("/paged-return", 401), ("/paged-away", 502),
                                            ("/paged-missing", 500)])
def test_error_page_does_not_replace_the_authentication(nginx, api, target, status):
    """A failed authentication stays a failure if the location of the service has an error_page with status 200."""
    r = nginx.get(target)
    assert (r.status, api.count("/app")) == (status, 0)
    assert r.all("WWW-Authenticate") == (["Bearer"] if target == "/paged-refusal" else [])


def test_location_with_an_error_page_admits_a_known_user(nginx, api):
    assert nginx.get("/paged-refusal", as_user("anna")).status == 200
    assert (nginx.get("/paged-refusal", as_user("broken")).status, api.count("/app")) == (502, 1)


@pytest.mark.parametrize("target", ["/pages/index.html", "/named/x"])
def test_location_with_weir_auth_cannot_be_its_own_service(nginx, api, target):
    """A location that inherits weir_auth answers the subrequest: the client gets 500, and the log names the remedy."""
    r = nginx.get(target)
    assert (r.status, b"index" in r.body) == (500, False)
    assert "add a location for the service" in nginx.log()


def test_service_behind_another_location(nginx):
    """The location of weir_auth may lead to the service through a named location."""
    assert (nginx.get("/led/x").status, nginx.get("/led/x", as_user("anna")).status) == (401, 200)


def test_client_cannot_set_the_identity_field(nginx, api):
    """The service accepts without a name: neither the client's header field nor an earlier identity becomes the
    identity."""
    assert nginx.get("/try", as_user("mute", Remote_User="root")).status == 200
    (reported,) = [r for r in api.records() if r.target == "/app"]
    assert (reported.get("X-Who"), reported.get("Remote-User")) == (None, None)


def test_refusing_response_sets_no_identity(nginx, api):
    """A refusing response of the service may have the identity's header field; it is not used as identity."""
    assert nginx.get("/open-named", as_user("expired")).status == 200
    (reported,) = [r for r in api.records() if r.target == "/open"]
    assert (reported.get("X-Who"), reported.get("Remote-User"), reported.get("X-Reason")) == (None, None, "expired")


def test_each_location_asks_its_own_service(nginx, api):
    """A request passes two locations with different services: both must accept it, and the last one sets the
    identity."""
    assert nginx.get("/two").status == 401
    assert nginx.get("/two", {"X-Second": "bert"}).status == 401
    assert (api.count("/auth"), api.count("/second")) == (2, 0)
    r = nginx.get("/two", as_user("anna"))
    assert (r.status, r.all("WWW-Authenticate")) == (401, ["Digest"])
    assert api.count("/other") == 0
    assert nginx.get("/two", as_user("anna", X_Second="bert")).status == 200
    (reported,) = [r for r in api.records() if r.target.startswith("/other")]
    assert (reported.get("X-Who"), reported.get("Remote-User")) == ("bert", "bert")


def test_accepted_request_is_not_authenticated_again(nginx, api):
    """A request that returns to a location whose service has accepted it is not sent to that service again, and has the
    identity of that service."""
    r = nginx.get("/two", as_user("anna", X_Second="bert", X_User="back", X_Status="404"))
    assert (r.status, r.get("X-Ratelimit-Remaining")) == (200, "4")
    assert (api.count("/auth"), api.count("/second?")) == (1, 1)
    (reported,) = [r for r in api.records() if r.target == "/back"]
    assert (reported.get("X-Who"), reported.get("Remote-User")) == ("anna", "anna")
    api.reset()
    assert nginx.get("/same", as_user("anna")).status == 200
    assert api.count("/auth") == 1
    assert nginx.get("/args", as_user("anna")).status == 200
    assert api.count("/auth") == 3  # other arguments are another request to the service


def test_refused_request_is_not_authenticated_again(nginx, api):
    """The error page of a refusal is in a location with the same service: the page is not shown, and the service is not
    asked twice."""
    r = nginx.get("/open-page")
    assert (r.status, r.body, r.all("WWW-Authenticate")) == (401, b"open\n", ["Bearer"])
    r = nginx.get("/try-page")
    assert (r.status, r.body, r.all("WWW-Authenticate")) == (401, b"open\n", ["Bearer"])
    for target in ("/closed-page", "/closed-named", "/closed-loop"):
        for user, status, challenge in (({}, 401, ["Bearer"]), (as_user("banned"), 403, []),
                                        (as_user("broken"), 502, [])):
            api.reset()
            r = nginx.get(target, user)
            assert (r.status, r.all("WWW-Authenticate")) == (status, challenge)
            assert b"index" not in r.body
            assert (api.count("/auth"), api.count("/app")) == (1, 0)


def test_request_after_a_failed_service_is_counted(nginx, api):
    """The request was not counted where the service failed, so it is counted where it is answered."""
    seen = [nginx.get("/failed", as_user("broken", X_User="failed")).status for _ in range(7)]
    assert seen == [200] * 5 + [429] * 2
    assert api.count("/counted") == 5


@pytest.mark.parametrize("target", ["/limited", "/limited-loop"])
def test_request_over_the_limit_is_not_authenticated(nginx, api, target):
    """Above the limit the error page is in a location with weir_auth. A flood does not reach its service."""
    user = {"X-User": f"flood{target}"}
    assert [nginx.get(target, user).status for _ in range(5)] == [200] * 5
    for _ in range(3):
        r = nginx.get(target, user)
        assert (r.status, len(r.all("Retry-After"))) == (429, 1)
    assert (api.count("/limited"), api.count("/app"), api.count("/auth")) == (5, 0, 0)


def test_subrequests_are_not_authenticated(nginx, api):
    """As with nginx's own access modules, subrequests of the configuration or of a page are not authenticated."""
    assert nginx.get("/ssi").body == b"[ok\n]\n"
    assert nginx.get("/auth-request").status == 200
    assert nginx.get("/mirror").status == 200
    wait_for(lambda: api.count("/app") == 3, "one request of each kind")
    assert api.count("/auth") == 0
