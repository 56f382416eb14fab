"""ACCEPTANCE 22: rules edited on disk while traffic flows, in every way editors and deployments do it."""

import os
import shutil
import time

import pytest
from weirtest import Nginx, Traffic, by_user, wait_for

SERVER = "location / { weir on; proxy_pass http://api; }"
USER = {"X-User": "edited"}
LOADED = r"\[notice\].*weir.*generation"


def rules(count):
    return by_user(f"{{unit: week, requests_per_unit: {count}, algorithm: token_bucket}}")


def told_limit(nginx):
    """By a user who never asked before: however often this is asked, it takes nothing from anybody."""
    nginx.asked = getattr(nginx, "asked", 0) + 1
    return nginx.get("/", {"X-User": f"look-{nginx.asked}"}).get("X-Ratelimit-Limit")


def by_write(path, text):
    path.write_text(text, encoding="utf-8")


def by_rename(path, text):
    fresh = path.with_name("fresh")
    fresh.write_text(text, encoding="utf-8")
    os.rename(fresh, path)


def by_unlink(path, text):
    """As some tools do: gone for a moment."""
    path.unlink()
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("edit", [by_write, by_rename, by_unlink])
def test_22_edited_under_traffic(api, edit):
    """The new limit holds within a second; requests and counts go on. 30 were used: with 1,000,000 allowed
    everything passes; with 10, which is fewer than were used, nothing does."""
    with Nginx(rules=rules(1000000), conf_server=SERVER, api=api, workers=2, reuseport=True) as nginx:
        with Traffic(nginx.port, ["/t"], connections=4, headers=USER) as traffic:
            traffic.wait(30)
            edit(nginx.rules, rules(10))
            wait_for(lambda: all(nginx.get("/", USER).status == 429 for _ in range(8)),
                     "the lower limit in all workers")
            wait_for(lambda: traffic.statuses[429] > 0, "the traffic to meet the lower limit", 30)
            edit(nginx.rules, rules(2000000))
            wait_for(lambda: all(told_limit(nginx) == "2000000" for _ in range(8)),
                     "the higher limit in all workers")
            traffic.wait(30)
        assert traffic.lost == []
        assert set(traffic.statuses) == {200, 429}


def test_22_symlink_swap_as_kubernetes_does(api):
    """rules/ -> ..data -> a folder; the link in the middle is swapped for one to another folder."""
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
        assert told_limit(nginx) == "100"
        assert [nginx.get("/", USER).get("X-Ratelimit-Remaining") for _ in range(3)] == ["99", "98", "97"]
        deploy("v2", rules(200))
        shutil.rmtree(mount / "..v1")
        wait_for(lambda: told_limit(nginx) == "200", "the new limit")
        # The count goes on: the three that were asked before, and this one, come off the new limit.
        assert nginx.get("/", USER).get("X-Ratelimit-Remaining") == "196"


def test_22_a_file_more_in_a_folder(api):
    with Nginx(rules=None, rules_path="{prefix}/rules.d", conf_server="location / { weir api; "
               "proxy_pass http://api; }", api=api, start=False) as nginx:
        folder = nginx.prefix / "rules.d"
        folder.mkdir()
        (folder / "10-api.yaml").write_text(rules(100), encoding="utf-8")
        nginx.start()
        assert told_limit(nginx) == "100"
        (folder / "20-more.yaml").write_text(
            "domain: api\nrequests:\n  - descriptor: [{key: all, value: one}]\ndescriptors:\n"
            "  - key: all\n    value: one\n    rate_limit: {unit: week, requests_per_unit: 7, "
            "algorithm: token_bucket}\n", encoding="utf-8")
        wait_for(lambda: told_limit(nginx) == "7", "the second file")
        (folder / "20-more.yaml").unlink()
        wait_for(lambda: told_limit(nginx) == "100", "the second file to be gone")


def test_22_a_broken_file_changes_nothing_and_is_told_once(api):
    """Four workers read it, one tells: each diagnostic with file, line and column, once. Repaired, it
    holds."""
    broken = rules(3).replace("rate_limit", "rate_limt")
    with Nginx(rules=rules(1000), conf_server=SERVER, api=api, workers=4, reuseport=True) as nginx:
        assert told_limit(nginx) == "1000"
        with Traffic(nginx.port, ["/t"], connections=4, headers=USER) as traffic:
            nginx.write_rules(broken)
            nginx.wait_logged(r"\[error\].*rules\.yaml:6:\d+: ")
            # Longer than any worker's poll: who would tell it again has done so by then.
            time.sleep(1.2)
            traffic.wait(20)
            assert told_limit(nginx) == "1000"
        assert nginx.logged(r"\[error\].*rules\.yaml:6:\d+: ") == 1
        assert traffic.lost == []
        assert set(traffic.statuses) <= {200, 429}
        nginx.write_rules(rules(1500))
        wait_for(lambda: all(told_limit(nginx) == "1500" for _ in range(8)), "the repaired file")


def test_good_rules_are_told_once_with_their_generation(api):
    with Nginx(rules=rules(10), conf_server=SERVER, api=api, workers=4, reuseport=True) as nginx:
        before = nginx.logged(LOADED)
        nginx.write_rules(rules(20))
        nginx.wait_logged(LOADED, before + 1)
        wait_for(lambda: all(told_limit(nginx) == "20" for _ in range(12)), "all workers")
        time.sleep(0.6)  # another worker that told it too would have by now: a poll is half a second
        assert nginx.logged(LOADED) == before + 1


def test_rules_that_vanish_and_come_back(api):
    with Nginx(rules=rules(10), conf_server=SERVER, api=api) as nginx:
        nginx.rules.unlink()
        nginx.wait_logged(r"\[error\].*rules\.yaml")
        assert told_limit(nginx) == "10"
        nginx.write_rules(rules(20))
        wait_for(lambda: told_limit(nginx) == "20", "the rules that came back")


def test_the_domain_in_force_goes(api):
    """Rules without the domain that nginx asks for: a warning, and nothing is limited until it is back."""
    with Nginx(rules=rules(2), conf_server=SERVER, api=api) as nginx:
        nginx.write_rules(rules(2).replace("domain: api", "domain: other"))
        nginx.wait_logged(r"\[warn\].*api")
        wait_for(lambda: told_limit(nginx) is None, "an unlimited answer")
        nginx.write_rules(rules(50))
        wait_for(lambda: told_limit(nginx) == "50", "the domain again")


def test_a_reload_of_nginx_goes_on_watching(api):
    with Nginx(rules=rules(10), conf_server=SERVER, api=api, workers=2, reuseport=True) as nginx:
        nginx.reload()
        nginx.write_rules(rules(20))
        wait_for(lambda: all(told_limit(nginx) == "20" for _ in range(8)), "new rules")
        nginx.reload()
        assert told_limit(nginx) == "20"
