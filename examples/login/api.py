#!/usr/bin/python3
"""A fake log-in server: api.py PORT.

POST /login with the form field password=correct is answered with 200, with another password with 401."""

import http.server
import sys
import urllib.parse


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, status, text):
        body = text.encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        if self.path.split("?")[0] != "/login":
            self.answer(404, "not found")
        elif form.get("password") == ["correct"]:
            self.answer(200, "welcome")
        else:
            self.answer(401, "wrong password")

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
