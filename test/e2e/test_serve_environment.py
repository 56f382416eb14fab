"""weir serve and the environment variables of envoyproxy/ratelimit, value by value."""

import pytest

from weirtest.serve import Serve

RULES = "{domain: rl, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}\n"


def laid_out(**variables):
    """Returns a service that is configured by the variables of envoyproxy/ratelimit and not started yet."""
    serve = Serve(start=False, args=["--resp", "off"])
    (serve.folder / "config").mkdir()
    (serve.folder / "config" / "rl.yaml").write_text(RULES)
    serve.addresses = {"grpc": "off", "http": "off", "admin": "unix:" + str(serve.folder / "a")}
    serve.variables = {"RUNTIME_ROOT": str(serve.folder), **variables}
    return serve


@pytest.mark.parametrize("spelling, on", [("true", True), ("True", True), ("T", True), ("1", True),
                                          ("FALSE", False), ("f", False), ("0", False)])
def test_boolean_spellings_of_the_reference(spelling, on):
    """Every spelling of true and false that envoyproxy/ratelimit accepts is accepted."""
    with laid_out(SHADOW_MODE=spelling, RESPONSE_DYNAMIC_METADATA=spelling,
                  GRPC_SERVER_USE_TLS="False") as serve:
        serve.start()
        assert ("shadow mode" in serve.log()) == on


@pytest.mark.parametrize("name", ["SHADOW_MODE", "GRPC_SERVER_USE_TLS", "LIMIT_RESPONSE_HEADERS_ENABLED"])
def test_invalid_boolean_prevents_the_start(name):
    with laid_out(**{name: "maybe"}) as serve:
        code, text = serve.run()
        assert code == 2 and f"{name}=maybe is neither true nor false" in text


@pytest.mark.parametrize("name", ["a b", "x:", "é"])
def test_invalid_header_name_prevents_the_start(name):
    with laid_out(LIMIT_RESPONSE_HEADERS_ENABLED="true", LIMIT_RESET_HEADER=name) as serve:
        code, text = serve.run()
        assert code == 1 and f"--reset-header '{name}' is not a valid header field name" in text
