"""A time limit for every test, so that a test that hangs fails and cleans up. An `api` fixture with an API server."""

import ctypes
import faulthandler
import os
import signal
import sys
import time
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from weirtest import Api, Clock, patience  # noqa: E402

TEST_SECONDS = 60

# The time limit of the whole file. ctest kills it a minute later, so the tests always end by themselves first.
FILE_ENDS = time.monotonic() + float(os.environ.get("WEIR_FILE_SECONDS") or 86400)


# When ctest dies, this process gets SIGTERM. The cleanup process then ends all processes that the tests have started.
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class TooLong(BaseException):
    """Not an Exception, so that no `except Exception` in a test or in the harness catches it."""


@pytest.fixture(autouse=True)
def _bounded(request):
    """Limits each test to TEST_SECONDS, or to the n of a mark `seconds(n)`, and to the rest of its file's time."""
    mark = request.node.get_closest_marker("seconds")
    seconds = min(patience(mark.args[0] if mark else TEST_SECONDS), FILE_ENDS - time.monotonic())

    def over(_signal, _frame):
        faulthandler.dump_traceback(sys.stderr)
        raise TooLong(f"{request.node.name}: not done after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(max(int(seconds), 1))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def tmp_path(tmp_path):
    """pytest's tmp_path, which only its owner may enter. Programs that root starts run as other users and must pass
    through."""
    if os.geteuid() == 0:
        for folder in (tmp_path, *list(tmp_path.parents)[:2]):
            folder.chmod(0o711)
    return tmp_path


@pytest.fixture(scope="module")
def _api(request):
    """Starts the API server of a file: an order server if the file sets API = Orders."""
    with getattr(request.module, "API", Api)() as server:
        yield server


@pytest.fixture
def api(_api):
    """An API server without records; all tests of a file share its process."""
    _api.reset()
    yield _api


@pytest.fixture(scope="module", autouse=True)
def _file_clock():
    """A running clock for each file, which begins at the same time of the same day; see weirtest/clock.py."""
    with Clock() as running:
        running.run()
        yield


@pytest.fixture
def clock():
    """A wall clock that stands still until the test moves it, for all processes that the test starts."""
    with Clock() as moved:
        yield moved


def pytest_make_parametrize_id(config, val, argname):
    """Shortens the test id of a parameter of more than 80 characters."""
    del config
    return f"{argname}-of-{len(val)}" if isinstance(val, (str, bytes)) and len(val) > 80 else None


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds(n): the test may take so long")
    config.addinivalue_line("markers", "full(reason): only `make test-full` runs it")


def pytest_terminal_summary(terminalreporter):
    """Lists each skipped test, for tools/test."""
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        terminalreporter.write_line(f"skipped: {report.nodeid.partition('::')[2]}: {reason}")


def pytest_collection_modifyitems(config, items):
    """WEIR_TIER=test leaves out the tests marked `full`."""
    if os.environ.get("WEIR_TIER") != "test":
        return
    later = [item for item in items if item.get_closest_marker("full")]
    if later:
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in later]
