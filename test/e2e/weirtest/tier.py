"""Which tests run where: `full` for those that only `make test-full` runs, `needs` for those that a machine may not allow."""

import pytest

from .env import machine


def needs(*capabilities):
    """Skips the test, with a reason that names it, where the machine lacks one of tools/machine.py's capabilities."""
    unknown = set(capabilities) - set(machine.CAPABILITIES)
    assert not unknown, f"no capability {unknown}; there are: {' '.join(machine.CAPABILITIES)}"
    missing = [machine.CAPABILITIES[c][0] for c in capabilities if machine.is_missing(c)]
    return pytest.mark.skipif(bool(missing), reason=", ".join(missing))


def full(reason):
    """The test runs in `make test-full` only; `reason` says why: real time is its subject, or it takes long."""
    return pytest.mark.full(reason)
