#!/usr/bin/python3
"""libweir-client from Python with ctypes. Does the same as get.c.

  client.py [-c CACHE] URL…     loads the URLs one after the other and prints each status

$WEIR_CLIENT_LIB is the library to load (default libweir-client.so.0).
"""

import ctypes as c
import os
import sys

lib = c.CDLL(os.environ.get("WEIR_CLIENT_LIB", "libweir-client.so.0"))

EVENT_WAIT = 1
CACHES = ("", ", from the cache", ", confirmed")


# The structs of weir/error.h and client.h. The library finds out from `size` which fields a struct has.
class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 508)]


class Event(c.Structure):
    _fields_ = [("kind", c.c_uint32), ("reason", c.c_uint32), ("attempt", c.c_uint32), ("status", c.c_uint32),
                ("wait_ns", c.c_uint64), ("host", c.c_char_p), ("text", c.c_char_p), ("context", c.c_void_p)]


OnEvent = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(Event))


class Opts(c.Structure):
    _fields_ = [("size", c.c_uint32), ("flags", c.c_uint32), ("user_agent", c.c_char_p), ("cache_dir", c.c_char_p),
                ("cache_bytes", c.c_uint64), ("table", c.c_char_p), ("table_dir", c.c_char_p),
                ("attempts", c.c_uint32), ("per_host", c.c_uint32), ("transfers", c.c_uint32),
                ("redirects", c.c_uint32), ("connect_ns", c.c_uint64), ("attempt_ns", c.c_uint64),
                ("deadline_ns", c.c_uint64), ("rate_count", c.c_uint32), ("reserved", c.c_uint32),
                ("rate_ns", c.c_uint64), ("body_bytes", c.c_uint64), ("ca_file", c.c_char_p), ("seed", c.c_uint64),
                ("on_event", OnEvent), ("context", c.c_void_p)]


class Field(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_char_p)]


class Request(c.Structure):
    _fields_ = [("size", c.c_uint32), ("flags", c.c_uint32), ("method", c.c_char_p), ("url", c.c_char_p),
                ("fields", c.POINTER(Field)), ("field_count", c.c_size_t), ("body", c.c_char_p),
                ("body_len", c.c_size_t), ("on_body", c.c_void_p), ("context", c.c_void_p),
                ("deadline_ns", c.c_uint64), ("offset", c.c_uint64), ("validator", c.c_char_p)]


class Response(c.Structure):
    _fields_ = [("size", c.c_uint32), ("status", c.c_uint32), ("code", c.c_int), ("cache", c.c_uint32),
                ("attempts", c.c_uint32), ("refusals", c.c_uint32), ("redirects", c.c_uint32),
                ("given_up", c.c_uint32), ("waited_ns", c.c_uint64), ("url", c.c_char_p),
                ("fields", c.POINTER(Field)), ("field_count", c.c_size_t), ("body", c.c_void_p),
                ("body_len", c.c_size_t), ("context", c.c_void_p), ("text", c.c_char_p)]


# Without these declarations ctypes truncates pointers to 32 bits.
lib.weir_client_open.argtypes = [c.POINTER(Opts), c.POINTER(c.c_void_p), c.POINTER(Error)]
lib.weir_client_send.argtypes = [c.c_void_p, c.POINTER(Request), c.POINTER(c.POINTER(Response)), c.POINTER(Error)]
lib.weir_client_close.argtypes = [c.c_void_p]
lib.weir_client_close.restype = None
lib.weir_response_free.argtypes = [c.POINTER(Response)]
lib.weir_response_free.restype = None


class Answer:
    """A response whose values belong to Python."""

    def __init__(self, response):
        self.status, self.attempts, self.refusals = response.status, response.attempts, response.refusals
        self.waited_s = response.waited_ns / 1e9
        self.cache = response.cache
        self.url = response.url.decode()
        self.fields = [(response.fields[i].name.decode("latin-1"), response.fields[i].value.decode("latin-1"))
                       for i in range(response.field_count)]
        self.body = c.string_at(response.body, response.body_len) if response.body else b""


class Client:
    """A client that respects rate limits. Threads may share it."""

    def __init__(self, on_event=None, **opts):
        self.on_event = OnEvent(lambda _, event: on_event(event.contents)) if on_event else OnEvent()
        opts = Opts(size=c.sizeof(Opts), on_event=self.on_event, **opts)
        self.handle = c.c_void_p()
        error = Error()
        if lib.weir_client_open(opts, self.handle, error) < 0:
            raise OSError(error.text.decode())

    def send(self, url, method="GET", headers=(), body=b"", flags=0):
        """Returns an Answer, whatever its status is. Raises OSError if there is no response."""
        fields = (Field * len(headers))(*[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers])
        request = Request(size=c.sizeof(Request), flags=flags, method=method.encode(), url=url.encode(), fields=fields,
                          field_count=len(headers), body=body, body_len=len(body))
        response, error = c.POINTER(Response)(), Error()
        code = lib.weir_client_send(self.handle, request, response, error)
        try:
            if code < 0:
                raise OSError(error.text.decode(errors="replace"))
            return Answer(response.contents)
        finally:
            lib.weir_response_free(response)

    def close(self):
        lib.weir_client_close(self.handle)


def show_wait(event):
    if event.kind == EVENT_WAIT:
        print(f"{event.host.decode()}: waits, {event.text.decode()}", flush=True)


def main(words):
    opts = {}
    if words[:1] == ["-c"]:
        opts["cache_dir"], words = words[1].encode(), words[2:]
    client = Client(show_wait, user_agent=b"client-demo/1.0", deadline_ns=60 * 10**9, **opts)
    failed = 0
    for url in words:
        try:
            answer = client.send(url)
        except OSError as e:
            print(f"{url}: {e}", flush=True)
            failed = 1
            continue
        print(f"{url}: {answer.status}, {len(answer.body)} bytes, {answer.attempts} attempts{CACHES[answer.cache]}", flush=True)
        failed |= answer.status >= 400
    client.close()
    return failed


if __name__ == "__main__":
    try:
        sys.exit(int(main(sys.argv[1:])))
    except (IndexError, OSError) as e:
        sys.exit(f"client.py: {e}")
