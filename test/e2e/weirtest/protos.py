"""Messages of the tree's .proto files, parsed by Google's protobuf."""

import functools
import subprocess

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from .env import ROOT

FILES = ["envoy/service/ratelimit/v3/rls.proto", "grpc/health/v1/health.proto",
         "grpc/reflection/v1/reflection.proto", "grpc/reflection/v1alpha/reflection.proto",
         "kuadrant/service/ratelimit/v1/kuadrantrls.proto", "weir/v1/reservations.proto"]


@functools.cache
def descriptors():
    """Returns the FileDescriptorSet that protoc makes of our files and their imports."""
    made = subprocess.run(["protoc", f"-I{ROOT}/proto", "--include_imports",
                           "--descriptor_set_out=/dev/stdout", *FILES],
                          capture_output=True, check=True, cwd=ROOT / "proto").stdout
    return descriptor_pb2.FileDescriptorSet.FromString(made)


def pool_of(files):
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return pool


@functools.cache
def _pool():
    return pool_of(descriptors().file)


@functools.cache
def message(name):
    """Returns the class of a message: message("envoy.service.ratelimit.v3.RateLimitRequest")."""
    return message_factory.MessageFactory(_pool()).GetPrototype(_pool().FindMessageTypeByName(name))


Request = message("envoy.service.ratelimit.v3.RateLimitRequest")
Response = message("envoy.service.ratelimit.v3.RateLimitResponse")
ReserveRequest = message("kuadrant.service.ratelimit.v1.ReserveRequest")
ReserveResponse = message("kuadrant.service.ratelimit.v1.ReserveResponse")
CommitRequest = message("kuadrant.service.ratelimit.v1.CommitRequest")
CommitResponse = message("kuadrant.service.ratelimit.v1.CommitResponse")
SettleRequest = message("weir.v1.SettleRequest")
SettleResponse = message("weir.v1.SettleResponse")
HealthRequest = message("grpc.health.v1.HealthCheckRequest")
HealthResponse = message("grpc.health.v1.HealthCheckResponse")
HealthList = message("grpc.health.v1.HealthListResponse")
ReflectionRequest = message("grpc.reflection.v1.ServerReflectionRequest")
ReflectionResponse = message("grpc.reflection.v1.ServerReflectionResponse")


def descriptor(request, *entries, hits=None, negative=False, limit=None):
    """Adds a descriptor of (key, value)s to a request."""
    added = request.descriptors.add()
    for key, value in entries:
        added.entries.add(key=key, value=value)
    if hits is not None:
        added.hits_addend.value = hits
    added.is_negative_hits = negative
    if limit:
        added.limit.requests_per_unit, added.limit.unit = limit
    return request


def request(domain, *entries, **kwargs):
    """Returns a RateLimitRequest with one descriptor."""
    return descriptor(Request(domain=domain), *entries, **kwargs)
