#!/usr/bin/python3
"""A fake server of slow reports: api.py [PORT]. Without PORT it uses a free port.

GET /reports/NAME takes 2 seconds.

Prints its port, and exits when its standard input is closed."""

import http.server
import os
import sys
import threading
import time

SECONDS = 2


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        body = b"the report\n"
        time.sleep(SECONDS)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

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
