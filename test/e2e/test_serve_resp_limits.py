"""Limits through the RESP port are exact: many connections, several threads, two processes, one of them killed."""

import threading

from weirtest import env, scaled
from weirtest.resp import Resp, command
from weirtest.serve import Serve

RULES = """
domain: api
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: LIMIT, algorithm: token_bucket}
"""
CROWD = 16


def crowd(ports, asks, question, admitted, between=lambda i, asked: None):
    """CROWD connections, each of which pipelines `asks` questions; counts replies for which admitted(reply). `between`
    is called before each of them sends sixteen more."""
    counts = [0] * CROWD
    lost = [False] * CROWD
    gate = threading.Barrier(CROWD)

    def one(i):
        with Resp(ports[i % len(ports)]) as resp:
            gate.wait()
            try:
                for asked in range(0, asks, 16):
                    between(i, asked)
                    resp.send(question * 16)
                    for _ in range(16):
                        counts[i] += admitted(resp.read())
            except (EOFError, ConnectionError):
                lost[i] = True

    threads = [threading.Thread(target=one, args=(i,)) for i in range(CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts), lost


def test_cl_throttle_is_exact_over_threads():
    limit = scaled(4000)
    with Serve(rules=RULES.replace("LIMIT", "1"), resp=True, threads=4) as serve:
        question = command("CL.THROTTLE", "hot", limit - 1, 1, 86400)
        count, lost = crowd([serve.resp_port], limit // 4 // 16 * 16, question, lambda r: r[0] == 0)
        assert (count, any(lost)) == (limit, False)
        with Resp(serve.resp_port) as resp:
            assert resp.call("CL.THROTTLE", "hot", limit - 1, 1, 86400, 0)[2] == 0


def test_check_is_exact_over_two_processes():
    limit = scaled(4000)
    rules = RULES.replace("LIMIT", str(limit))
    with Serve(rules=rules, resp=True) as one, \
            Serve(rules=rules, resp=True, table=one.table) as other:
        question = command("WEIR.CHECK", "api", "user", 7)
        count, lost = crowd([one.resp_port, other.resp_port], limit // 4 // 16 * 16, question,
                            lambda r: r[1] == "admit")
        assert (count, any(lost)) == (limit, False)


def test_killed_process_loses_only_its_decisions_in_flight():
    """Only decisions in flight and unsent replies of the killed process are lost. Before the kill the clients ask at
    most half of the limit, however fast they are."""
    limit = scaled(8000)
    killed = threading.Event()
    with Serve(rules=RULES.replace("LIMIT", "1"), resp=True) as one, \
            Serve(rules=RULES.replace("LIMIT", "1"), resp=True, table=one.table) as other:

        def between(i, asked):
            if i == 0 and asked == 32:
                other.kill()
                killed.set()
            elif asked >= limit // 2 // CROWD // 16 * 16:
                assert killed.wait(env.patience(20))

        question = command("CL.THROTTLE", "hot", limit - 1, 1, 86400)
        count, lost = crowd([one.resp_port, other.resp_port], limit, question, lambda r: r[0] == 0, between)
        assert lost == [i % 2 == 1 for i in range(CROWD)]
        # Each connection of the killed process had up to 16 replies in flight.
        assert limit - 16 * CROWD // 2 <= count <= limit
        with Resp(one.resp_port) as resp:
            assert resp.call("CL.THROTTLE", "hot", limit - 1, 1, 86400)[0] == 1
