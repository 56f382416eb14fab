"""Client identity: addresses behind trusted proxies, values of nginx, an authentication service; and clients that forge
an identity."""

import pytest
from weirtest import H2, Nginx, by_user, fetch, scaled, count_statuses, send_at_once, wait_for

ADDRESS = """
domain: api
requests:
  - descriptor: [{key: address, from: remote_address}]
descriptors:
  - key: address
    rate_limit: {unit: week, requests_per_unit: 2, algorithm: token_bucket}
"""

# By identity if there is one, and always by address: an admitted request counts in both.
IDENTITY = """
domain: api
requests:
  - descriptor: [{key: who, from: identity}]
  - descriptor: [{key: claimed, from: header.remote-user}]
  - descriptor: [{key: address, from: remote_address}]
descriptors:
  - key: who
    rate_limit: {unit: week, requests_per_unit: 3, algorithm: token_bucket}
  - key: claimed
    rate_limit: {unit: week, requests_per_unit: 3, algorithm: token_bucket}
  - key: address
    rate_limit: {unit: week, requests_per_unit: %d, algorithm: token_bucket}
"""


# ---- realip ----

def test_realip_uses_the_address_of_trusted_proxies_only(api):
    """A trusted proxy sets the client's address; an untrusted one cannot."""
    server = """
	set_real_ip_from 127.0.0.2;
	real_ip_header X-Forwarded-For;
	real_ip_recursive on;
	location / { weir on; proxy_pass http://api; }
	"""
    with Nginx(rules=ADDRESS, conf_server=server, api=api) as nginx:
        def ask(forwarded, source):
            return fetch(nginx.port, headers={"X-Forwarded-For": forwarded}, source=source).status
        # Two clients behind the trusted proxy have a counter each …
        assert [ask("192.0.2.1", "127.0.0.2") for _ in range(3)] == [200, 200, 429]
        assert [ask("192.0.2.2", "127.0.0.2") for _ in range(3)] == [200, 200, 429]
        # … the last untrusted address is used, not those that the client put before it …
        assert ask("10.9.9.9, 192.0.2.1", "127.0.0.2") == 429
        assert ask("2001:db8::7", "127.0.0.2") == 200
        # … and an untrusted peer has its own address, whatever its fields contain.
        assert [ask(f"192.0.2.{n}", "127.0.0.3") for n in (10, 11, 12, 13)] == [200, 200, 429, 429]
        assert ask("192.0.2.12", "127.0.0.2") == 200


# ---- weir_identity ----

def test_identity_from_a_value(api):
    """`weir_identity` takes the identity from any value of nginx; empty means no identity."""
    server = """
	weir_identity $arg_me-$http_x_team;
	location / { weir on; proxy_pass http://api; }
	location /nobody { weir on; weir_identity $arg_none; proxy_pass http://api; }
	"""
    rules = by_user().replace("header.x-user", "identity")
    with Nginx(rules=rules, conf_server=server, api=api) as nginx:
        for left in "43210":
            assert nginx.get("/?me=a", {"X-Team": "t"}).get("X-Ratelimit-Remaining") == left
        assert nginx.get("/?me=a", {"X-Team": "t"}).status == 429
        assert nginx.get("/?me=b", {"X-Team": "t"}).get("X-Ratelimit-Remaining") == "4"
        assert nginx.get("/nobody").get("X-Ratelimit-Limit") is None


# ---- weir_auth ----

