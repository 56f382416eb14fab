"""weir gateway --trust: proxies that may set the client's address."""

import json

from weirtest import fetch
from weirtest.gateway import Gateway


def fields_of(response):
    """Returns the header fields that the API received, in lower case, from a response to `?echo=1`."""
    return {k.lower(): v for k, v in json.loads(response.body)["headers"]}


def test_without_trust_the_address_is_that_of_the_peer(api):
    with Gateway(api.port) as gateway:
        statuses = [gateway.get("/few/a", {"X-Forwarded-For": f"192.0.2.{i}"}).status
                    for i in range(4)]
        assert statuses == [200, 200, 429, 429]


def test_trusted_proxy_sets_the_address(api):
    with Gateway(api.port, "--trust", "127.0.0.1") as gateway:
        statuses = [gateway.get("/few/a", {"X-Forwarded-For": f"192.0.2.{i // 3}"}).status
                    for i in range(6)]
        assert statuses == [200, 200, 429] * 2
        got = fields_of(gateway.get("/?echo=1", {
            "X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https",
            "X-Forwarded-Host": "shop.example", "X-Request-Id": "abc-123"}))
        assert got["x-real-ip"] == "192.0.2.9"
        assert got["x-forwarded-for"] == "192.0.2.9, 127.0.0.1"
        assert got["x-forwarded-proto"] == "https"
        assert got["x-forwarded-host"] == "shop.example"
        assert got["x-request-id"] == "abc-123"


def test_untrusted_proxy_is_ignored(api):
    """127.0.0.2 is not trusted: its forwarding fields are removed."""
    with Gateway(api.port, "--trust", "127.0.0.1") as gateway:
        forged = {"X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https",
                  "X-Forwarded-Host": "evil", "X-Request-Id": "mine"}
        got = fields_of(fetch(gateway.port, target="/?echo=1", headers=forged, source="127.0.0.2"))
        assert got["x-real-ip"] == got["x-forwarded-for"] == "127.0.0.2"
        assert got["x-forwarded-proto"] == "http"
        assert got["x-forwarded-host"] == "localhost"
        assert got["x-request-id"] != "mine"


def test_addresses_left_of_the_last_untrusted_hop_are_ignored(api):
    """The chain is read from the right, as long as the proxies are trusted."""
    with Gateway(api.port, "--trust", "127.0.0.1,10.0.0.0/8") as gateway:
        got = fields_of(gateway.get("/?echo=1", {"X-Forwarded-For": "6.6.6.6, 192.0.2.9, 10.1.2.3"}))
        assert got["x-real-ip"] == "192.0.2.9"
        assert got["x-forwarded-for"] == "192.0.2.9, 10.1.2.3, 127.0.0.1"


SAID = [
    ("192.0.2.9", "192.0.2.9, 127.0.0.1"),
    ("6.6.6.6, 192.0.2.9", "192.0.2.9, 127.0.0.1"),
    ("192.0.2.9, 6.6.6.6, 192.0.2.9,10.1.2.3 , 10.1.2.4", "192.0.2.9,10.1.2.3 , 10.1.2.4, 127.0.0.1"),
    ("1192.0.2.9, 192.0.2.90, 192.0.2.9", "192.0.2.9, 127.0.0.1"),
    ("192.0.2.9, evil, 192.0.2.9:4711, 10.1.2.3", "192.0.2.9:4711, 10.1.2.3, 127.0.0.1"),
    ("2001:DB8::7, evil, [2001:DB8::7]:4711", "[2001:DB8::7]:4711, 127.0.0.1"),
    ("10.1.2.3", "10.1.2.3, 127.0.0.1"),  # a trusted proxy sends its own request
    ("6.6.6.6, evil, 10.1.2.3", "10.1.2.3, 127.0.0.1"),
    ("evil", "127.0.0.1"),
    ("", "127.0.0.1"),
    ("2001:db8:0::7, 6.6.6.6, 2001:db8:0::7", "2001:db8::7, 127.0.0.1"),  # not as nginx writes it
    ("127.0.0.1|192.0.2.9, 6.6.6.6", "6.6.6.6, 127.0.0.1"),
]


def test_forwarded_for_begins_with_the_address_of_the_client(api):
    """Addresses to the left of it come from the client. An API that uses the first address would use a forged one."""
    with Gateway(api.port, "--trust", "127.0.0.1,10.0.0.0/8") as gateway:
        for output, passed_on in SAID:
            got = fields_of(gateway.get("/?echo=1", {"X-Forwarded-For": output}))
            assert (output, got["x-forwarded-for"]) == (output, passed_on)


def test_invalid_fields_of_a_trusted_proxy_are_replaced(api):
    """An invalid address, scheme, host or id of a trusted proxy is replaced by the gateway's own value."""
    with Gateway(api.port, "--trust", "127.0.0.1") as gateway:
        got = fields_of(gateway.get("/?echo=1", {
            "X-Forwarded-For": "not an address", "X-Forwarded-Proto": "javascript",
            "X-Forwarded-Host": "a b<c>", "X-Request-Id": "x" * 200}))
        assert got["x-real-ip"] == "127.0.0.1"
        assert got["x-forwarded-proto"] == "http"
        assert got["x-forwarded-host"] == "localhost"
        assert len(got["x-request-id"]) == 32


def test_trusted_proxy_on_a_unix_socket(api, tmp_path):
    path = str(tmp_path / "gateway.sock")
    with Gateway(api.port, "--listen", f"unix:{path}", "--trust", "unix:"):
        got = fields_of(fetch(path, target="/?echo=1", headers={"X-Forwarded-For": "192.0.2.9"}))
        assert got["x-real-ip"] == "192.0.2.9"
        assert got["x-forwarded-for"] == "192.0.2.9, unix:"
