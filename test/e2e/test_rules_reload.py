"""ACCEPTANCE 22: rules edited on disk while traffic flows, in every way editors and deployments do it.

A worker looks at the rules every quarter of a second, and at the end of a second of the wall clock. In most tests the clock
stands ten milliseconds before the end of a second (`quick`), so the workers look all the time and no test waits for them.
"""

import os
import shutil

import pytest
from weirtest import Nginx, Traffic, by_user, send_at_once, wait_for

SERVER = """
	add_header X-Worker $pid always;
	location / { weir on; proxy_pass http://api; }
	location /later { auth_delay 20ms; auth_basic "later"; auth_basic_user_file none; }
"""
USER = {"X-User": "edited"}


@pytest.fixture
def quick(clock):
    """Moves the clock to ten milliseconds before the end of a second, so that workers look at the rules all the
    time."""
    clock.advance(0.99)


def rules(count):
    return by_user(f"{{unit: week, requests_per_unit: {count}, algorithm: token_bucket}}")


def ask(nginx):
    """Asks as a new user, so that it takes nothing from other users."""
    nginx.asked = getattr(nginx, "asked", 0) + 1
    return nginx.get("/", {"X-User": f"look-{nginx.asked}"})


def current_limit(nginx):
    """Returns the limit that a response reports."""
    return ask(nginx).get("X-Ratelimit-Limit")


def wait_all_workers_have(nginx, limit):
    """Waits until every worker has answered with this limit."""
    reported = set()

    def asked():
        answer = ask(nginx)
        if answer.get("X-Ratelimit-Limit") == limit:
            reported.add(int(answer.get("X-Worker")))
        return reported >= set(nginx.workers())
    wait_for(asked, f"every worker to tell the limit {limit}", every=0)


def wait_all_workers_looked(nginx):
    """Waits until each worker has looked at the current rules, and has finished reading them. A worker answers /later
    by a timer, which expires after the timer of its next look. The look starts a thread when there is something to
    read; an earlier thread may have delayed it, so this is done twice."""
    for _ in range(2):
        turned = set()

        def asked():
            turned.update(int(s.response.get("X-Worker")) for s in send_at_once(nginx.port, ["/later"] * 16))
            return turned >= set(nginx.workers())
        wait_for(asked, "each worker to answer by a timer", every=0)
        for pid in nginx.workers():
            wait_for(lambda: len(os.listdir(f"/proc/{pid}/task")) == 1, "the threads that read rules to end", every=0.002)


def by_write(path, text):
    """Overwrites the file."""
    path.write_text(text, encoding="utf-8")


def by_rename(path, text):
    """Replaces the file in one step."""
    fresh = path.with_name("fresh")
    fresh.write_text(text, encoding="utf-8")
    os.rename(fresh, path)


def by_unlink(path, text):
    """Writes the file as some tools do: it is missing for a moment."""
    path.unlink()
    path.write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("edit", [by_write, by_rename, by_unlink])
def test_22_edited_under_traffic(api, edit):
    """Requests and counts continue when a limit changes. 30 were used: with a limit of 10 no request is admitted."""
    with Nginx(rules=rules(1000000), conf_server=SERVER, api=api, workers=2, reuseport=True) as nginx:
        with Traffic(nginx.port, ["/t"], connections=4, headers=USER) as traffic:
            traffic.wait(30)
            edit(nginx.rules, rules(10))
            wait_all_workers_have(nginx, "10")
            assert {nginx.get("/", USER).status for _ in range(8)} == {429}
            wait_for(lambda: traffic.statuses[429] > 0, "the traffic to meet the lower limit", 30)
            edit(nginx.rules, rules(2000000))
            wait_all_workers_have(nginx, "2000000")
            traffic.wait(30)
        assert traffic.lost == []
        assert set(traffic.statuses) == {200, 429}


@pytest.mark.usefixtures("quick")
def test_22_symlink_swap_as_kubernetes_does(api):
    """rules/ -> ..data -> a folder; the link in the middle is replaced by one to another folder."""
    with Nginx(rules=None, rules_path="{prefix}/mount", conf_server=SERVER, api=api,
               start=False) as nginx:
        mount = nginx.prefix / "mount"
        mount.mkdir()

        def deploy(version, text):
            folder = mount / f"..{version}"
            folder.mkdir()
            (folder / "rules.yaml").write_text(text, encoding="utf-8")
            (mount / "..tmp").symlink_to(folder.name)
            os.rename(mount / "..tmp", mount / "..data")
        deploy("v1", rules(100))
        (mount / "rules.yaml").symlink_to("..data/rules.yaml")
        nginx.start()
        assert current_limit(nginx) == "100"
        assert [nginx.get("/", USER).get("X-Ratelimit-Remaining") for _ in range(3)] == ["99", "98", "97"]
        deploy("v2", rules(200))
        shutil.rmtree(mount / "..v1")
        wait_for(lambda: current_limit(nginx) == "200", "the new limit")
        # The count continues: the three earlier requests and this one are taken from the new limit.
        assert nginx.get("/", USER).get("X-Ratelimit-Remaining") == "196"


