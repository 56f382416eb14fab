"""Directives that would have no effect are refused by nginx -t."""

import re

import pytest
from weirtest import Nginx, by_user, check_conf


@pytest.mark.parametrize("names", ["Remote-User,X-User", "$arg_user", '""', "Remote_User", "Remote-User:",
                                   "Remote-User ''"])
def test_invalid_header_names_are_refused(names):
    code, output = check_conf(f"weir on; weir_auth_headers {names};", rules=by_user())
    assert code == 1, output
    assert "invalid header name" in output and 'of "weir_auth_headers"' in output


def test_valid_header_names_are_accepted():
    code, output = check_conf("weir on; weir_auth_headers Remote-User X-3scale-ID;", rules=by_user())
    assert code == 0, output


def test_descriptor_that_is_always_empty_is_refused():
    code, output = check_conf("weir_descriptor api user=;", rules=by_user())
    assert code == 1, output
    assert '"user=" of "weir_descriptor" has no value' in output


# Arguments that are read once: name, location in the configuration, text with a variable.
LITERAL = [
    ("weir_auth", "server", "weir on; weir_auth /_auth?u=$arg_u;", "/_auth?u=$arg_u"),
    ("weir_auth", "server", "weir on; weir_auth /$host;", "/$host"),
    ("weir", "server", "weir $host;", "$host"),
    ("weir_descriptor", "server", "weir_descriptor $host user=$arg_u;", "$host"),
    ("weir_descriptor", "server", "weir_descriptor api $arg_k=$arg_u;", "$arg_k"),
    ("weir_central", "http", "weir_central unix:/run/$hostname.sock;", "unix:/run/$hostname.sock"),
    ("weir_queue", "http", "weir_queue unix:/run/weir.sock tickets=/$host/;", "tickets=/$host/"),
    ("weir_queue", "http", "weir_queue unix:/run/${hostname};", "unix:/run/${hostname}"),
    ("weir_link_key", "http", "weir_link_key /$hostname;", "/$hostname"),
]


@pytest.mark.parametrize("directive,block,conf,text", LITERAL)
def test_variable_in_a_constant_argument_is_refused(directive, block, conf, text):
    server, http = (conf, "") if block == "server" else ("", conf)
    code, output = check_conf(server, http=http, rules=by_user())
    assert code == 1, output
    assert f'"{text}" of "{directive}" has a variable, but this argument must be plain text' in output


# ---- weir_auth where weir is off ----

AUTH = "location = /_auth { internal; }"

# name: (server, http, the name in the message, the line of its directive counted from the line before the server's)
IDLE = {
    "beside weir off": ("location /x { weir off;\nweir_auth /_auth; }", "", 'location "/x"', 1),
    "without weir": ("location /x {\nweir_auth /_auth; }", "", 'location "/x"', 2),
    "of the server, weir off in a location": (
        "weir on; weir_auth /_auth;\nlocation / { }\nlocation /x { weir off; }", "", 'location "/x"', 3),
    "of the server, a location without weir": ("weir_auth /_auth;\nlocation / { }", "", 'location "/"', 1),
    "of the server, and no location": ("weir_auth /_auth;", "", "a server", 1),
    "of the server, some locations": ("weir_auth /_auth;\nlocation /x { weir on; }", "", "a server", 1),
    "of http, weir off in a server": ("weir off;\nlocation / { }", "weir on; weir_auth /_auth;", 'location "/"', 1),
    "in a named location": ("location @x { weir off; weir_auth /_auth; }", "", 'location "@x"', 1),
    "of a location around": (
        "location /x { weir on; weir_auth /_auth;\nlocation /x/y { weir off; } }", "", 'location "/x/y"', 2),
    "inherited by an open folder of the service's name": (
        "weir on; weir_auth /_auth/ask;\nlocation / { }\nlocation /_auth { weir off; }", "", 'location "/_auth"', 3),
}


@pytest.mark.parametrize("name", IDLE)
def test_weir_auth_without_effect_is_refused(name):
    """The location would be open: the error names the location, the line and the remedy."""
    server, http, block, line = IDLE[name]
    with Nginx(conf_server="# here\n" + server, conf_http=http, rules=by_user(), start=False) as nginx:
        first = nginx.conf.read_text().split("# here\n")[0].count("\n") + 1
        code, output = nginx.run("-t")
        assert code == 1, output
        assert re.search(rf'\[emerg\] "weir_auth /_auth(/ask)?" has no effect in {block}, where weir is off: '
                         rf'add "weir on", or "weir_auth off" if it needs no authentication '
                         rf"in {nginx.conf}:{first + line}\n", "".join(output)), output


def test_weir_auth_without_rules_is_refused():
    code, output = check_conf("location / { weir_auth /_auth; }")
    assert code == 1, output
    assert '"weir_auth /_auth" has no effect in location "/", where weir is off: add "weir on" and "weir_rules" ' \
        'in http, or "weir_auth off"' in output


@pytest.mark.parametrize("server", [
    "weir_auth /_auth; location / { weir on; } " + AUTH.replace("internal;", "internal; weir off;"),
    "weir_auth /_auth; location / { weir_descriptor api user=$arg_u; }",
    "weir on; weir_auth /_auth; location / { } location /x { weir off; weir_auth off; }",
    "weir on; weir_auth /_auth; location / { } location = /_auth { weir off; }",
    "weir on; weir_auth /_auth/ask; location / { } location /_auth/ { internal; weir off; }",
    "weir on; weir_auth /_auth; location / { if ($arg_a) { set $b 1; } limit_except GET { deny all; } }",
    "weir off; weir_auth /_auth; location / { weir on; }",
    "weir_auth off;"])
def test_weir_auth_with_effect_is_accepted(server):
    """weir_auth is accepted if weir is on, or weir_auth is off, in every location that has or inherits it."""
    code, output = check_conf(server, rules=by_user())
    assert code == 0, output