AUTH_HTTP = """
	map $http_authorization $auth_says {
		""          "status=401&h=WWW-Authenticate:Bearer%20realm=%22e2e%22";
		bad         "status=401&h=WWW-Authenticate:Bearer%20error=%22invalid_token%22";
		forbidden   "status=403";
		broken      "status=500";
		teapot      "status=418";
		found       "status=302&h=Location:/login";
		drop        "drop=1";
		mute        "status=204";
		other       "h=X-Auth-Request-User:other";
		both        "h=X-Auth-Request-User:second&h=Remote-User:first";
		long        "h=Remote-User:LONG";
		default     "h=Remote-User:$http_authorization&h=X-Plan:gold";
	}
	log_format who '$status|$weir_result|$weir_identity|$weir_auth_http_x_plan|$weir_auth_http_remote_user';
"""
AUTH_SERVER = """
	weir on;
	weir_auth /auth;
	access_log {prefix}/access.log who;
	location = /auth {
		internal;
		proxy_pass http://api/auth?$auth_says;
		proxy_pass_request_body off;
		proxy_set_header Content-Length "";
		proxy_set_header X-Original-URI $request_uri;
	}
	location / { proxy_set_header X-Who $weir_identity; proxy_pass http://api; }
	location /open { weir_auth off; proxy_pass http://api; }
	location /named { weir_auth_headers X-Plan; proxy_pass http://api; }
	location /absent { weir_auth /nowhere/x; proxy_pass http://api; }
	location /nowhere/ { internal; root {prefix}/nowhere; }
	location /refused { weir_auth /auth-gone; proxy_pass http://api; }
	location = /auth-gone { internal; proxy_pass http://127.0.0.1:1/; }
	location /slow { weir_auth /auth-slow; proxy_pass http://api; }
	location = /auth-slow { internal; proxy_pass http://api/auth-slow?hold=auth&h=Remote-User:slow$arg_n; }
	location /hung { weir_auth /auth-hung; proxy_pass http://api; }
	location = /auth-hung { internal; proxy_read_timeout 300ms; proxy_pass http://api/auth-hung?hold=never; }
	location /page { error_page 401 /login.html; proxy_pass http://api; }
	location = /login.html { internal; weir_auth off; }
"""
ALLOW = [r"\[crit\].*connect\(\) to 127.0.0.1:1"]


def auth_nginx(api, addresses=1000, **kwargs):
    """Returns an nginx with weir_auth; `addresses` is the limit of each address."""
    return Nginx(rules=IDENTITY % addresses, conf_http=AUTH_HTTP, conf_server=AUTH_SERVER, api=api,
                 files={"login.html": "please log in\n"}, allow=ALLOW, **kwargs)


@pytest.fixture(scope="module")
def nginx(_api):
    with auth_nginx(_api) as server:
        yield server


def as_user(name, **more):
    """Returns the header fields of a client that the authentication service knows by this name."""
    return {"Authorization": name, **{k.replace("_", "-"): v for k, v in more.items()}}


def test_identity_comes_from_the_response_of_the_service(nginx, api):
    for left in ("2", "1", "0"):
        r = nginx.get("/x", as_user("anna"))
        assert (r.status, r.get("X-Ratelimit-Limit"), r.get("X-Ratelimit-Remaining")) == (200, "3", left)
    assert nginx.get("/x", as_user("anna")).status == 429
    assert nginx.get("/x", as_user("bert")).status == 200
    assert {r.get("X-Who") for r in api.records() if r.target == "/x"} == {"anna", "bert"}


def test_auth_request_has_the_headers_of_the_client_and_no_body(nginx, api):
    r = nginx.request("POST", "/upload?echo=1", as_user("carl", X_Trace="t1"), b"b" * 100000)
    assert r.status == 200 and b'"body_bytes": 100000' in r.body
    asked = next(r for r in api.records() if r.target.startswith("/auth"))
    assert asked.method == "GET"
    assert asked.get("Authorization") == "carl" and asked.get("X-Trace") == "t1"
    assert asked.get("X-Original-URI") == "/upload?echo=1"
    assert asked.get("Content-Length") in (None, "0")


def test_each_request_makes_one_auth_request(nginx, api):
    nginx.get("/x", as_user("dora"))
    assert (api.count("/auth"), api.count("/x")) == (1, 1)


