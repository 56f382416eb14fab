"""weir shield: real packets between network namespaces."""

import pytest

from weirtest import needs, wait_for
from weirtest.shield import Machines, Shield

pytestmark = needs("root", "namespaces", "nft")


@pytest.fixture
def machines():
    with Machines() as running:
        yield running


def test_banned_address_is_dropped_and_released(machines):
    with Shield(machines.server) as shield:
        assert machines.connect(seconds=5) == "open"
        shield.add(machines.client.address, "1h")
        machines.wait_dropped(shield)
        assert shield.state()["elements_v4"] == 1
        shield.release(machines.client.address)
        machines.wait_open()
        assert shield.state()["elements_v4"] == 0


def test_ban_expires(machines):
    with Shield(machines.server) as shield:
        shield.add(machines.client.address, "5s")
        machines.wait_dropped(shield)
        shield.wait_state(elements_v4=0)
        machines.wait_open()
        assert shield.elements("banned4") == {}


def test_packets_of_an_open_connection_are_dropped(machines):
    """The ban applies to connections that are already open, so a client cannot keep one for later."""
    code = ("import socket, sys\n"
            "s = socket.create_server(('0.0.0.0', 8081))\n"
            "print('ready', flush=True)\n"
            "c, _ = s.accept()\n"
            "while True: print(c.recv(1), flush=True)\n")
    talk = ("import socket, sys\n"
            "s = socket.create_connection((sys.argv[1], 8081))\n"
            "s.sendall(b'1')\n"
            "print('ready', flush=True)\n"
            "sys.stdin.readline()\n"
            "while True:\n"
            "    s.sendall(b'2')\n"
            "    import time; time.sleep(0.05)\n")
    with Shield(machines.server) as shield:
        receiver = machines.listen(machines.server, code)
        machines.listen(machines.client, talk.replace("sys.stdin.readline()", "import time; time.sleep(0.5)"),
                        machines.server.address)
        assert receiver.stdout.readline() == "b'1'\n"
        shield.add(machines.client.address, "1h")
        shield.wait_state(elements_v4=1)
        wait_for(lambda: shield.state()["packets"] >= 2, "dropped packets of the open connection")


def test_ipv6_is_banned_by_its_network(machines):
    neighbour, stranger = "2001:db8:1::aa", "2001:db8:2::1"
    machines.client.run("ip", "-6", "address", "add", f"{neighbour}/64", "dev", "eth0", "nodad")
    machines.client.run("ip", "-6", "address", "add", f"{stranger}/64", "dev", "eth0", "nodad")
    machines.server.run("ip", "-6", "route", "add", "2001:db8:2::/64", "dev", "eth0")
    machines.server.run("ip", "-6", "address", "del", f"{machines.server.v6}/64", "dev", "eth0")
    machines.server.run("ip", "-6", "address", "add", "2001:db8:3::2/64", "dev", "eth0", "nodad")
    machines.server.run("ip", "-6", "route", "add", "2001:db8:1::/64", "dev", "eth0")
    machines.client.run("ip", "-6", "route", "add", "2001:db8:3::/64", "dev", "eth0")
    with Shield(machines.server) as shield:
        assert machines.connect("2001:db8:3::2", neighbour, seconds=5) == "open"
        shield.add(machines.client.v6, "1h")
        shield.wait_elements("banned6", "2001:db8:1::")
        machines.wait_dropped(shield, "2001:db8:3::2", machines.client.v6)
        machines.wait_dropped(shield, "2001:db8:3::2", neighbour)
        assert machines.connect("2001:db8:3::2", stranger, seconds=5) == "open"
        assert shield.state()["elements_v6"] == 1


