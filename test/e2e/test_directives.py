"""Each directive: accepted and refused arguments, inheritance and effect; variables."""

import os
import re

import pytest
from weirtest import FIVE, Nginx, by_user, check_conf

ON = "location / { weir on; }"


# ---- nginx -t ----

def test_nginx_t_accepts_a_good_configuration_and_creates_nothing():
    code, output = check_conf(ON, rules=by_user())
    assert code == 0, output
    assert "test is successful" in output


BROKEN = {
    # name: (server, http, words of the error message)
    "weir without an argument": ("weir;", "", "invalid number of arguments in \"weir\""),
    "weir twice": ("weir on; weir off;", "", "\"weir\" directive is duplicate"),
    "unknown profile": ("weir on; weir_headers shiny;", "", "shiny"),
    "dry run maybe": ("weir on; weir_dry_run maybe;", "", "maybe"),
    "unknown way to show keys": ("weir on;", "weir_keys loud;", "loud"),
    "keys in a server": ("weir on; weir_keys text;", "", "\"weir_keys\" directive is not allowed here"),
    "unknown log level": ("weir on; weir_log_level loud;", "", "loud"),
    "rules in a server": ("weir_rules rules.yaml;", "", "\"weir_rules\" directive is not allowed here"),
    "table in a server": ("weir_table x 8m;", "", "\"weir_table\" directive is not allowed here"),
    "descriptor without a pair": ("weir_descriptor api;", "", "weir_descriptor"),
    "descriptor with half a pair": ("weir_descriptor api user;", "", "user"),
    "descriptor without a key": ("weir_descriptor api =$arg_x;", "", "weir_descriptor"),
    "descriptor with an unknown variable": ("weir_descriptor api user=$nonesuch;", "", "nonesuch"),
    "descriptors of two domains": (
        "weir_descriptor api user=$arg_a; weir_descriptor other user=$arg_b;", "", "other"),
    "descriptor of another domain than weir": ("weir api; weir_descriptor other user=$arg_a;", "", "other"),
    "identity of an unknown variable": ("weir on; weir_identity $nonesuch;", "", "nonesuch"),
    "auth without an argument": ("weir on; weir_auth;", "", "weir_auth"),
    "auth headers without a name": ("weir on; weir_auth_headers;", "", "weir_auth_headers"),
    "unknown domain": ("weir nonesuch;", "", "nonesuch"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_invalid_directive_is_refused(name):
    server, http, words = BROKEN[name]
    code, output = check_conf(server, http, rules=by_user())
    assert code == 1, output
    assert re.search(rf"\[emerg\] .*{re.escape(words)}", output), output


TABLES = {
    "bad name": ("weir_table ../x 8m dir={prefix}/table;", "../x"),
    "bad size": ("weir_table test huge dir={prefix}/table;", "huge"),
    "too small": ("weir_table test 1k dir={prefix}/table;", "1k"),
    "too large": ("weir_table test 257g dir={prefix}/table;", '"257g" of "weir_table": valid are 256k to 256g'),
    "bad log size": ("weir_table test 8m log=lots dir={prefix}/table;", "lots"),
    "unknown parameter": ("weir_table test 8m dir={prefix}/table color=blue;", "color"),
    "twice": ("weir_table test 8m dir={prefix}/table;\nweir_table test 8m dir={prefix}/table;",
              "duplicate"),
    "no argument": ("weir_table;", "invalid number of arguments"),
}


@pytest.mark.parametrize("name", TABLES)
def test_invalid_table_directive_is_refused(name):
    table, words = TABLES[name]
    code, output = check_conf(ON, rules=by_user(), table=table)
    assert code == 1, output
    assert re.search(rf"\[emerg\] .*{re.escape(words)}", output), output


def test_weir_without_rules_is_refused():
    code, output = check_conf(ON)
    assert code == 1
    assert "weir_rules" in output


def test_missing_rules_are_refused():
    code, output = check_conf(ON, rules_path="{prefix}/none.yaml")
    assert code == 1
    assert "PREFIX/none.yaml" in output


def test_broken_rules_with_file_line_and_column():
    """Every error has its file, line and column, as in the output of `weir check`."""
    broken = """\
domain: api
requests:
  - descriptor: [{key: user, from: header.x-user}]
descriptors:
  - key: user
    rate_limit: {unit: fortnight, requests_per_unit: 5}
  - key: other
    rate_limit: {unit: hour, requests_per_unit: -1}
"""
    code, output = check_conf(ON, rules=broken)
    assert code == 1
    assert re.search(r"PREFIX/rules\.yaml:6:24: error: .*fortnight", output), output
    assert re.search(r"PREFIX/rules\.yaml:8:\d+: error: ", output), output


def test_rules_with_yaml_errors_are_refused():
    code, output = check_conf(ON, rules="domain: [api\n")
    assert code == 1
    assert re.search(r"PREFIX/rules\.yaml:2:1: error: invalid YAML", output), output


def test_on_needs_exactly_one_domain_with_requests():
    """`weir on` is refused with no domain or with two domains that have `requests:`; a domain's name is accepted."""
    none = "domain: api\ndescriptors:\n  - {key: k, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
    code, output = check_conf(ON, rules=none)
    assert code == 1 and "requests" in output
    with Nginx(rules_path="{prefix}/rules.d", conf_server=ON, start=False) as nginx:
        (nginx.prefix / "rules.d").mkdir()
        for name in ("first", "second"):
            (nginx.prefix / "rules.d" / f"{name}.yaml").write_text(by_user(domain=name), encoding="utf-8")
        code, output = nginx.run("-t")
        assert code == 1
        assert "first" in output and "second" in output
        nginx.write_conf(server="location / { weir first; } location /2 { weir second; }")
        assert nginx.run("-t")[0] == 0
        # A third domain without requests does not prevent `on`.
        (nginx.prefix / "rules.d" / "second.yaml").write_text(none, encoding="utf-8")
        nginx.write_conf(server=ON)
        assert nginx.run("-t")[0] == 0


def test_relative_paths_are_relative_to_the_configuration():
    with Nginx(rules=None, conf_server=ON, rules_path="rel/rules.yaml", start=False) as nginx:
        (nginx.prefix / "rel").mkdir()
        (nginx.prefix / "rel/rules.yaml").write_text(by_user(), encoding="utf-8")
        assert nginx.run("-t")[0] == 0


def test_nginx_s_creates_no_table(api):
    """`nginx -s` also reads the configuration. A new table in it is not created."""
    with Nginx(rules=by_user(), conf_server=ON, api=api) as nginx:
        before = sorted(os.listdir(nginx.prefix / "table"))
        assert len(before) >= 1
        nginx.write_conf(table="weir_table other 8m dir={prefix}/table;")
        assert nginx.run("-s", "reopen")[0] == 0
        assert nginx.run("-t")[0] == 0
        assert sorted(os.listdir(nginx.prefix / "table")) == before
        nginx.reload()
        assert any(name.startswith("other") for name in os.listdir(nginx.prefix / "table"))


def test_unused_module_creates_no_table():
    """If the module is loaded but not used, there is no table, and there are no header fields."""
    with Nginx(conf_server="location / { }", table="") as nginx:
        r = nginx.get("/")
        assert r.status == 200
        assert not [n for n in r.names() if "ratelimit" in n]
        assert os.listdir(nginx.prefix / "table") == []


def test_table_size_change_keeps_the_counts(api):
    """The configuration has another size: the table is rebuilt with its contents, and that is logged."""
    server = "location / { weir on; proxy_pass http://api; }"
    with Nginx(rules=by_user(), conf_server=server, api=api) as nginx:
        assert [nginx.get("/", {"X-User": "a"}).status for _ in range(3)] == [200] * 3
        nginx.write_conf(table="weir_table test 16m dir={prefix}/table;")
        nginx.reload()
        nginx.wait_logged(r"weir.*(16m|16777216|16 MiB|resiz)")
        assert [nginx.get("/", {"X-User": "a"}).status for _ in range(3)] == [200, 200, 429]


# ---- on, off, DOMAIN, inheritance ----

INHERIT_HTTP = """
	weir on;
	weir_headers ietf;
"""
INHERIT = """
	location /inherited { proxy_pass http://api; }
	location /off { weir off; proxy_pass http://api;
		location /off/on { weir on; proxy_pass http://api; } }
	location /domain { weir api; proxy_pass http://api; }
	location /none { weir_headers none; proxy_pass http://api;
		location /none/deeper { proxy_pass http://api; }
		location /none/x { weir_headers x; proxy_pass http://api; } }
	location /if { if ($arg_a) { add_header X-If yes; } proxy_pass http://api; }
	location /dry { weir_dry_run on; weir_headers x; proxy_pass http://api;
		location /dry/not { weir_dry_run off; proxy_pass http://api; } }
"""


@pytest.fixture(scope="module")
def inherit(_api):
    with Nginx(rules=by_user(), conf_http=INHERIT_HTTP, conf_server=INHERIT, api=_api) as server:
        yield server


@pytest.mark.parametrize("target, fields", [
    ("/inherited", "ietf"), ("/off", ""), ("/off/on", "ietf"), ("/domain", "ietf"), ("/none", ""),
    ("/none/deeper", ""), ("/if?a=1", "ietf"), ("/none/x", "x"), ("/dry/not", "x")])
def test_inheritance_of_directives(inherit, target, fields):
    """A location inherits weir and weir_headers, and may override both."""
    r = inherit.get(target, {"X-User": target})
    assert r.status == 200
    assert ("ratelimit" in r.names()) == (fields in ("ietf", "x"))
    assert ("x-ratelimit-limit" in r.names()) == (fields == "x")
    limited = target != "/off"
    assert [inherit.get(target, {"X-User": target}).status for _ in range(6)].count(429) == 2 * limited


# ---- weir_descriptor ----

def test_descriptors_from_variables(api):
    """Instead of `requests:`: one descriptor for each directive, omitted if a value is empty. A location with its own
    descriptors inherits none."""
    rules = f"""
domain: api
descriptors:
  - key: user
    rate_limit: {FIVE}
  - key: route
    value: b
    descriptors:
      - key: user
        rate_limit: {{unit: week, requests_per_unit: 2, algorithm: token_bucket}}
"""
    server = """
	weir_descriptor api user=$arg_u;
	location /a { proxy_pass http://api; }
	location /b { weir_descriptor api route=b user=$arg_u; proxy_pass http://api; }
	location /c { weir_descriptor api user=$arg_u; weir_descriptor api route=b user=$arg_u;
		proxy_pass http://api; }
	location /d { weir_descriptor api user=$arg_u$arg_v; proxy_pass http://api; }
	location /off { weir off; proxy_pass http://api; }
	"""
    with Nginx(rules=rules, conf_server=server, api=api) as nginx:
        def ask(target):
            r = nginx.get(target)
            return r.status, r.get("X-Ratelimit-Limit"), r.get("X-Ratelimit-Remaining")
        assert ask("/a?u=1") == (200, "5", "4")
        assert ask("/a") == (200, None, None)
        assert ask("/b?u=1") == (200, "2", "1")  # not `user` alone
        assert ask("/a?u=1") == (200, "5", "3")
        assert ask("/c?u=1") == (200, "2", "0")  # both; the tighter limit is reported
        assert ask("/a?u=1") == (200, "5", "1")
        assert ask("/c?u=1") == (429, "2", "0")
        assert ask("/a?u=1") == (200, "5", "0")  # the refused request took nothing
        assert ask("/a?u=1") == (429, "5", "0")
        assert ask("/d?v=1") == (429, "5", "0")  # the same value, made in another way
        assert ask("/d?u=2") == (200, "5", "4")
        assert ask("/off?u=1") == (200, None, None)


def test_descriptors_replace_requests(api):
    """A location with its own descriptors uses only those, though the domain has `requests:`."""
    server = """location / { weir_descriptor api user=fixed; proxy_pass http://api; }
	location /r { weir on; proxy_pass http://api; }"""
    with Nginx(rules=by_user(), conf_server=server, api=api) as nginx:
        assert nginx.get("/", {"X-User": "a"}).get("X-Ratelimit-Remaining") == "4"
        assert nginx.get("/", {"X-User": "b"}).get("X-Ratelimit-Remaining") == "3"
        assert nginx.get("/r", {"X-User": "fixed"}).get("X-Ratelimit-Remaining") == "2"


# ---- dry run, variables, logs ----

LOG = """
	log_format weir '$uri|$status|$weir_result|$weir_rule|$weir_limit|$weir_remaining|$weir_retry_after|'
		'$weir_delay|$weir_domain|$verdict';
	map $weir_result $verdict { REFUSED no; ADMITTED yes; DELAYED later; "~DRY_RUN$" dry; default none; }
	access_log {prefix}/access.log weir;
"""
LOGGED = """
	location / { weir on; add_header X-Verdict $verdict always; proxy_pass http://api; }
	location /dry { weir on; weir_dry_run on; add_header X-Verdict $verdict always; proxy_pass http://api; }
	location /off { proxy_pass http://api; }
"""


def test_variables_in_a_log_and_in_a_map(clock, api):
    """The clock stands still, so the wait is exact: a fifth of a week until the next token."""
    del clock
    with Nginx(rules=by_user(), conf_http=LOG, conf_server=LOGGED, api=api) as nginx:
        with nginx.client() as c:
            verdicts = [c.get("/", {"X-User": "a"}).get("X-Verdict") for _ in range(6)]
            c.get("/off", {"X-User": "a"})
            c.get("/", {})
        assert verdicts == ["yes"] * 5 + ["no"]
        lines = [line.split("|") for line in nginx.access_lines(8)]
    for left, line in zip("43210", lines):
        assert line == ["/", "200", "ADMITTED", "api/user/1w", "5", left, "-", "0.000", "api", "yes"]
    assert lines[5] == ["/", "429", "REFUSED", "api/user/1w", "5", "0", str(604800 // 5), "0.000", "api", "no"]
    assert lines[6] == ["/off", "200", "-", "-", "-", "-", "-", "-", "-", "none"]
    assert lines[7][:4] == ["/", "200", "ALLOWED", "-"]  # decided, and no limit applied


def test_dry_run_counts_and_refuses_nothing(api):
    """Requests above the limit are served and logged, and the counts are the same."""
    with Nginx(rules=by_user(), conf_http=LOG, conf_server=LOGGED, api=api) as nginx:
        with nginx.client() as c:
            seen = [c.get("/dry", {"X-User": "a"}) for _ in range(7)]
            assert [r.status for r in seen] == [200] * 7
            assert [r.get("X-Verdict") for r in seen] == ["yes"] * 5 + ["dry"] * 2
            assert not [n for r in seen for n in r.names() if "ratelimit" in n or n == "retry-after"]
            assert c.get("/", {"X-User": "a"}).status == 429
        results = [line.split("|")[2] for line in nginx.access_lines(8)]
        assert results == ["ADMITTED"] * 5 + ["REFUSED_DRY_RUN"] * 2 + ["REFUSED"]
    assert api.count("/dry") == 7


LEVELS = ["info", "notice", "warn", "error"]


def test_log_levels_of_refusals_and_delays(api):
    """A refusal is logged at the configured level (default notice), with the rule's name and the client; a delay one
    level below; an admitted request not at all. The second request to each slow location would wait for an hour: its
    client leaves when the delay is logged."""
    rules = """
domain: api
descriptors:
  - key: level
    rate_limit: {unit: week, requests_per_unit: 1, algorithm: token_bucket}
  - key: slow
    rate_limit: {unit: hour, requests_per_unit: 1, algorithm: leaky_bucket, queue_size: 3}
"""
    server = "location /default { weir_descriptor api level=default; proxy_pass http://api; }\n"
    for level in LEVELS:
        server += f"""location /{level} {{ weir_log_level {level};
		weir_descriptor api level={level}; proxy_pass http://api; }}
	location /slow/{level} {{ weir_log_level {level}; weir_descriptor api slow={level}; proxy_pass http://api; }}
	"""
    with Nginx(rules=rules, conf_server=server, api=api, log_level="debug") as nginx:
        for path in (*LEVELS, "default"):
            assert [nginx.get(f"/{path}").status for _ in range(2)] == [200, 429]
        for level in LEVELS:
            assert nginx.get(f"/slow/{level}").status == 200
            with nginx.client() as c:
                c.send("GET", f"/slow/{level}")
                nginx.wait_logged(rf'delayed by.*"GET /slow/{level} ')

        def output(level, rule, path):
            return nginx.logged(rf'\[{level}\].*{rule}.*client: 127\.0\.0\.1.*"GET {path} ')
        for level, below in zip(LEVELS, ["info", *LEVELS]):  # as with limit_req, info is the lowest
            for at in LEVELS:
                assert output(at, "api/level/1w", f"/{level}") == (at == level), (at, level)
                assert output(at, "api/slow/1h", f"/slow/{level}") == (at == below), (at, level)
        assert output("notice", "api/level/1w", "/default") == 1