@pytest.mark.parametrize("name", ["Remote-User", "X-Auth-Request-User", "X-Forwarded-User", "remote-user"])
def test_forged_identity_headers_are_ignored(nginx, name):
    """A client that sends the identity headers itself still has the identity of the service. Its copy is no source for
    rules either (`header.remote-user` is the service's value)."""
    victim, thief = f"victim-{name}", f"thief-{name}"
    for _ in range(3):
        assert nginx.get("/", {**as_user(thief), name: victim}).status == 200
    assert nginx.get("/", {**as_user(thief), name: victim}).status == 429
    assert nginx.get("/", {**as_user(thief), name: "another"}).status == 429
    assert nginx.get("/", as_user(victim)).get("X-Ratelimit-Remaining") == "2"


def test_forged_headers_without_an_identity_are_ignored(nginx):
    """The service sets no identity (204 without a header): then there is none, whatever the client sent."""
    for n in range(5):
        r = nginx.get("/", {**as_user("mute"), "Remote-User": f"made-up-{n}"})
        assert r.status == 200
        assert '"who/1w"' not in r.get("RateLimit") and '"claimed/1w"' not in r.get("RateLimit")


def test_first_of_the_auth_headers_is_used(nginx):
    """The first field of weir_auth_headers that the service sends is the identity, and each value has its own
    counter."""
    assert nginx.get("/", as_user("other")).get("RateLimit").startswith('"who/1w";r=2')
    assert nginx.get("/", as_user("both")).get("RateLimit").startswith('"who/1w";r=2')
    assert nginx.get("/", as_user("first")).get("RateLimit").startswith('"who/1w";r=1')
    assert nginx.get("/", as_user("second")).get("RateLimit").startswith('"who/1w";r=2')
    assert nginx.get("/named", as_user("emil")).get("RateLimit").startswith('"who/1w";r=2')
    assert nginx.get("/named", as_user("fritz")).get("RateLimit").startswith('"who/1w";r=1')  # gold too


def test_401_and_403_are_passed_on(nginx, api):
    """The client gets the status and WWW-Authenticate of the service, or the error page of the location."""
    r = nginx.get("/secret")
    assert r.status == 401
    assert r.get("WWW-Authenticate") == 'Bearer realm="e2e"'
    r = nginx.get("/secret", as_user("bad"))
    assert (r.status, r.get("WWW-Authenticate")) == (401, 'Bearer error="invalid_token"')
    r = nginx.get("/secret", as_user("forbidden"))
    assert (r.status, r.get("WWW-Authenticate")) == (403, None)
    assert api.count("/secret") == 0
    r = nginx.get("/page")
    assert (r.status, r.body) == (401, b"please log in\n")


@pytest.mark.parametrize("target, headers, statuses", [
    ("/x", as_user("broken"), (502,)), ("/x", as_user("teapot"), (502,)), ("/x", as_user("found"), (502,)),
    ("/x", as_user("drop"), (502,)), ("/refused", {}, (502,)), ("/hung", {}, (502, 504)),
    ("/absent", {}, (500, 502))])
def test_failing_service_admits_no_request_and_takes_no_unit(nginx, api, target, headers, statuses):
    """Errors and invalid responses of the service give an error to the client and count nothing."""
    before = nginx.get("/open").get("X-Ratelimit-Remaining")
    assert nginx.get(target, headers).status in statuses
    assert api.count(target) == 0
    assert int(nginx.get("/open").get("X-Ratelimit-Remaining")) == int(before) - 1


def test_slow_service_delays_only_its_requests(nginx, api):
    """Requests wait for the service; other requests of the worker do not. A client may disconnect meanwhile."""
    clients = [nginx.client() for _ in range(4)]
    for c in clients[:3]:
        c.send("GET", "/slow", as_user("slow"))
    clients[3].send("GET", "/slow?n=4")  # another identity, so that its unit is not missing from the three
    wait_for(lambda: api.count("/auth-slow") == 4, "four questions to the service")
    assert nginx.get("/open").status == 200
    clients[3].vanish()
    api.release("auth")
    assert [c.read().status for c in clients[:3]] == [200] * 3
    assert api.count("/slow") in (3, 4)
    for c in clients[:3]:
        c.close()


