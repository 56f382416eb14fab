"""Every test has a time limit, so that one that hangs fails and cleans up; an API server for those who
ask for it."""

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

# How long this file may take in all; ctest kills it a minute later, so that the tests always end by themselves first.
FILE_ENDS = time.monotonic() + float(os.environ.get("WEIR_FILE_SECONDS") or 86400)


# When ctest dies, this process gets TERM, and the keeper ends all that the tests have started.
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class TooLong(BaseException):
    """Not an Exception: nothing in a test or in the harness may take it for one of its own."""


@pytest.fixture(autouse=True)
def _bounded(request):
    """A mark `seconds(n)` gives a test more than TEST_SECONDS; no test goes on when its file's time is up."""
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
    """pytest's own, which it closes to other users: what root starts is one of those, and has to pass through."""
    if os.geteuid() == 0:
        for folder in (tmp_path, *list(tmp_path.parents)[:2]):
            folder.chmod(0o711)
    return tmp_path


@pytest.fixture(scope="module")
def _api(request):
    """A file that sets API = Orders gets an order server instead."""
    with getattr(request.module, "API", Api)() as server:
        yield server


@pytest.fixture
def api(_api):
    """An API server that has seen nothing yet; one process for all tests of a file."""
    _api.reset()
    yield _api


@pytest.fixture(scope="module", autouse=True)
def _file_clock():
    """Each file begins at the same time of the same day; see weirtest/clock.py."""
    with Clock() as running:
        running.run()
        yield


@pytest.fixture
def clock():
    """A wall clock that stands still until the test moves it, for all that the test starts."""
    with Clock() as moved:
        yield moved


def pytest_make_parametrize_id(config, val, argname):
    """Kilobytes of a hostile value are no name for a test."""
    del config
    return f"{argname}-of-{len(val)}" if isinstance(val, (str, bytes)) and len(val) > 80 else None


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds(n): the test may take so long")
    config.addinivalue_line("markers", "full(reason): only `make test-full` runs it")


def pytest_terminal_summary(terminalreporter):
    """Names each skipped test, for tools/test."""
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
