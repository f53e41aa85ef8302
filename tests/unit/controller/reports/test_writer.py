"""Reports are written where they are served, by the leader, slowly, and only when their content changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.reports.policy_report import PolicyReport
from controller.reports.writer import (
    JUDGED_SECONDS,
    PER_TURN,
    REREAD_SECONDS,
    SERVED_SECONDS,
    SPACING_SECONDS,
)
from tests.unit.controller.reports.conftest import BASE, ReportReplica, Reports, entry, report
from tests.worlds.write_faults import CONFLICT, DEFECT, FORBIDDEN

TEAM = f"{BASE}/namespaces/team/policyreports/numalign"
CLUSTER = f"{BASE}/clusterpolicyreports/numalign"
A, B, NODE = report(entry("a")), report(entry("b")), report(entry("n"), namespace="")
SOON = SPACING_SECONDS + JUDGED_SECONDS


@contextmanager
def writing(*reports: PolicyReport, **fields: Any) -> Iterator[tuple[ReportReplica, Reports]]:  # noqa: ANN401
    """A replica that runs, wants these reports, and its API server of these fields."""
    api = Reports(**fields)
    work = ReportReplica(api=api)
    work.want(*reports)
    with work.running(work.writer().run):
        yield work, api


async def test_next_leader_writes_only_what_differs() -> None:
    with writing(A, *(report(entry("b"), namespace=f"n{at}") for at in range(9))) as (work, api):
        work.leads, api.failing = False, {"list": DEFECT}
        await work.pass_by(100)
        assert (api.stored, work.log.of("report.internal_error")) == ({}, [])
        work.leads, api.failing = True, {}
        await work.pass_by(3)
        assert len(api.writes) == 3 * PER_TURN
        await work.pass_by(10)
    with work.running(work.writer(CollectorRegistry()).run):
        await work.pass_by(100)

    assert len(api.writes) == 10


async def test_failed_list_is_repeated_rarely() -> None:
    with writing(A, failing={"list": FORBIDDEN}) as (work, api):
        await work.pass_by(100)
        assert work.log.of("report.forbidden")
        assert (work.writes("forbidden"), api.stored) == (len([*range(0, 100, int(SERVED_SECONDS))]), {})

        api.failing = {}
        await work.pass_by(SERVED_SECONDS)
        assert {*api.stored} == {TEAM}


@pytest.mark.parametrize("readable", [True, False])
async def test_owner_of_reports_is_the_role_that_is_readable(*, readable: bool) -> None:
    failing = {} if readable else {"get role": FORBIDDEN}
    with writing(A, role={"metadata": {"uid": "role-uid"}}, failing=failing) as (work, api):
        await work.pass_by(5)

    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "numalign-reports"}
    owners = api.stored[TEAM]["metadata"].get("ownerReferences", [])
    assert owners == ([{**role, "uid": "role-uid"}] if readable else [])
    assert len(work.log.of("report.no_owner")) == len(failing)


async def test_report_is_written_when_it_changes_or_was_changed() -> None:
    with writing(A, NODE) as (work, api):
        await work.pass_by(REREAD_SECONDS + 100)
        writes = ["patch clusterpolicyreport numalign", "patch policyreport team/numalign"]
        assert (sorted(api.writes), {*api.stored}, work.writes("written")) == (writes, {TEAM, CLUSTER}, 2)
        api.stored[TEAM] = {**api.stored[TEAM], "results": []}
        del api.stored[CLUSTER]
        await work.pass_by(REREAD_SECONDS + 5)
        assert all(api.stored[path]["results"] for path in (TEAM, CLUSTER))
    # One that changes soon is written a minute after the first time.
    with writing(A) as (work, api):
        await work.pass_by(5)
        work.want(B)
        await work.pass_by(SPACING_SECONDS - 10)
        assert work.writes("written") == 1
        await work.pass_by(JUDGED_SECONDS + 10)
        assert api.stored[TEAM]["results"][0]["resources"][0]["name"] == "b"
        assert work.writes("written") == 2


async def test_unwanted_report_is_removed_unless_it_was_replaced() -> None:
    with writing(A) as (work, api):
        await work.pass_by(5)
        work.want()
        api.failing = {"delete": CONFLICT}
        await work.pass_by(SOON)
        assert ({*api.stored}, work.writes("gone") >= 1) == ({TEAM}, True)
    # The next leader does not know the cluster yet.
    work.wanted = None
    api.failing = {}
    with work.running(work.writer(CollectorRegistry()).run):
        await work.pass_by(100)
        assert {*api.stored} == {TEAM}
        work.want()
        await work.pass_by(SOON)
        assert (api.stored, api.writes[-1]) == ({}, "delete policyreport team/numalign")


async def test_removed_definition_is_looked_for_again() -> None:
    with writing(A) as (work, api):
        await work.pass_by(5)
        kinds, api.kinds, api.stored = api.kinds, (), {}
        work.want(B)
        await work.pass_by(SOON)
        assert work.writes("gone") == 1

        api.kinds = kinds
        await work.pass_by(SPACING_SECONDS + SERVED_SECONDS)
        assert {*api.stored} == {TEAM}
