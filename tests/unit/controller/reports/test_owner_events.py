"""The owner of pods that request less than their namespace expects gets an event, once."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from controller.reports.owner_events import EVENT, MOST_WAITING, PER_TURN, OwnerEvents
from numalign.kube.errors import NotFound
from numalign.kube.events import Event, Type
from tests.unit.controller.conftest import Replica
from tests.unit.controller.healing.conftest import ROOMY, Cluster, Leader, owned
from tests.worlds.notation import table
from tests.worlds.scorer import TEAM, raw

Json = dict[str, Any]

WARN = {"warn": "restricted"}
EXPECTED = "this namespace expects NUMA alignment restricted; the pod requests nothing"
WHY = f"its pods are admitted with a warning: {EXPECTED}"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d1", "controller": True}
JOB = {"kind": "Job", "apiVersion": "batch/v1"}


def replica_set(*owners: Json, uid: str = "uid-of-web-5d") -> Json:
    return {"metadata": {"name": "web-5d", "uid": uid, "ownerReferences": [*owners]}}


def pod(name: str, owner: str = "web-5d", *, policy: str | None = None, **reference: str) -> Json:
    """A pod of a ReplicaSet, or of the owner in `reference`."""
    return owned(raw("cpu=2 mem=1Gi", name=name, policy=policy), owner, **reference)


@dataclass
class OwnerWarning(Replica):
    """The events of a cluster with one node, and its ReplicaSet `web-5d`, if there is one."""

    stored: Json | None = None
    labels: dict[str, str] = field(default_factory=lambda: WARN)
    api: Any = None
    reads: int = 0
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cluster = Cluster({"a": ROOMY}, namespaces={TEAM: self.labels})
        state = Leader(self.cluster).state
        server: Any = self.api or self
        self.owner_events = OwnerEvents(
            api=server,
            state=state,
            leading=self.leading,
            publish=self.events.append,
            log=self.log.log,
            sleep=self.sleep,
        )
        state.watchers = (*state.watchers, self.owner_events.update_pod)

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        assert most
        self.reads += 1
        prefix, _, name = path.rpartition("/")
        assert prefix == f"/apis/apps/v1/namespaces/{TEAM}/replicasets"
        if self.stored is None or self.stored["metadata"]["name"] != name:
            raise NotFound(what)
        return self.stored

    async def create(self, *pods: Json, turns: int = 3) -> list[tuple[str, str, str]]:
        """Pods are created; return the objects of all events after some turns: kind, name and version."""
        await self.cluster.publish()
        for made in pods:
            self.cluster.put(made)
        for _ in range(turns):
            await self.owner_events.turn()
        return [(event.kind, event.pod, event.api_version) for event in self.events]


ITSELF = [("ReplicaSet", "web-5d", "apps/v1")]
OWN = {"kind": "Train", "apiVersion": "example.com/v1"}
OWNERS: list[tuple[str, Json | None, Json, list[tuple[str, str, str]]]] = [
    ("the owner of a ReplicaSet", replica_set(DEPLOYMENT), pod("web-1"), [("Deployment", "web", "apps/v1")]),
    ("a ReplicaSet that is not found", None, pod("web-1"), ITSELF),
    ("a recreated ReplicaSet", replica_set(DEPLOYMENT, uid="another"), pod("web-1"), ITSELF),
    ("a Job", None, pod("job-1", "job", **JOB), [("Job", "job", "batch/v1")]),
    ("an owner of unknown version", None, pod("train-1", "train", **OWN), [("Train", "train", "")]),
    ("no owner of a pod with a policy", None, pod("web-1", policy="restricted"), []),
    ("no owner of a bare pod", None, raw("cpu=2 mem=1Gi", name="alone"), []),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "made", "expected"), table(OWNERS))
async def test_event_is_on(stored: Json | None, made: Json, expected: list[tuple[str, str, str]]) -> None:
    work = OwnerWarning(stored=stored)

    assert await work.create(made) == expected
    assert [event.message for event in work.events] == [WHY] * len(expected)
    assert work.reads == (expected != [] and "web-5d" in str(made))


@pytest.mark.parametrize("labels", [{**WARN, "admission": "disabled"}, {"audit": "restricted"}], ids=str)
async def test_labels_of_the_namespace_without_events(labels: dict[str, str]) -> None:
    assert await OwnerWarning(labels=labels).create(pod("web-1")) == []


async def test_leader_creates_one_event_for_many_pods_of_an_owner() -> None:
    work = OwnerWarning(stored=replica_set(DEPLOYMENT), leads=False)
    for at in range(5):
        assert await work.create(pod(f"web-{at}")) == []
    assert work.reads == 0

    work.leads = True
    await work.create()
    [event] = work.events
    assert (event.namespace, event.uid, event.type, event.reason) == (TEAM, "d1", Type.WARNING, EVENT)
    assert work.reads == 1


async def test_events_are_slow_and_waiting_owners_bounded() -> None:
    work = OwnerWarning()
    pods = (pod(f"p-{at}", f"job-{at}", **JOB) for at in range(MOST_WAITING + 10))

    assert len(await work.create(*pods, turns=1)) == PER_TURN
    assert len(await work.create(turns=MOST_WAITING)) == MOST_WAITING


@pytest.mark.parametrize(("namespace", "name"), [(TEAM, "other"), ("evil", "job")])
async def test_claimed_uid_suppresses_no_event(namespace: str, name: str) -> None:
    work = OwnerWarning()
    work.cluster.namespaces["evil"] = WARN
    claim = pod("evil-1", name, **JOB, uid="uid-of-job")
    await work.create({**claim, "metadata": {**claim["metadata"], "namespace": namespace}})

    assert (await work.create(pod("job-1", "job", **JOB)))[1:] == [("Job", "job", "batch/v1")]
    assert [event.namespace for event in work.events] == [namespace, TEAM]
