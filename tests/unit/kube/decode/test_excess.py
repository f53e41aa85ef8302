"""How much may be in a pod before it is left as it is, and that it costs nothing to find out."""

from typing import Any

import pytest

from numalign.cache.pod_question import (
    MOST_OWNERS,
    MOST_REQUIREMENTS,
    MOST_SELECTED,
    MOST_TERMS,
    MOST_TOLERATIONS,
    MOST_VALUES,
    ExceededLimit,
)
from numalign.kube.decode.excess import crowded, excess
from numalign.kube.decode.parts import Part
from numalign.kube.decode.scheduling import scheduling
from numalign.model.constraints import ANYWHERE
from tests.worlds.notation import table

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EXISTS = {"key": "zone", "operator": "Exists"}


Raw = dict[str, Any]


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


def selected(count: int) -> Raw:
    return {"spec": {"nodeSelector": {str(number): "x" for number in range(count)}}}


def tolerations(count: int) -> Raw:
    return {"spec": {"tolerations": [{"operator": "Exists"}] * count}}


MEASURED = [
    # what there is  how to have so many, the most, what it is called
    ("owners",       owners,       MOST_OWNERS,       ExceededLimit.OWNERS),
    ("terms",        terms,        MOST_TERMS,        ExceededLimit.TERMS),
    ("preferences",  preferences,  MOST_TERMS,        ExceededLimit.TERMS),
    ("expressions",  expressions,  MOST_REQUIREMENTS, ExceededLimit.REQUIREMENTS),
    ("fields",       fields,       MOST_REQUIREMENTS, ExceededLimit.REQUIREMENTS),
    ("values",       values,       MOST_VALUES,       ExceededLimit.VALUES),
    ("selected",     selected,     MOST_SELECTED,     ExceededLimit.SELECTOR),
    ("tolerations",  tolerations,  MOST_TOLERATIONS,  ExceededLimit.TOLERATIONS),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_limits_of_a_pod(made: Any, most: int, name: ExceededLimit) -> None:  # noqa: ANN401
    assert excess(made(most)) is None
    assert excess(made(most + 1)) is name
    assert crowded(made(most + 1)) is (name is ExceededLimit.OWNERS)


@pytest.fixture
def made_parts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    made: list[object] = []
    begin = Part.__init__

    def counted(part: Part, value: object, *rest: Any) -> None:  # noqa: ANN401
        made.append(value)
        begin(part, value, *rest)

    monkeypatch.setattr(Part, "__init__", counted)
    return made


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_an_excessive_pod_is_not_read(
    made: Any,  # noqa: ANN401
    most: int,
    name: ExceededLimit,
    made_parts: list[object],
) -> None:
    pod = made(100 * most)
    found = scheduling(pod)
    assert (found.excess, found.pin, found.mistakes) == (name, None, ())
    assert found.constraints is ANYWHERE
    assert len(made_parts) < 20


def test_an_excessive_daemon_pod_stays_on_its_node() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}
    assert scheduling({**terms(MOST_TERMS + 1), "metadata": {"ownerReferences": [owner]}}).pin
