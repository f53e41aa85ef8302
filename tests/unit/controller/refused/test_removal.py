"""Which refused pods may go: read the table to learn the rule."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.refused.removal import JOB_TRACKING, Removal, removals, still_lives, why_not
from numalign.kube.decode.parts import Part
from numalign.kube.pod_informer import Owner, Phase, PodInfo
from numalign.model.steps import finished
from tests.unit.controller.refused.pods import JOB, TEAM, WEB, Json, refused, running, stored
from tests.worlds.notation import table

FOUR = [refused(f"r{number}", number) for number in range(4)]
LIVES = running("web", 9)


def gone(*pods: PodInfo, keep: int = 3, healing: tuple[str, ...] = (TEAM,)) -> list[str]:
    """The names of those that may go."""
    due = finished(removals(pods, pods, heals=lambda namespace: namespace in healing, keep=keep))
    return [removal.pod.name for removal in due]


OTHER = Owner("apps", "ReplicaSet", "other", "u9")
CASES: list[tuple[str, list[PodInfo], dict[str, object], list[str]]] = [
    ("the oldest goes, three are kept", [*FOUR, LIVES], {}, ["r0"]),
    ("as many are kept as somebody says", [*FOUR, LIVES], {"keep": 1}, ["r0", "r1", "r2"]),
    ("also none", [*FOUR, LIVES], {"keep": 0}, ["r0", "r1", "r2", "r3"]),
    ("no more than are kept are there", [*FOUR[:3], LIVES], {}, []),
    ("the namespace says nothing", [*FOUR, LIVES], {"healing": ()}, []),
    ("no other lives", FOUR, {}, []),
    ("one that waits lives", [*FOUR, replace(LIVES, phase=Phase.PENDING, node="")], {}, ["r0"]),
    ("one made in the same second counts", [*FOUR, running("web", 0)], {"keep": 0}, ["r0"]),
    ("one made before does not", [*FOUR, running("web", -1)], {"keep": 0}, []),
    ("one that leaves does not", [*FOUR, replace(LIVES, leaving=True)], {}, []),
    ("one that succeeded does not", [*FOUR, replace(LIVES, phase=Phase.SUCCEEDED)], {}, []),
    ("one that nobody has heard of lately does not", [*FOUR, replace(LIVES, phase=Phase.UNKNOWN)], {}, []),
    ("one of another owner does not", [*FOUR, replace(LIVES, owner=OTHER)], {}, []),
    ("one of another namespace does not", [*FOUR, replace(LIVES, namespace="other")], {}, []),
    ("one without owner does not", [*FOUR, replace(LIVES, owner=None)], {}, []),
    ("those that leave are not kept, nor removed",
        [replace(FOUR[0], leaving=True), *FOUR[1:], LIVES], {"keep": 2}, ["r1"]),
    ("those that failed otherwise are not kept, nor removed",
        [replace(FOUR[0], reason="Error"), *FOUR[1:], LIVES], {"keep": 2}, ["r1"]),
    ("bare pods stay", [replace(pod, owner=None) for pod in (*FOUR, LIVES)], {"keep": 0}, []),
    ("each owner has its own that are kept",
        [*FOUR, LIVES, *(replace(pod, uid=f"o{pod.uid}", owner=OTHER) for pod in (*FOUR[1:], LIVES))],
        {}, ["r0"]),
]  # fmt: skip


@pytest.mark.parametrize(("pods", "rules", "names"), table(CASES))
def test_of_refused_pods(pods: list[PodInfo], rules: dict[str, object], names: list[str]) -> None:
    assert gone(*pods, **rules) == names  # type: ignore[arg-type]


OWNERS = [
    # who made them                      they may go
    (WEB,                                True),
    (JOB,                                True),
    (WEB._replace(group="", kind="ReplicationController"), True),
    (WEB._replace(kind="StatefulSet"),   False),
    (WEB._replace(kind="DaemonSet"),     False),
    (WEB._replace(group="apps.kruise.io"), False),
    (WEB._replace(group="argoproj.io", kind="Workflow"), False),
    (WEB._replace(uid=""),               False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "may_go"),
    OWNERS,
    ids=[f"{o.group}/{o.kind}{'' if o.uid else ' without uid'}" for o, _ in OWNERS],
)
def test_only_pods_of_owners_that_do_not_miss_them_may_go(owner: Owner, *, may_go: bool) -> None:
    pods = [replace(pod, owner=owner) for pod in (*FOUR, LIVES)]

    assert gone(*pods) == (["r0"] if may_go else [])


def test_it_is_said_which_other_lives_and_how_many_are_kept() -> None:
    pods = [*FOUR, running("old", 5), LIVES]

    [removal] = finished(removals(FOUR, pods, heals=lambda _: True, keep=3))
    assert removal == Removal(FOUR[0], WEB, LIVES, 3)


def test_among_very_many_pods_others_have_a_turn() -> None:
    pods = [*FOUR, *(running(f"p{number}", owner=None) for number in range(10_000)), LIVES]

    assert sum(1 for _ in removals(FOUR, pods, heals=lambda _: True, keep=3)) > 30


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
def test_whatever_there_is_enough_are_kept_and_somebody_lives(pods: list[PodInfo], keep: int) -> None:
    due = finished(removals(pods, pods, heals=lambda namespace: namespace == TEAM, keep=keep))
    leaving = {removal.pod.uid for removal in due}

    for removal in due:
        pod, another = removal.pod, removal.another
        alike = [each for each in pods if each.owner == pod.owner and each.namespace == pod.namespace == TEAM]
        kept = [each for each in alike if each.reason and not each.leaving and each.uid not in leaving]
        assert len([each for each in kept if each.created >= pod.created]) == len(kept) == keep
        assert another in alike
        assert another.phase in {Phase.PENDING, Phase.RUNNING}
        assert another.created >= pod.created
        assert pod.reason
        assert not pod.leaving
        assert not another.leaving


# As the API server has them.

REMOVAL = Removal(FOUR[0], WEB, LIVES, 3)
POD, ANOTHER = stored(FOUR[0]), stored(LIVES)


def but(made: Json, **parts: dict[str, object]) -> Json:
    """The same with other members in its metadata or its status."""
    return {**made, **{part: {**made[part], **members} for part, members in parts.items()}}


STORED: list[tuple[str, Json, str | None]] = [
    ("as it was seen",           POD,                                              None),
    ("with a finalizer of others", but(POD, metadata={"finalizers": ["x"]}),       None),
    ("another of its name",      but(POD, metadata={"uid": "x"}),                  "changed"),
    ("being deleted",            but(POD, metadata={"deletionTimestamp": "now"}),  "changed"),
    ("given to another owner",   but(POD, metadata={"ownerReferences": []}),       "changed"),
    ("running",                  but(POD, status={"phase": "Running"}),            "changed"),
    ("failed for another reason", but(POD, status={"reason": "Evicted"}),          "changed"),
    ("not counted by its Job",   but(POD, metadata={"finalizers": ["x", JOB_TRACKING]}), "uncounted"),
    ("nothing",                  {},                                               "changed"),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "reason"), table(STORED))
def test_a_pod_that_is_stored(pod: Json, reason: str | None) -> None:
    assert why_not(REMOVAL, Part(pod)) == reason


LIVING: list[tuple[str, Json, bool]] = [
    ("as it was seen",           ANOTHER,                                             True),
    ("waiting",                  but(ANOTHER, status={"phase": "Pending"}),           True),
    ("another of its name",      but(ANOTHER, metadata={"uid": "x"}),                 False),
    ("being deleted",            but(ANOTHER, metadata={"deletionTimestamp": "now"}), False),
    ("given to another owner",   but(ANOTHER, metadata={"ownerReferences": []}),      False),
    ("failed",                   but(ANOTHER, status={"phase": "Failed"}),            False),
    ("nothing",                  {},                                                  False),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "lives"), table(LIVING))
def test_the_other_that_is_stored_lives_if_it_is(pod: Json, *, lives: bool) -> None:
    assert still_lives(REMOVAL, Part(pod)) is lives
