"""A web app that runs in several instances. Each instance asks weir about each request, and weir counts the requests of
all instances together."""

import json
import os
import urllib.request

from flask import Flask, g, jsonify, request

WEIR = os.environ.get("WEIR", "http://127.0.0.1:8082")
NAME = os.environ.get("NAME", "app")

app = Flask(__name__)


def ask(user):
    """Returns weir's decision about one more request of this user."""
    question = {"domain": "flask", "descriptors": [{"entries": [{"key": "user", "value": user}]}]}
    asked = urllib.request.Request(f"{WEIR}/v1/check", json.dumps(question).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=1) as answer:
        return json.load(answer)


@app.before_request
def limit():
    # The demo trusts the header. In production use the user of the session or of a verified token.
    user = request.headers.get("X-User-Id") or request.remote_addr
    try:
        g.decision = ask(user)
    except OSError as e:
        app.logger.warning("weir does not answer; the request passes: %s", e)
        return None
    if g.decision["admitted"]:
        return None
    return jsonify(error="too many requests", retry_after=g.decision["retry_after"]), g.decision["status"]


@app.after_request
def add_limit_headers(response):
    decision = g.get("decision")
    if decision and decision["limit"] is not None:
        response.headers["X-Ratelimit-Limit"] = decision["limit"]
        response.headers["X-Ratelimit-Remaining"] = decision["remaining"]
        if decision["retry_after"]:
            response.headers["Retry-After"] = int(-(-decision["retry_after"] // 1))
    return response


@app.get("/")
def hello():
    return jsonify(message="hello", app=NAME)
