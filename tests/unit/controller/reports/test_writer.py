"""Reports are written where they are served, by who leads, slowly, and only when they say something else."""

import pytest

from controller.reports.writer import (
    JUDGED_SECONDS,
    PER_TURN,
    REREAD_SECONDS,
    SERVED_SECONDS,
    SPACING_SECONDS,
)
from numalign.kube.errors import Conflict, Forbidden, Unreachable
from tests.unit.controller.reports.conftest import BASE, Reports, Site, entry, report

FORBIDDEN = Forbidden("a role has to allow it")
TEAM = f"{BASE}/namespaces/team/policyreports/numalign"
CLUSTER = f"{BASE}/clusterpolicyreports/numalign"


async def test_a_report_is_written_once() -> None:
    site = Site()
    site.wants(report(entry("a")), report(entry("n"), namespace=""))

    await site.turns(REREAD_SECONDS + 100)

    assert sorted(site.api.asked) == [
        "patch clusterpolicyreport numalign",
        "patch policyreport team/numalign",
    ]
    assert {*site.api.stored} == {TEAM, CLUSTER}
    assert site.count("written") == 2


async def test_it_is_written_again_when_it_says_something_else_and_not_at_once() -> None:
    site = Site()
    site.wants(report(entry("a")))
    await site.turns(5)
    site.wants(report(entry("b")))
    await site.turns(SPACING_SECONDS - 10)
    assert site.count("written") == 1

    await site.turns(JUDGED_SECONDS + 10)
    assert site.api.stored[TEAM]["results"][0]["resources"][0]["name"] == "b"
    assert site.count("written") == 2


async def test_it_goes_when_there_is_nothing_to_say_any_more() -> None:
    site = Site()
    site.wants(report(entry("a")))
    await site.turns(5)
    site.wants()
    await site.turns(SPACING_SECONDS + JUDGED_SECONDS)

    assert site.api.stored == {}
    assert site.count("removed") == 1


async def test_reports_of_others_stay() -> None:
    foreign = {"metadata": {"name": "kyverno", "namespace": "team", "uid": "1", "labels": {}}, "results": []}
    namesake = {"metadata": {"name": "numalign", "namespace": "other", "uid": "2"}, "results": []}
    others = {
        f"{BASE}/namespaces/team/policyreports/kyverno": foreign,
        f"{BASE}/namespaces/other/policyreports/numalign": namesake,
    }
    site = Site(Reports(stored=dict(others)))

    await site.turns(REREAD_SECONDS + 100)

    assert site.api.stored == others


async def test_who_comes_to_lead_writes_nothing_that_stands_there_already() -> None:
    site = Site()
    site.wants(report(entry("a")), report(entry("b"), namespace="other"))
    await site.turns(5)
    site.writer = site.replica()
    await site.turns(100)

    assert len(site.api.asked) == 2


async def test_who_does_not_lead_asks_and_writes_nothing() -> None:
    site = Site()
    site.leads = False
    site.wants(report(entry("a")))
    site.api.failing = {"list": AssertionError("nobody is to ask")}
    await site.turns(100)

    assert site.api.stored == {}


async def test_what_somebody_changed_or_took_away_is_put_right() -> None:
    site = Site()
    site.wants(report(entry("a")), report(entry("n"), namespace=""))
    await site.turns(5)
    site.api.stored[TEAM] = {**site.api.stored[TEAM], "results": []}
    del site.api.stored[CLUSTER]

    await site.turns(REREAD_SECONDS + 5)

    assert site.api.stored[TEAM]["results"]
    assert site.api.stored[CLUSTER]["results"]


async def test_where_the_kinds_are_not_served_nothing_happens_until_they_are() -> None:
    site = Site(Reports(kinds=()))
    site.wants(report(entry("a")))
    await site.turns(100)
    assert (site.api.asked, site.count("failed")) == ([], 0)

    site.api.kinds = ("policyreports",)
    await site.turns(SERVED_SECONDS + 1)
    assert {*site.api.stored} == {TEAM}


