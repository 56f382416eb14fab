"""An HTTP/2 server over TLS whose responses the test writes down, with python3-h2.

    def handle(connection, stream, method, path):
        connection.answer(stream, 200, body=b"ok")

    with H2Scripted(context, handle) as server:
        ...                                     # server.seen: the method and the path of each request

Each connection has its own thread, which calls handle() for each complete request."""

import socket
import struct
import threading

import h2.config
import h2.connection
import h2.events


class Connection:
    def __init__(self, server, accepted):
        self.server = server
        self.socket = server.context.wrap_socket(accepted, server_side=True)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.seen = []  # the method and the path of each request on this connection
        self.open = True
        self.answered_last = False

    def run(self):
        self.h2.initiate_connection()
        requests = {}
        while self.open:
            self.socket.sendall(self.h2.data_to_send())
            received = self.socket.recv(65536)
            if not received:
                break
            for event in self.h2.receive_data(received):
                if isinstance(event, h2.events.RequestReceived):
                    fields = dict(event.headers)
                    requests[event.stream_id] = (fields[":method"], fields[":path"])
                elif isinstance(event, h2.events.StreamEnded):
                    self.seen.append(requests[event.stream_id])
                    self.server.seen.append(requests[event.stream_id])
                    self.server.handle(self, event.stream_id, *requests[event.stream_id])
        if self.answered_last:
            # A close with unread bytes would reset the connection, perhaps before the client has the response.
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(65536):
                pass
        self.socket.close()

    def answer(self, stream, status, fields=(), body=b"", last=False):
        """Answers a request. `last`: ends the connection afterwards."""
        self.h2.send_headers(stream, [(":status", str(status)), ("content-length", str(len(body))), *fields])
        self.h2.send_data(stream, body, end_stream=True)
        if last:
            self.h2.close_connection()
        self.socket.sendall(self.h2.data_to_send())
        self.open = not last
        self.answered_last = last

    def reset(self):
        """Resets the connection without a response to its open requests."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.open = False


class H2Scripted:
    """The server. `context` is an SSLContext, `port` the port on 127.0.0.1."""

    def __init__(self, context, handle):
        context.set_alpn_protocols(["h2"])
        self.context = context
        self.handle = handle
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                accepted, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(accepted,), daemon=True).start()

    def serve(self, accepted):
        try:
            Connection(self, accepted).run()
        except OSError:
            pass  # the client has ended the connection
