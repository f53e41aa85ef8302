"""The owner of pods that ask for less than their namespace wants hears of it, once."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.reports.owner_events import EVENT, MOST_WAITING, PER_TURN, OwnerEvents
from numalign.kube.errors import Forbidden, NotFound, Unreachable
from numalign.kube.events import Event, Type
from tests.unit.controller.healing.conftest import ROOMY, Cluster, Leader, owned
from tests.worlds.log import RecordedLog
from tests.worlds.scorer import TEAM, raw

Json = dict[str, Any]

WANTS = {"warn": "restricted"}
WHY = (
    "its pods are admitted with a warning: this namespace expects NUMA alignment restricted; the pod"
    " requests nothing"
)
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d1", "controller": True}


@dataclass
class Apps:
    """An API server with ReplicaSets by name."""

    sets: dict[str, Json] = field(default_factory=dict)
    fails: Exception | None = None
    asked: int = 0

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        """One of them."""
        assert most
        self.asked += 1
        if self.fails:
            raise self.fails
        prefix, _, name = path.rpartition("/")
        assert prefix == f"/apis/apps/v1/namespaces/{TEAM}/replicasets"
        if name not in self.sets:
            raise NotFound(what)
        return self.sets[name]


def replica_set(name: str, *owners: Json) -> Json:
    """As it is stored."""
    return {"metadata": {"name": name, "uid": f"uid-of-{name}", "ownerReferences": [*owners]}}


class Site:
    """The events of a cluster with one node, whose namespace wants something of pods."""

    def __init__(self, apps: Apps, **labels: str) -> None:
        self.apps, self.told, self.events = apps, RecordedLog(), list[Event]()
        self.cluster = Cluster({"a": ROOMY}, namespaces={TEAM: labels or WANTS})
        self.leader = Leader(self.cluster)
        self.leads = True
        self.owner_events = OwnerEvents(
            api=apps,
            state=self.leader.state,
            leading=lambda: self.leads,
            publish=self.events.append,
            log=self.told.log,
        )
        self.leader.state.watchers = (*self.leader.state.watchers, self.owner_events.update_pod)

    async def makes(self, *pods: Json) -> None:
        """Pods come, and the cluster is known."""
        await self.cluster.publish()
        for made in pods:
            self.cluster.put(made)

    async def turns(self, count: int = 3) -> None:
        """Turns, one by one."""
        for _ in range(count):
            await self.owner_events.turn()

    def said(self) -> list[tuple[str, str, str]]:
        """Who was told: kind, name and version."""
        return [(event.kind, event.pod, event.api_version) for event in self.events]


def pod(name: str, owner: str = "web-5d", *, policy: str | None = None, **reference: str) -> Json:
    """A pod of a ReplicaSet, or of whoever `reference` says."""
    return owned(raw("cpu=2 mem=1Gi", name=name, policy=policy), owner, **reference)


async def test_the_deployment_hears_of_the_pods_of_its_replica_set() -> None:
    site = Site(Apps({"web-5d": replica_set("web-5d", DEPLOYMENT)}))
    await site.makes(pod("web-1"))
    await site.turns()

    [event] = site.events
    assert site.said() == [("Deployment", "web", "apps/v1")]
    assert (event.namespace, event.uid, event.type, event.reason) == (TEAM, "d1", Type.WARNING, EVENT)
    assert event.message == WHY


async def test_any_other_owner_is_told_itself() -> None:
    site = Site(Apps())
    job = {"kind": "Job", "apiVersion": "batch/v1"}
    own = {"kind": "Train", "apiVersion": "example.com/v1"}
    await site.makes(pod("job-1", "job", **job), pod("train-1", "train", **own))
    await site.turns()

    assert site.said() == [("Job", "job", "batch/v1"), ("Train", "train", "")]
    assert site.apps.asked == 0


async def test_a_replica_set_of_nobody_is_told_itself() -> None:
    site = Site(Apps({"web-5d": replica_set("web-5d")}))
    await site.makes(pod("web-1"))
    await site.turns()

    assert site.said() == [("ReplicaSet", "web-5d", "apps/v1")]


async def test_many_pods_of_one_owner_are_told_of_once() -> None:
    site = Site(Apps({"web-5d": replica_set("web-5d", DEPLOYMENT)}))
    for at in range(5):
        await site.makes(pod(f"web-{at}"))
        await site.turns()

    assert len(site.events) == 1
    assert site.apps.asked == 1


async def test_who_asks_for_enough_or_is_left_alone_is_not_told() -> None:
    site = Site(Apps())
    enough = pod("web-1", policy="restricted")
    await site.makes(enough, raw("cpu=2 mem=1Gi", name="alone"))
    await site.turns()
    closed = Site(Apps(), warn="restricted", admission="disabled")
    await closed.makes(pod("web-1"))
    await closed.turns()

    assert (site.events, closed.events) == ([], [])


async def test_audit_alone_tells_nobody() -> None:
    site = Site(Apps(), audit="restricted")
    await site.makes(pod("web-1"))
    await site.turns()

    assert site.events == []


async def test_only_who_leads_tells() -> None:
    site = Site(Apps({"web-5d": replica_set("web-5d", DEPLOYMENT)}))
    site.leads = False
    await site.makes(pod("web-1"))
    await site.turns()
    assert (site.events, site.apps.asked) == ([], 0)

    site.leads = True
    await site.turns()
    assert len(site.events) == 1


async def test_owners_are_told_slowly_and_no_more_of_them_wait_than_there_is_room_for() -> None:
    site = Site(Apps())
    kind = {"kind": "Job", "apiVersion": "batch/v1"}
    await site.makes(*(pod(f"p-{at}", f"job-{at}", **kind) for at in range(MOST_WAITING + 10)))
    await site.turns(1)
    assert len(site.events) == PER_TURN

    await site.turns(MOST_WAITING)
    assert len(site.events) == MOST_WAITING


@pytest.mark.parametrize(("name", "kind"), [("other", "Job"), ("job", "CronJob")])
async def test_a_uid_that_a_pod_claims_keeps_no_event_from_another_owner(name: str, kind: str) -> None:
    site = Site(Apps())
    await site.makes(pod("evil-1", name, kind=kind, apiVersion="batch/v1", uid="uid-of-job"))
    await site.turns()
    await site.makes(pod("job-1", "job", kind="Job", apiVersion="batch/v1"))
    await site.turns()

    assert site.said()[1:] == [("Job", "job", "batch/v1")]


async def test_a_uid_that_is_claimed_in_another_namespace_keeps_no_event_from_its_owner() -> None:
    site = Site(Apps())
    site.cluster.namespaces["evil"] = WANTS
    claims = pod("evil-1", "job", kind="Job", apiVersion="batch/v1")
    await site.makes({**claims, "metadata": {**claims["metadata"], "namespace": "evil"}})
    await site.turns()
    await site.makes(pod("job-1", "job", kind="Job", apiVersion="batch/v1"))
    await site.turns()

    assert [event.namespace for event in site.events] == ["evil", TEAM]


async def test_without_the_right_to_replica_sets_these_are_told_and_it_is_said_once() -> None:
    site = Site(Apps(fails=Forbidden("a role has to allow it")))
    await site.makes(pod("web-1"), pod("api-1", "api-7f"))
    await site.turns()

    assert site.said() == [("ReplicaSet", "web-5d", "apps/v1"), ("ReplicaSet", "api-7f", "apps/v1")]
    assert len(site.told.of("owner.forbidden")) == 1


async def test_a_replica_set_that_cannot_be_read_is_told_itself() -> None:
    site = Site(Apps(fails=Unreachable("nobody answers")))
    await site.makes(pod("web-1"))
    await site.turns()

    assert site.said() == [("ReplicaSet", "web-5d", "apps/v1")]
    assert site.told.of("owner.unreadable")


async def test_another_replica_set_of_that_name_says_nothing_of_this_one() -> None:
    stranger = {"metadata": {"name": "web-5d", "uid": "another", "ownerReferences": [DEPLOYMENT]}}
    site = Site(Apps({"web-5d": stranger}))
    await site.makes(pod("web-1"))
    await site.turns()

    assert site.said() == [("ReplicaSet", "web-5d", "apps/v1")]


async def test_what_breaks_is_logged_and_ends_nothing() -> None:
    site = Site(Apps(fails=ValueError("unheard of")))
    await site.makes(pod("web-1"))

    class Enough(Exception):
        """Ends the run."""

    async def end(_seconds: float) -> None:
        raise Enough

    site.owner_events.sleep = end
    with pytest.raises(Enough):
        await site.owner_events.run()

    assert site.told.of("owner.internal_error")
