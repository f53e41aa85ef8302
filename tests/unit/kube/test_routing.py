"""The scheduler or the gate that places a pod."""

from dataclasses import replace
from typing import Any

import pytest

from numalign.cache.pod_question import Pin, PinReason, PodQuestion
from numalign.kube import routing
from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.effective_policy import EffectivePolicy
from numalign.model.intent import UNRULED, Gate, NamespaceRules
from tests.worlds.manifests import pod_spec
from tests.worlds.notation import table

GATE = "numalign.io/placement"
NAMED = NamespaceRules(scheduler="second")
GATED = NamespaceRules(gate=Gate.ENABLED)
BOTH = NamespaceRules(scheduler="second", gate=Gate.ENABLED)


def question(policy: str | None, rules: NamespaceRules) -> PodQuestion:
    pod = {
        "metadata": {"annotations": {"numalign.io/policy": policy} if policy else {}},
        "spec": pod_spec("cpu=2 mem=1Gi"),
    }
    read = PodReader().read(pod, "team", EffectivePolicy(rules={"team": rules}))
    assert isinstance(read, PodQuestion)
    return read


RESTRICTED = question("restricted", UNRULED)
WAITS = {"schedulingGates": [{"name": GATE}]}
PLACED = replace(RESTRICTED, pin=Pin("n1", PinReason.NODE_NAME))


@pytest.mark.parametrize(("spec", "unruled", "rules", "scheduler", "gate"), table([
    # whom, its spec, what it asks, its namespace's rules, then its scheduler and its gate
    ("a pod of a namespace without rules", {}, RESTRICTED, UNRULED, None, None),
    ("one whose namespace names a scheduler",  {}, RESTRICTED, NAMED, "second", None),
    ("one whose namespace has gates",          {}, RESTRICTED, GATED, None, GATE),
    ("one whose namespace has both",           {}, RESTRICTED, BOTH, "second", None),
    ("one that names a scheduler",             {"schedulerName": "volcano"}, RESTRICTED, BOTH, None, None),
    ("one that was routed before",             {"schedulerName": "second"}, RESTRICTED, BOTH, None, None),
    ("one that names the default",
        {"schedulerName": "default-scheduler"}, RESTRICTED, BOTH, "second", None),
    ("one that waits at the gate",             WAITS, RESTRICTED, GATED, None, None),
    ("one that waits at the gate, routed", WAITS, RESTRICTED, BOTH, "second", None),
    ("one that is placed",                     {}, PLACED, BOTH, None, None),
    ("one that asks for nothing",              {}, question("none", UNRULED), BOTH, None, None),
]))  # fmt: skip
def test_scheduler_and_gate_of_a_pod(
    spec: dict[str, Any], unruled: PodQuestion, rules: NamespaceRules, scheduler: str | None, gate: str | None
) -> None:
    ruled = replace(unruled, rules=rules)
    assert (routing.scheduler(spec, ruled), routing.gate(spec, ruled)) == (scheduler, gate)
