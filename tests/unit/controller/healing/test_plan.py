"""The plan of healing, in lines, with no write."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller.healing.plan import plan
from controller.settings import ControllerSettings
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import PODS_IN_FILES, Object
from tests.unit.controller.healing.conftest import SPREAD, Cluster, Leader, web
from tests.worlds.notation import table
from tests.worlds.scorer import NOW, TEAM, Raw, snapshot

WHY = 'container "c0" holds cpu in zone 0 and zone 1: 2 NUMA zones, and single-numa-node allows one'


async def planned(cluster: Cluster, *pods: Raw, gates: bool = True) -> tuple[str, ...]:
    """The plan for the objects of this cluster, with these misaligned pods."""
    for made in pods:
        cluster.run(made, "a", SPREAD)
    before = cluster.version
    policy = PolicyKeeper(None, log=Leader(cluster).log.log, registry=CollectorRegistry())
    stored: dict[str, Object] = {
        made["metadata"]["uid"]: PODS_IN_FILES.described(made) for made in cluster.pods.values()
    }
    namespaces: dict[str, Any] = {**cluster.namespaces}
    current = snapshot(cluster.nodes, placements=cluster.placements, **namespaces)
    lines = await plan(current, stored, ControllerSettings(gates=gates), policy, now=NOW)
    assert (cluster.version, cluster.evictions) == (before, [])
    return lines


async def test_moves_are_listed_with_node_and_time() -> None:
    pods = web("web-1", "one"), web("web-2", "two"), web("web-3", "one")

    assert await planned(Cluster(), *pods) == (
        f"pod team/web-1 on a would be moved to b, after 600 s at the earliest: {WHY}",
        f"pod team/web-2 on a would be moved to b, after 900 s at the earliest: {WHY}",
        f"pod team/web-3 on a would be moved to b, after 1200 s at the earliest: {WHY}",
    )


async def test_place_of_one_pod_is_not_free_for_the_next() -> None:
    cluster = Cluster()
    for at in range(7):
        cluster.run(web(f"other-{at}", f"other-{at}"), "b", {f"node-{at % 2}": "cpu=4"})
    lines = await planned(cluster, *(web(f"web-{at}", f"owner-{at}") for at in range(4)))

    assert [("would be moved" in line) for line in lines] == [True, False, False, False]
    assert "it waits for another node that would align it now" in lines[-1]


STAYS: list[tuple[str, Raw, bool, str]] = [
    ("local storage", web("web-1", spec={"volumes": [{"name": "x", "emptyDir": {}}]}), True,
     "stays, it has an emptyDir or hostPath volume"),
    ("a gang", web("web-1", annotations={"scheduling.k8s.io/group-name": "x"}), True,
     "a pod group that runs as a whole"),
    ("topology spread", web("web-1", spec={"topologySpreadConstraints": [{}]}), True,
     "not evaluate its topology spread"),
    ("no gates", web("web-1"), False, "it waits for --gates on the controller"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "gates", "words"), table(STAYS))
async def test_pod_stays_because_of(made: Raw, words: str, *, gates: bool) -> None:
    [line] = await planned(Cluster(), made, gates=gates)

    assert "is misaligned and stays" in line
    assert words in line
    # Without healing, it is not even listed.
    cluster = Cluster(namespaces={TEAM: {"gate": "enabled"}})
    assert await planned(cluster, made) == ("no misaligned pod would be moved",)
