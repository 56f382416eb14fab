"""HTTP/2 and HPACK by the RFCs: the 146 cases of h2spec, at the gRPC port."""

import pytest

from weirtest import patience
from weirtest.h2cases import CASES, holds
from weirtest.serve import Serve

RULES = """
domain: rl
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1000000}}
"""


@pytest.fixture(scope="module")
def serve():
    with Serve(rules=RULES, grpc=True) as one:
        yield one
        assert one.process.poll() is None


def test_all_cases_of_h2spec_are_present():
    assert len(CASES) == 146 == len({case.section for case in CASES})


@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("case", CASES, ids=[case.section for case in CASES])
def test_case(serve, case, together):
    """The frames arrive one by one, and all in one piece."""
    assert holds(case, serve.grpc_port, patience(20), together), case.title
