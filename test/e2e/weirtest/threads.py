"""Halts some threads of a process while the others run. Needs the capability `ptrace`."""

import contextlib
import ctypes
import os

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17  # ptrace requests
_WALL = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def threads_of(pid):
    return set(map(int, os.listdir(f"/proc/{pid}/task")))


def _ptrace(request, thread):
    if _libc.ptrace(request, thread, None, None) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@contextlib.contextmanager
def halted(threads):
    """Halts these threads within the block."""
    seized = []
    try:
        for thread in threads:
            _ptrace(_SEIZE, thread)
            seized.append(thread)
            _ptrace(_INTERRUPT, thread)
            os.waitpid(thread, _WALL)
        yield
    finally:
        for thread in seized:
            _ptrace(_DETACH, thread)