@pytest.mark.usefixtures("quick")
def test_22_file_is_added_to_a_folder(api):
    with Nginx(rules=None, rules_path="{prefix}/rules.d", conf_server="location / { weir api; "
               "proxy_pass http://api; }", api=api, start=False) as nginx:
        folder = nginx.prefix / "rules.d"
        folder.mkdir()
        (folder / "10-api.yaml").write_text(rules(100), encoding="utf-8")
        nginx.start()
        assert current_limit(nginx) == "100"
        (folder / "20-more.yaml").write_text(
            "domain: api\nrequests:\n  - descriptor: [{key: all, value: one}]\ndescriptors:\n"
            "  - key: all\n    value: one\n    rate_limit: {unit: week, requests_per_unit: 7, "
            "algorithm: token_bucket}\n", encoding="utf-8")
        wait_for(lambda: current_limit(nginx) == "7", "the second file")
        (folder / "20-more.yaml").unlink()
        wait_for(lambda: current_limit(nginx) == "100", "the second file to be removed")


@pytest.mark.usefixtures("quick")
def test_22_broken_file_changes_nothing_and_is_logged_once(api):
    """Four workers read it; one logs each diagnostic with file, line and column, once. It is not logged again when the
    file is read again with the same content. After the repair the rules are in force."""
    broken, error = rules(3).replace("rate_limit", "rate_limt"), r"\[error\].*rules\.yaml:6:\d+: "
    with Nginx(rules=rules(1000), conf_server=SERVER, api=api, workers=4, reuseport=True) as nginx:
        wait_all_workers_have(nginx, "1000")
        with Traffic(nginx.port, ["/t"], connections=4, headers=USER) as traffic:
            nginx.write_rules(broken)
            nginx.wait_logged(error)
            wait_all_workers_looked(nginx)
            os.utime(nginx.rules, (1, 1))
            wait_all_workers_looked(nginx)
            traffic.wait(20)
            wait_all_workers_have(nginx, "1000")
        assert nginx.logged(error) == 1
        assert traffic.lost == []
        assert set(traffic.statuses) <= {200, 429}
        nginx.write_rules(rules(1500))
        wait_all_workers_have(nginx, "1500")


@pytest.mark.usefixtures("quick")
def test_new_rules_are_logged_once_with_their_generation(api):
    with Nginx(rules=rules(10), conf_server=SERVER, api=api, workers=4, reuseport=True) as nginx:
        nginx.write_rules(rules(20))
        wait_all_workers_have(nginx, "20")
        nginx.write_rules(rules(30))
        wait_all_workers_have(nginx, "30")  # a worker with these rules in force has logged everything about the earlier ones
        assert nginx.logged(r"\[notice\].*weir.*in force, generation 2,") == 1
        nginx.wait_logged(r"\[notice\].*weir.*in force, generation 3,")


@pytest.mark.usefixtures("quick")
def test_rules_that_are_removed_and_restored(api):
    """While the file is missing the last rules stay in force."""
    with Nginx(rules=rules(10), conf_server=SERVER, api=api) as nginx:
        nginx.rules.unlink()
        nginx.wait_logged(r"\[error\].*rules\.yaml")
        assert current_limit(nginx) == "10"
        nginx.write_rules(rules(20))
        wait_for(lambda: current_limit(nginx) == "20", "the rules that came back")


@pytest.mark.usefixtures("quick")
def test_domain_in_use_is_removed(api):
    """Rules without the domain that nginx uses: a warning, and no limit until it is back."""
    with Nginx(rules=rules(2), conf_server=SERVER, api=api) as nginx:
        nginx.write_rules(rules(2).replace("domain: api", "domain: other"))
        nginx.wait_logged(r"\[warn\].*api")
        wait_for(lambda: current_limit(nginx) is None, "an unlimited answer")
        nginx.write_rules(rules(50))
        wait_for(lambda: current_limit(nginx) == "50", "the domain again")


def test_rules_are_watched_after_a_reload_of_nginx(api):
    """By the real clock: a worker looks every quarter of a second."""
    with Nginx(rules=rules(10), conf_server=SERVER, api=api, workers=2, reuseport=True) as nginx:
        nginx.reload()
        nginx.write_rules(rules(20))
        wait_all_workers_have(nginx, "20")
        nginx.reload()
        assert current_limit(nginx) == "20"
