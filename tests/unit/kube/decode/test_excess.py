"""How much may be in a pod before it is left as it is, and that it costs nothing to find out."""

from collections.abc import Callable
from typing import Any

import pytest

from numalign.cache import pod_question as limits
from numalign.cache.pod_question import ExceededLimit
from numalign.kube.decode.excess import crowded, excess
from numalign.kube.decode.parts import Part
from numalign.kube.decode.scheduling import scheduling
from numalign.model.constraints import ANYWHERE
from tests.worlds.notation import table
from tests.worlds.objects import Json as Raw

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EXISTS = {"key": "zone", "operator": "Exists"}


def with_nodes(**affinity: object) -> Raw:
    return {"spec": {"affinity": {"nodeAffinity": affinity}}}


def terms(count: int, **term: object) -> Raw:
    return with_nodes(**{REQUIRED: {"nodeSelectorTerms": [term or {"matchExpressions": [EXISTS]}] * count}})


SEVERAL = {"key": "zone", "operator": "In"}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
PREFERENCE = {"weight": 1, "preference": {}}

MEASURED: list[tuple[str, Callable[[int], Raw], int, ExceededLimit]] = [
    # what there is, how to have so many, the most, what it is called
    ("owners", lambda count: {"metadata": {"ownerReferences": [OWNER] * count}, "spec": {}},
        limits.MOST_OWNERS, ExceededLimit.OWNERS),
    ("terms", terms, limits.MOST_TERMS, ExceededLimit.TERMS),
    ("preferences", lambda count: with_nodes(**{PREFERRED: [PREFERENCE] * count}),
        limits.MOST_TERMS, ExceededLimit.TERMS),
    ("expressions", lambda count: terms(1, matchExpressions=[EXISTS] * count),
        limits.MOST_REQUIREMENTS, ExceededLimit.REQUIREMENTS),
    ("fields", lambda count: terms(2, matchFields=[EXISTS] * (count - count // 2)),
        limits.MOST_REQUIREMENTS, ExceededLimit.REQUIREMENTS),
    ("values", lambda count: terms(2, matchExpressions=[{**SEVERAL, "values": ["z"] * (count - count // 2)}]),
        limits.MOST_VALUES, ExceededLimit.VALUES),
    ("selected", lambda count: {"spec": {"nodeSelector": dict.fromkeys(map(str, range(count)), "x")}},
        limits.MOST_SELECTED, ExceededLimit.SELECTOR),
    ("tolerations", lambda count: {"spec": {"tolerations": [{"operator": "Exists"}] * count}},
        limits.MOST_TOLERATIONS, ExceededLimit.TOLERATIONS),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most", "name"), table(MEASURED))
def test_limits_of_a_pod(made: Callable[[int], Raw], most: int, name: ExceededLimit) -> None:
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
    made: Callable[[int], Raw], most: int, name: ExceededLimit, made_parts: list[object]
) -> None:
    pod = made(100 * most)
    found = scheduling(pod)
    assert (found.excess, found.pin, found.mistakes) == (name, None, ())
    assert found.constraints is ANYWHERE
    assert len(made_parts) < 20


def test_an_excessive_daemon_pod_stays_on_its_node() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}
    assert scheduling({**terms(limits.MOST_TERMS + 1), "metadata": {"ownerReferences": [owner]}}).pin
