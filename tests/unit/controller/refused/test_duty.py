"""Which rejected pods are considered, and that those that are gone are forgotten."""

from types import SimpleNamespace
from typing import Any

import pytest

from controller.refused.duty import MOST_GONE, RefusedPods, heals
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import PodInfo
from numalign.model import intent
from numalign.model.intent import NamespaceRules
from numalign.model.steps import finished
from tests.unit.controller.pods import refused, running
from tests.worlds.clusters import a_cluster
from tests.worlds.notation import table
from tests.worlds.scorer import TEAM


def rules(**labels: str) -> NamespaceRules:
    return intent.parse_namespace({f"numalign.io/{key}": value for key, value in labels.items()})[0]


class Duty:
    """The rejected pods of a namespace whose watched label is `heal: failed`, and its stored `labels`."""

    def __init__(self) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.labels: dict[str, str] = {}
        placing: Any = SimpleNamespace(
            state=SimpleNamespace(pods=self.pods, cluster=a_cluster(rules={TEAM: rules(heal="failed")})),
            settings=SimpleNamespace(keep_refused=1),
            policy=SimpleNamespace(now=EffectivePolicy().policy),
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
