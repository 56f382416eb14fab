"""Rules that many tests use."""

# Five requests are admitted, and no sixth within a test. A token bucket has no window that could end during a test, and
# the next token comes after 33 hours.
FIVE = "{unit: week, requests_per_unit: 5, algorithm: token_bucket}"


def by_user(limit=FIVE, domain="api"):
    """Returns rules with one limit for each value of the header field X-User."""
    return f"""\
domain: {domain}
requests:
  - descriptor: [{{key: user, from: header.x-user}}]
descriptors:
  - key: user
    rate_limit: {limit}
"""
