#!/usr/bin/python3
"""A fake LLM server with OpenAI's chat API: api.py PORT.

It answers POST /v1/chat/completions. A token is a word here, so every number is known before the request is sent:
the prompt costs one token per word of its messages, and the response has exactly `max_tokens` tokens (16 if the request
does not say). As OpenAI's API, it sends `usage` with every plain response. A streamed response has `usage` only if the
request has "stream_options": {"include_usage": true}; it is then in the last event before [DONE]. A plain response is
compressed if the request has `Accept-Encoding: gzip`."""

import gzip
import http.server
import json
import sys

WORDS = ("water", "flows", "over", "the", "weir")


class BadRequest(Exception):
    pass


def count(value, name):
    if not isinstance(value, int) or not 1 <= value <= 1000000:
        raise BadRequest(f"{name} must be a number from 1 to 1000000")
    return value


def read(body):
    """Returns (prompt tokens, completion tokens, whether to stream, whether to send usage)."""
    try:
        asked = json.loads(body)
        texts = [m["content"] for m in asked["messages"]]
        prompt = sum(len(text.split()) for text in texts)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadRequest("the request is not a chat completion") from None
    tokens = asked.get("max_completion_tokens", asked.get("max_tokens", 16))
    streams = bool(asked.get("stream"))
    options = asked.get("stream_options") or {}
    return prompt, count(tokens, "max_tokens"), streams, not streams or options.get("include_usage") is True


def usage(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def word(i):
    return WORDS[i % len(WORDS)]


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status, content):
        body = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def event(self, data):
        text = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))

    def stream(self, prompt, tokens, with_usage):
        def chunk(choices, used=None):
            self.event(json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": choices,
                                   **({"usage": used} if with_usage else {})}))

        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for i in range(tokens):
            chunk([{"index": 0, "delta": {"content": word(i) + " "}, "finish_reason": None}])
        chunk([{"index": 0, "delta": {}, "finish_reason": "length"}])
        if with_usage:
            chunk([], usage(prompt, tokens))
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path != "/v1/chat/completions":
            self.answer(404, {"error": {"message": "not found"}})
            return
        try:
            prompt, tokens, streams, with_usage = read(body)
        except BadRequest as error:
            self.answer(400, {"error": {"message": str(error)}})
            return
        if streams:
            self.stream(prompt, tokens, with_usage)
            return
        text = " ".join(word(i) for i in range(tokens))
        self.answer(200, {"id": "chatcmpl-1", "object": "chat.completion", "usage": usage(prompt, tokens), "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}]})

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def main():
    server = Server(("127.0.0.1", int(sys.argv[1])), Api)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
