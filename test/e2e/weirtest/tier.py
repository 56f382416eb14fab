"""Marks for tests: `full` runs only in `make test-full`, `needs` requires capabilities of the machine."""

import pytest

from .env import machine


def needs(*capabilities):
    """Skips the test on a machine that lacks one of these capabilities of tools/machine.py. The reason names the
    capability."""
    unknown = set(capabilities) - set(machine.CAPABILITIES)
    assert not unknown, f"no capability {unknown}; there are: {' '.join(machine.CAPABILITIES)}"
    missing = [machine.CAPABILITIES[c][0] for c in capabilities if machine.is_missing(c)]
    return pytest.mark.skipif(bool(missing), reason=", ".join(missing))


def full(reason):
    """The test runs only in `make test-full`, because of `reason`: it takes long, or it measures real time."""
    return pytest.mark.full(reason)
