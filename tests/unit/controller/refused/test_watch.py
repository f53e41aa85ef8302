"""A controller that watches failed pods alone reports each rejection once, and forgets what is gone."""

from functools import partial
from typing import Any
from unittest.mock import AsyncMock

import pytest

from controller.refused.watch import FailedPodWatch
from controller.settings import ControllerSettings
from numalign.kube.cluster import Cluster, Settled
from numalign.kube.events import Event
from numalign.kube.kinds import Key
from numalign.runtime.clock import utc_now
from tests.unit.controller.conftest import Replica

KEY = ("team", "web")


class Watching(Replica):
    """A watch of failed pods."""

    def __post_init__(self) -> None:
        self.events: list[Event] = []
        self.cluster = Cluster()
        self.watch = FailedPodWatch(
            ControllerSettings(),
            self.cluster,
            leading=lambda: True,
            publish=self.events.append,
            log=self.log.log,
            registry=self.registry,
            clock=lambda: 0.0,
            sleep=AsyncMock(side_effect=InterruptedError("one turn is over")),
        )

    async def messages(self, *pods: Any) -> list[str]:  # noqa: ANN401  JSON
        """What is reported after these pods are observed."""
        for made in pods:
            self.watch.put(made)
        self.events.clear()
        with pytest.raises(InterruptedError):
            await self.watch.tasks["refusals"]()
        return [event.message for event in self.events]


def failed(uid: str = "u1", reason: str = "TopologyAffinityError", at: str = "") -> dict[str, Any]:
    """A pod that failed, now unless there is another time."""
    start = at or f"{utc_now():%Y-%m-%dT%H:%M:%SZ}"
    return {
        "metadata": {"namespace": KEY[0], "name": KEY[1], "uid": uid},
        "spec": {"nodeName": "a"},
        "status": {"phase": "Failed", "reason": reason, "startTime": start},
    }


async def test_rejection_is_reported_once_namespaces_are_known() -> None:
    work = Watching()
    # A time before the first list, of another clock, is too old.
    assert await work.messages(failed("old", at="2026-01-02T03:04:05Z"), failed(), failed()) == []
    assert await work.messages(failed("u3", reason="Error")) == []

    work.cluster.apply(Settled())
    text = "the kubelet of a rejected the pod: TopologyAffinityError"
    assert await work.messages(failed("u2")) == [text, text]
    assert work.count("refused_pods_total", reason="TopologyAffinityError") == 2
    # A pod of the same UID cannot come back once it is gone.
    work.watch.keep({KEY})
    assert await work.messages(failed("u2")) == []
    for forget in (partial(work.watch.drop, KEY), partial(work.watch.keep, frozenset[Key]())):
        forget()
        assert await work.messages(failed("u2", at="2026-01-02T03:04:05Z")) == [text]
