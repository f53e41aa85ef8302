"""Which pods are looked at, and that those that are gone are forgotten; the rest is tested as a program."""

from types import SimpleNamespace
from typing import Any

import pytest

from controller.refused.duty import MOST_GONE, RefusedPods, heals
from numalign.kube.cluster_state import Snapshot
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import PodInfo
from numalign.model import intent
from numalign.model.intent import NamespaceRules
from numalign.model.steps import finished
from tests.unit.controller.refused.pods import TEAM, refused, running
from tests.worlds.notation import table


class World:
    """Pods that come and go, in namespaces that all want to be healed."""

    def __init__(self) -> None:
        self.pods: dict[str, PodInfo] = {}
        rules, _ = intent.parse_namespace({"numalign.io/heal": "failed"})
        snapshot = Snapshot(namespaces={TEAM: rules})
        placing: Any = SimpleNamespace(
            state=SimpleNamespace(pods=self.pods, snapshot=snapshot),
            settings=SimpleNamespace(keep_refused=1),
            policy=SimpleNamespace(now=EffectivePolicy().policy),
            api=self,
        )
        self.refused = RefusedPods(placing)
        self.labels: dict[str, str] = {}

    async def get(self, path: str, *, what: str, most: int | None = None) -> object:
        """The namespace as it is stored."""
        assert (path, what, bool(most)) == (f"/api/v1/namespaces/{TEAM}", f"namespace {TEAM}", True)
        return {"metadata": {"name": TEAM, "labels": self.labels}}

    def see(self, *pods: PodInfo) -> None:
        """They are there like this."""
        for pod in pods:
            before = self.pods.get(pod.uid)
            self.pods[pod.uid] = pod
            self.refused.update_pod(pod, before)

    def due(self) -> list[str]:
        """The names of those that may be removed."""
        return [removal.pod.name for removal in finished(self.refused.due())]


def test_refused_pods_are_due_as_long_as_they_are_there() -> None:
    world = World()
    world.see(running("r0", 0), refused("r1", 1), running("web", 2))
    assert world.due() == []

    world.see(refused("r0", 0))
    assert world.due() == ["r0"]

    del world.pods["uid-r0"]
    assert (world.due(), len(world.refused)) == ([], 1)


def test_who_never_asks_forgets_the_many_that_are_gone() -> None:
    world = World()
    for number in range(10 * MOST_GONE):
        world.see(refused(f"r{number}"))
        world.pods.clear()

    assert len(world.refused) <= MOST_GONE


def test_of_many_that_are_there_none_is_forgotten() -> None:
    world = World()
    world.see(*(refused(f"r{number}", number) for number in range(2 * MOST_GONE)), running("web", 10**6))

    assert len(world.due()) == 2 * MOST_GONE - 1


async def test_the_label_as_it_is_stored_permits_a_removal() -> None:
    world = World()
    assert not await world.refused.permitted(TEAM)

    world.labels = {"numalign.io/heal": "failed"}
    assert await world.refused.permitted(TEAM)


NAMESPACES: list[tuple[str, dict[str, str], bool]] = [
    ("failed",           {"heal": "failed"},                           True),
    ("running",          {"heal": "running"},                          True),
    ("none",             {"heal": "none"},                             False),
    ("nothing",          {},                                           False),
    ("nonsense",         {"heal": "yes"},                              False),
    ("to be left alone", {"heal": "failed", "admission": "disabled"},  False),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "may"), table(NAMESPACES))
def test_pods_are_removed_where_the_namespace_says(labels: dict[str, str], *, may: bool) -> None:
    rules: NamespaceRules = intent.parse_namespace(
        {f"numalign.io/{key}": value for key, value in labels.items()}
    )[0]

    assert heals(EffectivePolicy(rules={TEAM: rules}), TEAM) is may
