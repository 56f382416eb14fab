#!/usr/bin/python3
"""Bytes that tests in C rely on, made and read by Google's protoc from our .proto files.

test_golden.py PROTO_FOLDER
"""

import subprocess
import sys

REQUEST = "envoy.service.ratelimit.v3.RateLimitRequest"
RESPONSE = "envoy.service.ratelimit.v3.RateLimitResponse"
RLS = "envoy/service/ratelimit/v3/rls.proto"
HEALTH = "grpc/health/v1/health.proto"

# type, file, text, bytes
GOLDEN = [
    (REQUEST, RLS,
     'domain: "rl" descriptors { entries { key: "foo" value: "bar" } }',
     "0a02726c120c0a0a0a03666f6f1203626172"),
    (RESPONSE, RLS, "overall_code: OK statuses { code: OK }", "080112020801"),
    (RESPONSE, RLS,
     "overall_code: OK statuses { code: OK current_limit { requests_per_unit: 10 unit: MINUTE }"
     " limit_remaining: 9 duration_until_reset { seconds: 58 } }",
     "0801120e08011204080a100218092202083a"),
    (REQUEST, RLS,
     'domain: "rl" descriptors { entries { key: "a" value: "b" } limit { requests_per_unit: 7'
     " unit: DAY } hits_addend { value: 0 } is_negative_hits: true } hits_addend: 3",
     "0a02726c12120a060a01611201621204080710041a0020011803"),
    ("grpc.health.v1.HealthCheckRequest", HEALTH, 'service: "ratelimit"',
     "0a09726174656c696d6974"),
    ("grpc.health.v1.HealthListResponse", HEALTH,
     'statuses { key: "" value { status: SERVING } }'
     ' statuses { key: "ratelimit" value { status: SERVING } }',
     "0a060a00120208010a0f0a09726174656c696d697412020801"),
]


def protoc(folder, how, kind, file, data):
    return subprocess.run(["protoc", f"-I{folder}", f"--{how}={kind}", file], input=data,
                          capture_output=True, check=True).stdout


def main(folder):
    bad = 0
    for kind, file, text, hexed in GOLDEN:
        made = protoc(folder, "encode", kind, file, text.encode()).hex()
        read = protoc(folder, "decode", kind, file, bytes.fromhex(hexed))
        again = protoc(folder, "encode", kind, file, read).hex()
        if made != hexed or again != hexed:
            bad += 1
            print(f"{kind}\n  {text}\n  expected {hexed}\n  protoc   {made}\n  again    {again}")
    print(f"{len(GOLDEN) - bad} of {len(GOLDEN)} as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