def test_weir_off_makes_no_auth_request(nginx, api):
    assert nginx.get("/open", as_user("broken")).status == 200
    assert api.count("/auth") == 0


def test_identity_variables(api):
    """$weir_identity and $weir_auth_http_… are set only if the service has accepted the request."""
    with auth_nginx(api) as nginx:
        nginx.get("/x", as_user("gina"))
        nginx.get("/x")
        nginx.get("/open")
        lines = nginx.access_lines(3)
    assert lines[0] == "200|ADMITTED|gina|gold|gina"
    assert lines[1].startswith("401|") and lines[1].split("|")[2] in ("", "-")
    assert lines[2] == "200|ADMITTED|-|-|-"  # by address


def test_flood_does_not_reach_the_service(api):
    """The address has used up its limit: further requests are refused before the service is asked."""
    with auth_nginx(api, addresses=20) as nginx:
        results = send_at_once(nginx.port, [("GET", f"/f/{i}", as_user(f"flooder-{i}")) for i in range(20)])
        assert count_statuses(results) == {200: 20}
        assert api.count("/auth") == 20
        flood = scaled(400)
        results = send_at_once(nginx.port, [("GET", f"/f/{i}", as_user(f"flooder-{i}")) for i in range(flood)],
                       connections=20)
        assert count_statuses(results) == {429: flood}
        assert api.count("/auth") == 20
        assert api.count("/f/") == 20


def test_failed_attempts_count_against_the_address(api):
    """Guessing passwords uses up the limit of the address: five tries, then 429 and no more auth requests."""
    with auth_nginx(api, addresses=5) as nginx:
        seen = [nginx.get("/x", as_user("bad")).status for _ in range(8)]
        assert seen == [401] * 5 + [429] * 3
        assert api.count("/auth") == 5
        assert api.count("/x") == 0


@pytest.mark.parametrize("how", ["h1", "h2"])
def test_client_that_disconnects_during_authentication_is_counted(api, how):
    """Without this, requests that their clients reset at once would reach the service without end: only five do."""
    with auth_nginx(api, addresses=5, h2c=True) as nginx:
        for n in range(1, 6):
            if how == "h2":
                with H2(nginx.h2c_port) as client:
                    stream = client.send("GET", "/slow", as_user("anna"))
                    wait_for(lambda n=n: api.count("/auth-slow") == n, "the service to be asked")
                    client.cancel(stream)
            else:
                client = nginx.client()
                client.send("GET", "/slow", as_user("anna"))
                wait_for(lambda n=n: api.count("/auth-slow") == n, "the service to be asked")
                client.vanish()
            nginx.access_lines(n)
        assert nginx.get("/slow", as_user("anna")).status == 429
        assert (api.count("/auth-slow"), api.count("/slow")) == (5, 0)
        api.release("auth")


def test_response_401_has_no_ratelimit_fields(nginx):
    """RateLimit fields would reveal the remaining units of others to a client that is not authenticated."""
    r = nginx.get("/secret", as_user("bad"))
    assert r.status == 401
    assert '"who/1w"' not in (r.get("RateLimit") or "")


def test_auth_request_and_weir_auth_in_one_location(api):
    """auth_request and weir_auth in the same location: both services are asked once, and weir counts once."""
    server = AUTH_SERVER + """
	location /both { auth_request /second; proxy_pass http://api; }
	location = /second { internal; weir_auth /auth; proxy_pass http://api/second; }
	"""
    with Nginx(rules=IDENTITY % 1000, conf_http=AUTH_HTTP, conf_server=server, api=api) as nginx:
        for left in ("2", "1", "0"):
            r = nginx.get("/both", as_user("hans"))
            assert (r.status, r.get("X-Ratelimit-Remaining")) == (200, left)
        assert (api.count("/auth"), api.count("/second"), api.count("/both")) == (3, 3, 3)
