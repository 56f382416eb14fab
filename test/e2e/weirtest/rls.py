"""A client of Envoy's rate limit service on grpcio. It encodes RateLimitRequest by itself."""

import os

# An idle channel of grpcio reads its connection at this interval, 5 s by default. A GOAWAY is noticed no earlier.
os.environ.setdefault("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "100")

import grpc  # noqa: E402

from . import env  # noqa: E402

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
HEALTH = "/grpc.health.v1.Health/Check"
WATCH = "/grpc.health.v1.Health/Watch"
OK, OVER = 1, 2
SERVING, NOT_SERVING = 1, 2


def _field(number, data):
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def question(domain, *entries, hits=None):
    """Returns the bytes of a request with one descriptor of these (key, value) pairs."""
    descriptor = b"".join(
        _field(1, _field(1, key.encode()) + _field(2, value.encode())) for key, value in entries)
    data = _field(1, domain.encode()) + _field(2, descriptor)
    return data + (b"" if hits is None else bytes([3 << 3, hits]))


def _same(data):
    return data


class Rls:
    """A channel: `ask` returns the overall code, `health` the status of Check."""

    def __init__(self, target, credentials=None, options=()):
        if isinstance(target, int):
            target = f"127.0.0.1:{target}"
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        self.channel = (grpc.secure_channel(target, credentials, options) if credentials
                        else grpc.insecure_channel(target, options))
        self._ask = self.channel.unary_unary(METHOD, _same, _same)
        self._health = self.channel.unary_unary(HEALTH, _same, _same)
        self._watch = self.channel.unary_stream(WATCH, _same, _same)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def ask_raw(self, data, timeout=env.patience(20)):
        return self._ask(data, timeout=timeout)

    def ask(self, domain, *entries, hits=None, timeout=env.patience(20)):
        answer = self._ask(question(domain, *entries, hits=hits), timeout=timeout)
        assert answer[0] == 1 << 3, answer
        return answer[1]

    def answers(self, *args, **kwargs):
        """Returns a function for wait_for that asks, and returns None if there was no response: the service may close
        the connection before the request is sent."""
        def ask():
            try:
                return self.ask(*args, **kwargs)
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE, error
                return None
        return ask

    def begin(self, domain, *entries, timeout=env.patience(60)):
        """Starts a request. Returns a grpc.Future."""
        return self._ask.future(question(domain, *entries), timeout=timeout)

    def health(self, service="ratelimit", timeout=env.patience(20)):
        answer = self._health(_field(1, service.encode()) if service else b"", timeout=timeout)
        return answer[1] if answer else 0

    def watch(self, service="ratelimit", timeout=env.patience(30)):
        """Yields each status as it arrives."""
        for answer in self._watch(_field(1, service.encode()), timeout=timeout):
            yield answer[1] if answer else 0
