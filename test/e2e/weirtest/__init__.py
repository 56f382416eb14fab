"""The harness of the end-to-end tests: a real nginx with the module, a real API server behind it, and
clients that send exact bytes. test/e2e/README.md shows how to use the harness."""

from . import certificate
from .api import Api, Record
from .clock import Clock
from .env import BUILD, FEWER, MODULE, NGINX, ROOT, SLOWER, WEIR, WRAP, patience, scaled
from .h2client import H2
from .http1 import JSON, Client, Closed, Response, chunks, connect, fetch, message
from .load import SentRequest, Traffic, send_pipelined, count_statuses, send_at_once
from .nginx import TERMINATED, Nginx, check_conf
from .ports import free_port
from .rules import FIVE, by_user
from .tier import full, needs
from .waiting import wait_for

__all__ = ["Api", "BUILD", "Client", "Clock", "Closed", "FEWER", "FIVE", "H2", "JSON", "MODULE", "NGINX", "Nginx", "ROOT",
           "Record", "Response", "SLOWER", "SentRequest", "TERMINATED", "Traffic", "WEIR", "WRAP", "by_user", "certificate",
           "check_conf", "chunks", "connect", "fetch", "free_port", "full", "message", "needs", "patience", "send_pipelined",
           "scaled", "count_statuses", "send_at_once", "wait_for"]
