"""Where only failed pods are watched: each rejection is reported once, and what is gone is forgotten."""

from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.refused.watch import FailedPodWatch
from controller.settings import ControllerSettings
from numalign.kube.cluster_state import Snapshot
from numalign.kube.events import Event
from numalign.kube.kinds import Key
from numalign.runtime.clock import utc_now
from tests.worlds.log import RecordedLog

KEY = ("team", "web")


class TurnEnded(Exception):
    """Raised after one turn of a task that would run for ever."""


class World:
    """A watch of failed pods that leads."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.registry = CollectorRegistry()
        told = RecordedLog()
        self.watch = FailedPodWatch(
            ControllerSettings(),
            leading=lambda: True,
            publish=self.events.append,
            log=told.log,
            registry=self.registry,
            clock=lambda: 0.0,
            sleep=self.once,
        )

    async def once(self, _seconds: float) -> None:
        """Wait for nothing."""
        raise TurnEnded

    async def told(self) -> list[str]:
        """What is reported now."""
        self.events.clear()
        with pytest.raises(TurnEnded):
            await self.watch.tasks()["refusals"]()
        return [event.message for event in self.events]


def failed(uid: str = "u1", reason: str = "TopologyAffinityError") -> dict[str, Any]:
    """A pod that failed just now."""
    return {
        "metadata": {"namespace": KEY[0], "name": KEY[1], "uid": uid},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Failed", "reason": reason, "startTime": f"{utc_now():%Y-%m-%dT%H:%M:%SZ}"},
    }


@pytest.fixture
async def world() -> World:
    """One that knows the namespaces."""
    made = World()
    await made.watch.take(Snapshot())
    return made


async def test_a_rejection_is_reported_without_what_nobody_knows(world: World) -> None:
    world.watch.put(failed())
    world.watch.put(failed())

    assert await world.told() == ["the kubelet of a rejected the pod: TopologyAffinityError"]
    count = world.registry.get_sample_value(
        "numalign_refused_pods_total", {"reason": "TopologyAffinityError"}
    )
    assert count == 1


async def test_a_pod_of_the_same_name_is_another_one(world: World) -> None:
    world.watch.put(failed())
    world.watch.put(failed("u2"))

    assert len(await world.told()) == 2


async def test_nothing_is_told_of_a_pod_that_failed_by_itself_or_for_another_reason(world: World) -> None:
    world.watch.put(failed(reason="Error"))
    world.watch.put(failed(reason="OutOfcpu"))

    assert await world.told() == []


async def test_nothing_is_told_before_the_namespaces_are_known() -> None:
    made = World()
    made.watch.put(failed())
    assert await made.told() == []

    await made.watch.take(Snapshot())
    assert len(await made.told()) == 1


@pytest.mark.parametrize("listed", [True, False], ids=["it fails meanwhile", "it had failed at the start"])
async def test_a_time_of_long_ago_counts_only_before_the_first_list(world: World, *, listed: bool) -> None:
    """The clock of its node may be wrong, and that of the API server."""
    if listed:
        world.watch.keep(frozenset())
    made = failed()
    world.watch.put({**made, "status": {**made["status"], "startTime": "2026-01-02T03:04:05Z"}})

    assert len(await world.told()) == listed


async def test_what_is_gone_is_forgotten(world: World) -> None:
    """So that names do not pile up: a pod of that UID cannot come back."""
    told = list[str]()
    for forget in (partial(world.watch.drop, KEY), partial(world.watch.keep, frozenset[Key]())):
        world.watch.put(failed())
        told += await world.told()
        forget()
    world.watch.put(failed())

    assert len([*told, *await world.told()]) == 3


async def test_a_list_keeps_what_is_still_there(world: World) -> None:
    world.watch.put(failed())
    world.watch.keep({KEY})
    world.watch.put(failed())

    assert len(await world.told()) == 1