async def test_where_the_definition_goes_it_is_looked_for_again() -> None:
    site = Site()
    site.wants(report(entry("a")))
    await site.turns(5)
    site.api.kinds, site.api.stored = (), {}
    site.wants(report(entry("b")))
    await site.turns(SPACING_SECONDS + JUDGED_SECONDS)
    assert site.count("gone") == 1

    site.api.kinds = ("policyreports", "clusterpolicyreports")
    await site.turns(SPACING_SECONDS + SERVED_SECONDS)
    assert {*site.api.stored} == {TEAM}


async def test_many_are_written_slowly() -> None:
    site = Site()
    site.wants(*(report(entry("a"), namespace=f"team-{at}") for at in range(10)))
    await site.turns(3)

    assert len(site.api.stored) == 3 * PER_TURN


async def test_a_right_that_is_missing_is_told_once() -> None:
    site = Site(Reports(failing={"patch": FORBIDDEN}))
    site.wants(report(entry("a")))
    await site.turns(5 * SPACING_SECONDS)

    assert len(site.told.of("report.forbidden")) == 1
    assert site.count("forbidden") >= 4


async def test_without_the_right_to_list_it_is_tried_rarely() -> None:
    site = Site(Reports(failing={"list": FORBIDDEN}))
    site.wants(report(entry("a")))
    for _ in range(100):
        site.seconds += 1
        await _survives(site)

    assert len(site.told.of("report.forbidden")) == 1
    assert site.count("forbidden") <= 5
    assert site.api.stored == {}


async def test_what_fails_is_tried_again() -> None:
    site = Site()
    site.wants(report(entry("a")))
    await site.turns(0)
    site.api.failing = {"list": Unreachable("it does not answer")}
    for _ in range(40):
        site.seconds += 1
        await _survives(site)
    assert site.told.of("report.failed")

    site.api.failing = {}
    await site.turns(SPACING_SECONDS + SERVED_SECONDS)
    assert {*site.api.stored} == {TEAM}


async def test_what_breaks_is_logged_and_ends_nothing() -> None:
    site = Site()
    site.api.failing = {"list": ValueError("unheard of")}
    site.seconds += 1
    await _survives(site)

    assert site.told.of("report.internal_error")


async def test_a_report_that_is_another_by_now_is_not_removed() -> None:
    site = Site()
    site.wants(report(entry("a")))
    await site.turns(5)
    site.wants()
    site.api.failing = {"delete": Conflict("it has another uid")}
    await site.turns(JUDGED_SECONDS + SPACING_SECONDS)

    assert {*site.api.stored} == {TEAM}
    assert site.count("gone") >= 1


async def test_reports_belong_to_the_role_that_lets_them_be_written() -> None:
    site = Site(Reports(role={"metadata": {"uid": "role-uid"}}))
    site.wants(report(entry("a")))
    await site.turns(5)

    assert site.api.stored[TEAM]["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "name": "numalign-reports",
            "uid": "role-uid",
        }
    ]


async def test_without_the_right_to_the_role_reports_are_nobodys() -> None:
    site = Site(Reports(failing={"get role": FORBIDDEN}))
    site.wants(report(entry("a")))
    await site.turns(5)

    assert "ownerReferences" not in site.api.stored[TEAM]["metadata"]
    assert site.told.of("report.no_owner")


async def test_nothing_is_removed_before_anything_is_known() -> None:
    site = Site()
    site.wants(report(entry("a")))
    await site.turns(5)
    site.writer, site.wanted = site.replica(), None
    await site.turns(100)

    assert {*site.api.stored} == {TEAM}


async def _survives(site: Site) -> None:
    """A turn as the program takes it."""
    ended = RuntimeError("enough")

    async def end(_seconds: float) -> None:
        raise ended

    site.writer.sleep = end
    with pytest.raises(RuntimeError, match="enough"):
        await site.writer.run()