def test_prefix_is_banned_as_a_prefix(machines):
    for address in ("10.215.1.1", "10.215.2.1"):
        machines.client.run("ip", "address", "add", f"{address}/32", "dev", "eth0")
    machines.server.run("ip", "route", "add", "10.215.0.0/16", "dev", "eth0")
    with Shield(machines.server) as shield:
        shield.add("10.215.1.0/24", "1h")
        shield.add("2001:db8:9::/48", "1h")
        shield.wait_elements("nets4", "10.215.1.0/24")
        shield.wait_elements("nets6", "2001:db8:9::/48")
        machines.wait_dropped(shield, machines.server.address, "10.215.1.1")
        assert machines.connect(machines.server.address, "10.215.2.1", seconds=5) == "open"
        shield.add("10.215.0.0/16", "1h")  # the wider prefix replaces the narrower one
        shield.wait_elements("nets4", "10.215.0.0/16")
        machines.wait_dropped(shield, machines.server.address, "10.215.2.1")
        shield.release("10.215.0.0/16")
        shield.wait_elements("nets4", "10.215.1.0/24")
        machines.wait_open(machines.server.address, "10.215.2.1")
        assert shield.state()["prefixes"] == 2


@pytest.mark.parametrize("options", [(), ("--hooks", "forward")])
def test_forwarded_packets_are_dropped(options):
    with Machines(router=True) as machines, Shield(machines.router, *options) as shield:
        assert machines.connect(machines.behind.address, seconds=5) == "open"
        shield.add(machines.client.address, "1h")
        machines.wait_dropped(shield, machines.behind.address)
        assert machines.connect(seconds=5) == "open"  # this packet does not pass the router


def test_hook_input_passes_forwarded_packets():
    with Machines(router=True) as machines, Shield(machines.router, "--hooks", "input") as shield:
        shield.add(machines.client.address, "1h")
        shield.wait_state(elements_v4=1)
        machines.listen(machines.router, LISTEN_ONCE)
        assert machines.connect(machines.behind.address, seconds=5) == "open"
        machines.wait_dropped(shield, machines.router.address)


LISTEN_ONCE = ("import socket, time\n"
               "s = socket.create_server(('0.0.0.0', 8080))\n"
               "print('ready', flush=True)\n"
               "time.sleep(600)\n")


def test_reject_answers_with_a_reset(machines):
    with Shield(machines.server, "--reject") as shield:
        shield.add(machines.client.address, "1h")
        shield.add("2001:db8:7::/48", "1h")
        wait_for(lambda: machines.connect(seconds=5) == "refused", "a TCP reset")
        wait_for(lambda: shield.state()["packets"] > 0, "the counter")


def test_limit_drops_connections_above_the_rate(machines):
    """Two connections an hour, and a burst of five at least. The sixth waits in vain."""
    with Shield(machines.server, "--limit", "2/hour", "--port", "8080", "--never", "10.213.0.77") as shield:
        outcomes = [machines.connect(seconds=5 if n < 5 else 0.3) for n in range(6)]
        assert outcomes == ["open"] * 5 + ["timeout"]
        machines.client.run("ip", "address", "add", "10.213.0.77/24", "dev", "eth0")
        assert [machines.connect(machines.server.address, "10.213.0.77", seconds=5) for _ in range(8)] == ["open"] * 8
        wait_for(lambda: shield.state()["packets"] > 0, "the counter")


def test_limit_does_not_drop_a_protected_ipv6_address(machines):
    """Nine connections of a protected address pass, and the sixth of another one does not."""
    protected, other = "2001:db8:7::77", "2001:db8:8::88"
    for address in (protected, other):
        machines.client.run("ip", "-6", "address", "add", f"{address}/128", "dev", "eth0", "nodad")
        machines.server.run("ip", "-6", "route", "add", f"{address}/128", "dev", "eth0")
    with Shield(machines.server, "--limit", "2/hour", "--port", "8080", "--never", protected) as shield:
        assert [machines.connect(machines.server.v6, protected, seconds=5) for _ in range(9)] == ["open"] * 9
        assert shield.state()["packets"] == 0
        outcomes = [machines.connect(machines.server.v6, other, seconds=5 if n < 5 else 0.3) for n in range(6)]
        assert outcomes == ["open"] * 5 + ["timeout"]
