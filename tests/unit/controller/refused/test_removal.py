"""Which rejected pods may be deleted: read the table to learn the rule."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.refused.removal import (
    JOB_TRACKING,
    MOST_GONE,
    RefusedPods,
    Removal,
    heals,
    removals,
    still_lives,
    why_not,
)
from numalign.kube.decode.parts import Part
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import Owner, Phase, PodInfo
from numalign.model import intent
from numalign.model.intent import NamespaceRules
from numalign.model.steps import finished
from tests.unit.controller.pods import JOB, WEB, Json, refused, running, stored
from tests.worlds.notation import table
from tests.worlds.scorer import TEAM

FOUR = [refused(f"r{number}", number) for number in range(4)]
ALIVE = running("web", 9)
REMOVAL = Removal(FOUR[0], WEB, ALIVE, 3)


def removed(*pods: PodInfo, keep: int = 3, healing: tuple[str, ...] = (TEAM,)) -> list[str]:
    due = finished(removals(pods, pods, heals=lambda namespace: namespace in healing, keep=keep))
    return [removal.pod.name for removal in due]


OTHER = Owner("apps", "ReplicaSet", "other", "u9")
CASES: list[tuple[str, list[PodInfo], dict[str, object], list[str]]] = [
    ("the oldest goes, three stay", [*FOUR, ALIVE], {}, ["r0"]),
    ("none stays", [*FOUR, ALIVE], {"keep": 0}, ["r0", "r1", "r2", "r3"]),
    ("the namespace has no healing", [*FOUR, ALIVE], {"healing": ()}, []),
    ("no other is active", FOUR, {}, []),
    ("a pending one is active", [*FOUR, replace(ALIVE, phase=Phase.PENDING, node="")], {}, ["r0"]),
    ("one of the same second counts", [*FOUR, running("web", 0)], {"keep": 0}, ["r0"]),
    ("an older one does not", [*FOUR, running("web", -1)], {"keep": 0}, []),
    ("a deleted one does not", [*FOUR, replace(ALIVE, leaving=True)], {}, []),
    ("a succeeded one does not", [*FOUR, replace(ALIVE, phase=Phase.SUCCEEDED)], {}, []),
    ("one of another owner does not", [*FOUR, replace(ALIVE, owner=OTHER)], {}, []),
    ("other failures do not", [replace(FOUR[0], reason="Error"), *FOUR[1:], ALIVE], {"keep": 2}, ["r1"]),
    ("each owner is counted alone",
        [*FOUR, ALIVE, *(replace(pod, uid=f"o{pod.uid}", owner=OTHER) for pod in (*FOUR[1:], ALIVE))],
        {}, ["r0"]),
    *((f"owner {own}", [replace(pod, owner=own) for pod in (*FOUR, ALIVE)], {}, names) for own, names in [
        (JOB, ["r0"]),
        (WEB._replace(group="", kind="ReplicationController"), ["r0"]),
        (WEB._replace(kind="StatefulSet"), []),
        (WEB._replace(group="apps.kruise.io"), []),
        (WEB._replace(uid=""), []),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "rules", "names"), table(CASES))
def test_removed_pods(pods: list[PodInfo], rules: dict[str, object], names: list[str]) -> None:
    assert removed(*pods, **rules) == names  # type: ignore[arg-type]


def test_removals_among_many_pods_take_many_steps() -> None:
    pods = [*FOUR, running("old", 5), *(running(f"p{at}", owner=None) for at in range(10_000)), ALIVE]

    assert sum(1 for _ in removals(FOUR, pods, heals=lambda _: True, keep=3)) > 30
    # The newest active one is named.
    [removal] = finished(removals(FOUR, pods, heals=lambda _: True, keep=3))
    assert removal == REMOVAL


made = st.builds(
    lambda number, age, failed, owner, leaving, phase, namespace: replace(
        (refused if failed else running)(f"p{number}", age, owner, leaving=leaving),
        namespace=namespace,
        **({} if failed else {"phase": phase}),
    ),
    st.integers(0, 10**6),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from([WEB, JOB, None, WEB._replace(kind="StatefulSet", uid="u3")]),
    st.booleans(),
    st.sampled_from(list(Phase)),
    st.sampled_from([TEAM, "other"]),
)


@given(st.lists(made, max_size=30, unique_by=lambda pod: pod.uid), st.integers(0, 3))
def test_enough_rejected_pods_and_an_active_one_stay(pods: list[PodInfo], keep: int) -> None:
    due = finished(removals(pods, pods, heals=lambda namespace: namespace == TEAM, keep=keep))
    leaving = {removal.pod.uid for removal in due}

    for removal in due:
        pod, another = removal.pod, removal.another
        alike = [each for each in pods if each.owner == pod.owner and each.namespace == pod.namespace == TEAM]
        stay = [each for each in alike if each.reason and not each.leaving and each.uid not in leaving]
        assert len([each for each in stay if each.created >= pod.created]) == len(stay) == keep
        assert another in alike
        assert another.phase in {Phase.PENDING, Phase.RUNNING}
        assert another.created >= pod.created
        assert pod.reason
        assert not pod.leaving
        assert not another.leaving


# As stored.


def but(made: Json, **parts: dict[str, object]) -> Json:
    """The same with other members in its metadata or its status."""
    return {**made, **{part: {**made[part], **members} for part, members in parts.items()}}


CHANGES: list[tuple[str, dict[str, dict[str, object]], str | None, bool]] = [
    # the change                  its members                                          rejected    active
    ("none",                      {},                                                  None,       True),
    ("another pod of its name",   {"metadata": {"uid": "x"}},                          "changed",  False),
    ("a deletion",                {"metadata": {"deletionTimestamp": "now"}},          "changed",  False),
    ("a finalizer",               {"metadata": {"finalizers": ["x"]}},                 None,       True),
    ("the finalizer of a Job",    {"metadata": {"finalizers": ["x", JOB_TRACKING]}},   "uncounted", True),
    ("running",                   {"status": {"phase": "Running"}},                    "changed",  True),
    ("failed otherwise",          {"status": {"phase": "Failed", "reason": "Evicted"}}, "changed", False),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "reason", "active"), table(CHANGES))
def test_stored_pods_after(parts: dict[str, dict[str, object]], reason: str | None, *, active: bool) -> None:
    assert why_not(REMOVAL, Part(but(stored(FOUR[0]), **parts))) == reason
    assert still_lives(REMOVAL, Part(but(stored(ALIVE), **parts))) is active
    assert (why_not(REMOVAL, Part({})), still_lives(REMOVAL, Part({}))) == ("changed", False)


# Those that exist.


def rules(**labels: str) -> NamespaceRules:
    return intent.parse_namespace({f"numalign.io/{key}": value for key, value in labels.items()})[0]


class Duty:
    """The rejected pods of a namespace whose watched label is `heal: failed`, and its stored `labels`."""

    def __init__(self) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.labels: dict[str, str] = {}
        placing: Any = SimpleNamespace(
            state=SimpleNamespace(pods=self.pods),
            settings=SimpleNamespace(keep_refused=1),
            policy=SimpleNamespace(now=EffectivePolicy().policy),
            effective_policy=lambda: EffectivePolicy(rules={TEAM: rules(heal="failed")}),
            api=self,
        )
        self.refused = RefusedPods(placing)

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        assert (path, what, bool(most)) == (f"/api/v1/namespaces/{TEAM}", f"namespace {TEAM}", True)
        return {"metadata": {"name": TEAM, "labels": self.labels}}

    def watch(self, *pods: PodInfo) -> None:
        for pod in pods:
            before = self.pods.get(pod.uid)
            self.pods[pod.uid] = pod
            self.refused.update_pod(pod, before)

    def due(self) -> list[str]:
        return [removal.pod.name for removal in finished(self.refused.due())]


async def test_rejected_pods_are_due_while_they_exist() -> None:
    duty = Duty()
    assert duty.due() == []
    duty.watch(running("r0", 0), refused("r1", 1), running("web", 2))
    assert duty.due() == []
    duty.watch(refused("r0", 0))
    assert duty.due() == ["r0"]
    # The label as it is stored decides.
    assert not await duty.refused.permitted(TEAM)
    duty.labels = {"numalign.io/heal": "failed"}
    assert await duty.refused.permitted(TEAM)

    for number in range(3 * MOST_GONE):
        duty.watch(refused(f"gone-{number}"))
        duty.pods.clear()
    assert (duty.due(), len(duty.refused) <= MOST_GONE) == ([], True)
    duty.watch(*(refused(f"r{number}", number) for number in range(2 * MOST_GONE)), running("web", 10**6))
    assert len(duty.due()) == 2 * MOST_GONE - 1


NAMESPACES: list[tuple[str, dict[str, str], bool]] = [
    ("failed",    {"heal": "failed"},                           True),
    ("none",      {"heal": "none"},                             False),
    ("no label",  {},                                           False),
    ("exempt",    {"heal": "failed", "admission": "disabled"},  False),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "may"), table(NAMESPACES))
def test_removal_by_the_labels_of_the_namespace(labels: dict[str, str], *, may: bool) -> None:
    assert heals(EffectivePolicy(rules={TEAM: rules(**labels)}), TEAM) is may
