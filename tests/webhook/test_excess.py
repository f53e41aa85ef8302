"""How much may be in a pod before it is left as it is, and that it costs nothing to find out."""

from typing import Any

import pytest

from numalign.cluster.parts import Part
from numalign.fleet.pod_question import MOST_OWNERS, MOST_REQUIREMENTS, MOST_TERMS, MOST_VALUES, Excess
from tests.notation import table
from tests.webhook.conftest import Raw
from webhook.excess import Unsteered, crowded, excess
from webhook.patch import Mode, Operator, Requirement, inject, pinned

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NOT_A = Requirement("numalign.io/class", Operator.NOT_IN, ("a",))
EXISTS = {"key": "zone", "operator": "Exists"}


def with_nodes(**affinity: object) -> Raw:
    return {"spec": {"affinity": {"nodeAffinity": affinity}}}


def terms(count: int, **term: object) -> Raw:
    return with_nodes(**{REQUIRED: {"nodeSelectorTerms": [term or {"matchExpressions": [EXISTS]}] * count}})


def expressions(count: int) -> Raw:
    return terms(1, matchExpressions=[EXISTS] * count)


def fields(count: int) -> Raw:
    return terms(2, matchFields=[EXISTS] * (count // 2 + count % 2))


def values(count: int) -> Raw:
    several = {"key": "zone", "operator": "In", "values": ["z"] * (count - count // 2)}
    return terms(2, matchExpressions=[several])


def preferences(count: int) -> Raw:
    return with_nodes(**{PREFERRED: [{"weight": 1, "preference": {}}] * count})


def owners(count: int) -> Raw:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    return {"metadata": {"ownerReferences": [owner] * count}, "spec": {}}


MEASURED = [
    # what there is  how to have so many, the most, what it is called
    ("owners",       owners,       MOST_OWNERS,       Excess.OWNERS),
    ("terms",        terms,        MOST_TERMS,        Excess.TERMS),
    ("preferences",  preferences,  MOST_TERMS,        Excess.TERMS),
    ("expressions",  expressions,  MOST_REQUIREMENTS, Excess.REQUIREMENTS),
    ("fields",       fields,       MOST_REQUIREMENTS, Excess.REQUIREMENTS),
    ("values",       values,       MOST_VALUES,       Excess.VALUES),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_there_may_be_so_many_and_no_more(made: Any, most: int, name: Excess) -> None:  # noqa: ANN401
    assert excess(made(most)) is None
    assert excess(made(most + 1)) is name
    assert crowded(made(most + 1)) is (name is Excess.OWNERS)


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_a_pod_with_more_is_not_patched_and_not_pinned(made: Any, most: int, name: Excess) -> None:  # noqa: ANN401
    assert pinned(made(most + 1)) is None
    with pytest.raises(Unsteered, match=f"^{name}$"):
        inject(made(most + 1), NOT_A, mode=Mode.EXCLUDE)


@pytest.fixture
def made_parts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A list that grows with every value that is read."""
    made: list[object] = []
    begin = Part.__init__

    def counted(part: Part, value: object, *rest: Any) -> None:  # noqa: ANN401
        made.append(value)
        begin(part, value, *rest)

    monkeypatch.setattr(Part, "__init__", counted)
    return made


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_of_what_there_is_too_much_of_nothing_is_read(
    made: Any,  # noqa: ANN401
    most: int,
    name: Excess,
    made_parts: list[object],
) -> None:
    pod = made(100 * most)

    with pytest.raises(Unsteered, match=name):
        inject(pod, NOT_A, mode=Mode.EXCLUDE)

    assert len(made_parts) < 20


def test_a_daemons_pod_stays_on_its_node_however_many_terms_there_are() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}

    assert pinned({**terms(MOST_TERMS + 1), "metadata": {"ownerReferences": [owner]}}) is not None


ODD: list[Any] = [
    {},
    {"spec": None},
    {"spec": [{}]},
    with_nodes(**{REQUIRED: []}),
    with_nodes(**{REQUIRED: {"nodeSelectorTerms": {}}}),
    with_nodes(**{REQUIRED: {"nodeSelectorTerms": [None, 7, {"matchExpressions": 7}]}}),
    with_nodes(**{REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [None, {"values": 7}]}]}}),
    with_nodes(**{PREFERRED: {}}),
    {"metadata": {"ownerReferences": 7}},
]


@pytest.mark.parametrize("pod", ODD, ids=str)
def test_what_has_another_shape_is_not_too_much_of_anything(pod: Raw) -> None:
    assert excess(pod) is None


def test_a_patch_may_be_so_long_and_no_longer() -> None:
    few, many = (
        Requirement("numalign.io/class", Operator.NOT_IN, tuple(f"{number:063}" for number in range(count)))
        for count in (10, 100)
    )

    assert len(inject(terms(MOST_TERMS), few, mode=Mode.EXCLUDE)) == MOST_TERMS
    with pytest.raises(Unsteered, match="longer than 524288 bytes"):
        inject(terms(MOST_TERMS), many, mode=Mode.EXCLUDE)
