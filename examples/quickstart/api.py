#!/usr/bin/python3
"""A small demo API for the gateway: api.py [PORT]. Without PORT it uses a free port.

Prints its port, and exits when its standard input is closed."""

import http.server
import json
import os
import sys
import threading


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status, **content):
        body = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.answer(200, service="demo API", you=self.headers.get("X-Real-IP"),
                    request=self.headers.get("X-Request-Id"))

    do_HEAD = do_GET

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0].rstrip("/")
        if path == "/v1/posts":
            self.answer(201, post="published", user=self.headers.get("X-User-Id"))
        elif path == "/v1/orders":
            self.answer(201, order="taken", deferred=self.headers.get("X-Weir-Deferred"))
        elif path == "/v1/accounts":
            self.answer(201, account="opened")
        elif path.startswith("/v1/rewards/"):
            self.answer(200, reward=path.rsplit("/", 1)[1], device=self.headers.get("X-Device-Id"))
        else:
            self.answer(404, error="not found")

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    server = Server(("127.0.0.1", port), Api)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        while os.read(0, 4096):
            pass
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
