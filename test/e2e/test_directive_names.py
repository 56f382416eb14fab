"""Directives that would be taken and then do nothing are refused by nginx -t."""

import pytest
from weirtest import by_user, check_conf


@pytest.mark.parametrize("names", ["Remote-User,X-User", "$arg_user", '""', "Remote_User", "Remote-User:",
                                   "Remote-User ''"])
def test_names_that_no_field_has(names):
    code, output = check_conf(f"weir on; weir_auth_headers {names};", rules=by_user())
    assert code == 1, output
    assert 'of "weir_auth_headers" is not the name of a header field' in output


def test_names_that_fields_have():
    code, output = check_conf("weir on; weir_auth_headers Remote-User X-3scale-ID;", rules=by_user())
    assert code == 0, output


def test_a_descriptor_that_is_always_left_out():
    code, output = check_conf("weir_descriptor api user=;", rules=by_user())
    assert code == 1, output
    assert '"user=" of "weir_descriptor" has no value' in output
