"""An API server that records all orders on disk: `python3 -m weirtest.orderserver FOLDER PORT`.

It is apiserver.py with a record on disk: FOLDER/record has a JSON object per line, `seen` when a request is complete
and `answered` before its answer is handed to the kernel. A server that is killed at any moment and restarted
has a complete record. On each connection, one recorded answer may not have been sent. `orders.py` is the client.

It answers 200, or follows a plan from the control socket: for targets with a prefix, one answer after the
other ({"status": 503, "headers": {"Retry-After": "2"}, "drop": true, "hold": NAME}), the last one repeatedly.
"""

import asyncio
import hashlib
import json
import os
import sys
import time

from . import apiserver


class RequestLog:
    """The record on disk, and the planned answers."""

    def __init__(self, folder):
        self.file = os.open(os.path.join(folder, "record"), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(self.file).st_size
        if size and os.pread(self.file, 1, size - 1) != b"\n":  # a kill may have interrupted a write
            os.write(self.file, b"\n")
        self.serial = 0
        self.plans = {}

    def forget(self):
        """Deletes all records and plans."""
        os.ftruncate(self.file, 0)
        self.plans = {}

    def write(self, **line):
        data = json.dumps(line).encode() + b"\n"
        while data:  # a stopped and continued server may have written only a part
            data = data[os.write(self.file, data):]

    def seen(self, request):
        self.serial += 1
        serial = f"{os.getpid()}.{self.serial}"
        self.write(do="seen", serial=serial, ns=time.monotonic_ns(), wall_ns=time.time_ns(), method=request.method, target=request.target,
                   headers=request.headers, bytes=len(request.body),
                   sha256=hashlib.sha256(request.body).hexdigest())
        return serial

    def planned(self, target):
        """Returns the next planned answer for a target, or None."""
        for prefix, answers in self.plans.items():
            if target.startswith(prefix):
                return answers.pop(0) if len(answers) > 1 else answers[0]
        return None


LOG = None


class OrderConnection(apiserver.Connection):
    """A connection that records its requests."""

    async def answer(self, request):
        serial = LOG.seen(request)
        apiserver.STATE.records.clear()  # they are in the record on disk
        plan = LOG.planned(request.target)
        if plan is not None:
            await self.follow(plan, serial)
            return
        self.note(serial)
        await super().answer(request)

    def note(self, serial):
        if not self.transport.is_closing():
            LOG.write(do="answered", serial=serial, ns=time.monotonic_ns())

    async def follow(self, plan, serial):
        if "hold" in plan:
            await apiserver.STATE.gate(plan["hold"]).wait()
        if plan.get("drop"):
            self.transport.abort()
            return
        self.note(serial)
        status = plan.get("status", 200)
        fields = [f"HTTP/1.1 {status} {apiserver.REASONS.get(status, 'Whatever')}"]
        fields += [f"{k}: {v}" for k, v in plan.get("headers", {}).items()]
        body = b"x" * plan.get("bytes", 0)
        fields += [f"Content-Length: {len(body)}", "", ""]
        self.transport.write("\r\n".join(fields).encode("latin-1") + body)


def obey(order):
    if order["do"] == "plan":
        LOG.plans = {order["prefix"]: order["answers"], **LOG.plans} if order["answers"] else \
            {k: v for k, v in LOG.plans.items() if k != order["prefix"]}
        return True
    if order["do"] == "ping":
        return True
    if order["do"] == "forget":
        LOG.forget()
        return apiserver.obey({"do": "reset"})
    return apiserver.obey(order)


async def control(reader, writer):
    while line := await reader.readline():
        writer.write(json.dumps(obey(json.loads(line))).encode() + b"\n")
        await writer.drain()
    writer.close()


async def main(folder, port):
    global LOG
    LOG = RequestLog(folder)
    path = os.path.join(folder, "control.sock")
    if os.path.exists(path):
        os.unlink(path)
    await asyncio.get_running_loop().create_server(OrderConnection, "127.0.0.1", port, backlog=4096, reuse_address=True)
    await asyncio.start_unix_server(control, path)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
