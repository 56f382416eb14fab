"""Waiting for conditions instead of sleeping."""

import time

from . import env


def wait_for(condition, what, seconds=20, every=0.01):
    """Calls `condition` until it returns a true value, and returns that value. Raises AssertionError with `what` after
    `seconds` (more under a wrapper)."""
    deadline = time.monotonic() + env.patience(seconds)
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {env.patience(seconds)} s in vain for: {what}")
        time.sleep(every)
