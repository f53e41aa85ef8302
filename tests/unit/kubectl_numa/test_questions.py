"""Decisions about a pod: its intent, who places it, and mistakes that the API server would refuse."""

from dataclasses import replace
from typing import Any

import pytest

from kubectl_numa.questions import ClusterView, PodDecision
from numalign.model.attributes import Attributes, Labels, Taint
from numalign.model.errors import BadPod
from numalign.model.intent import UNRULED, Gate, NamespaceRules
from tests.unit.kubectl_numa.objects import GATE, SINGLE, view
from tests.worlds.notation import GPU, node, table
from tests.worlds.objects import Json
from tests.worlds.webhook import raw, with_spec

ALIGNED = {"numalign.io/policy": SINGLE}


def decide(pod: Json, cluster: ClusterView | None = None) -> PodDecision:
    return (cluster or view()).decide(pod, name="p", namespace="default")


@pytest.mark.parametrize(
    ("server", "uid", "qos"),
    [(36, None, "Burstable"), (37, None, "Guaranteed"), (37, "1234", "Burstable")],
    ids=["a manifest before 1.37", "a manifest since 1.37", "a stored pod"],
)
def test_a_manifest_is_completed_as_the_api_server_does(server: int, uid: str | None, qos: str) -> None:
    requests = {"requests": {"cpu": "2", "memory": "1Gi"}}
    pod = with_spec(raw("cpu=2 mem=1Gi", annotations=ALIGNED), resources=requests)
    pod["metadata"] |= {"uid": uid} if uid else {}

    assert decide(pod, view(server=server)).demand.qos == qos


BOTH = NamespaceRules(scheduler="second", gate=Gate.ENABLED)
GATED = NamespaceRules(gate=Gate.ENABLED)
PLACERS: list[tuple[str, int, dict[str, Any], NamespaceRules, str | None, str | None]] = [
    # its CPUs, its spec, the rules of its namespace, its scheduler and its gate
    ("routed",              2, {},                           BOTH,    "second", None),
    ("gated",               2, {},                           GATED,   None,     GATE),
    ("no rules",            2, {},                           UNRULED, None,     None),
    ("too long a spec",     2, {"tolerations": [{}] * 513},  BOTH,    None,     None),
]  # fmt: skip


@pytest.mark.parametrize(("cpus", "spec", "rules", "scheduler", "gate"), table(PLACERS))
def test_a_pod_is_placed_by(
    cpus: int, spec: dict[str, Any], rules: NamespaceRules, scheduler: str | None, gate: str | None
) -> None:
    cluster = view(node("cpu=8 mem=8Gi", policy=SINGLE), rules=rules)
    pod = with_spec(raw(f"cpu={cpus} mem=1Gi", annotations=ALIGNED), **spec)
    created = decide(pod, cluster)
    stored = decide({**pod, "metadata": {**pod["metadata"], "uid": "1234"}}, cluster)

    assert (created.scheduler, created.gate) == (scheduler, gate)
    assert (stored.scheduler, stored.gate, stored.handed_over) == (None, None, "")


@pytest.mark.parametrize(
    ("resource", "amount", "message"),
    [("cpu", "many", r"limits\.cpu: \"many\""), (GPU, "0.5", r"limits\[nvidia.com/gpu\]: 0\.5 is not")],
)
def test_an_invalid_pod_is_an_error_even_if_exempt(resource: str, amount: str, message: str) -> None:
    pod = raw("cpu=2")
    pod["spec"]["containers"][0]["resources"]["limits"][resource] = amount
    for rules in (UNRULED, NamespaceRules(disabled=True)):
        with pytest.raises(BadPod, match=message):
            decide(pod, view(rules=rules))


KEPT_AWAY = [
    # its spec, and the reason
    ("nothing",               {"tolerations": [{"operator": "Exists"}]},          None),
    ("a label",               {"nodeSelector": {"gpu": "a100"}},                  "no node has gpu=a100"),
    ("a taint",               {"nodeSelector": {"gpu": "h100"}},
     "it does not tolerate the taints of the nodes that it selects"),
    ("labels of two nodes",   {"nodeSelector": {"gpu": "h100", "pool": "x"}},
     "no node has all labels that its node selector and affinity require"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "reason"), table(KEPT_AWAY))
def test_no_node_is_eligible_because_of(spec: dict[str, Any], reason: str | None) -> None:
    nodes = (
        replace(node("cpu=8"), name=value, attributes=Attributes(Labels({key: value}), (Taint("a"),)))
        for key, value in (("gpu", "h100"), ("pool", "x"))
    )
    cluster = view(*nodes)
    decision = decide(with_spec(raw("cpu=2"), **spec), cluster)

    assert cluster.kept_away(decision) == reason
    assert view().kept_away(decision) is None
