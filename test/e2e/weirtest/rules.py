"""Rules that many tests use."""

# Five requests, and within a test no sixth: a bucket has no window edge that a test could straddle,
# and the next token is 33 hours away.
FIVE = "{unit: week, requests_per_unit: 5, algorithm: token_bucket}"


def by_user(limit=FIVE, domain="api"):
    """Rules with one limit for each value of the header field X-User."""
    return f"""\
domain: {domain}
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {limit}
"""
