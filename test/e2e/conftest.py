"""Every test has a time limit, so that one that hangs fails and cleans up; an API server for those who
ask for it."""

import faulthandler
import signal
import sys
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from weirtest import Api, patience  # noqa: E402

TEST_SECONDS = 60


class TooLong(BaseException):
    """Not an Exception: nothing in a test or in the harness may take it for one of its own."""


@pytest.fixture(autouse=True)
def _bounded(request):
    """A mark `seconds(n)` gives a test more than TEST_SECONDS."""
    mark = request.node.get_closest_marker("seconds")
    seconds = patience(mark.args[0] if mark else TEST_SECONDS)

    def over(_signal, _frame):
        faulthandler.dump_traceback(sys.stderr)
        raise TooLong(f"{request.node.name}: not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(int(seconds))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def _api():
    with Api() as server:
        yield server


@pytest.fixture
def api(_api):
    """An API server that has seen nothing yet; one process for all tests of a file."""
    _api.reset()
    yield _api


def pytest_make_parametrize_id(config, val, argname):
    """Kilobytes of a hostile value are no name for a test."""
    del config
    return f"{argname}-of-{len(val)}" if isinstance(val, (str, bytes)) and len(val) > 80 else None


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds(n): the test may take so long")
