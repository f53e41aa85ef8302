"""Pods that want the same zones at the same time, and pods that have to make room."""

import asyncio
from functools import partial
from http import HTTPStatus
from random import Random

import pytest

from numalign.ledger.reservations import RELEASE_SECONDS
from tests.system.e2e.sites import Site, given, on, pod, recorded
from tests.system.eventually import eventually
from tools.clusters.api_requests import Json, ask
from tools.clusters.sim.cluster import Cluster
from tools.clusters.sim.desk import TOPOLOGIES
from tools.clusters.sim.fingerprints import Fingerprint
from tools.clusters.sim.shapes import GPU, SimNode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

FLEET = [
    *(SimNode(f"wide-{number}", "two-by-four") for number in range(3)),
    *(SimNode(f"narrow-{number}", "eight-zones") for number in range(3)),
]
# More than there is room for, so that some have to wait.
CROWD = 60


def crowd(seed: int) -> list[Json]:
    dice = Random(seed)  # noqa: S311  nothing secret
    sizes = [(dice.randint(2, 16), dice.choice((0, 1, 1, 1, 2))) for _ in range(CROWD)]
    return [pod(f"crowd-{number:02}", cpu=cpu, gpu=gpu) for number, (cpu, gpu) in enumerate(sizes)]


def fits(cluster: Cluster, wish: Json) -> bool:
    """Whether any zone has all that a pod wants, as its kubelet sees it."""
    [container] = wish["spec"]["containers"]
    asked = container["resources"]["requests"]
    wanted = {"cpu": int(asked["cpu"]) * 1000, GPU: int(asked.get(GPU, 0))}
    zones = (zone for name in cluster.nodes for zone in cluster.available(name).values())
    return any(all(zone[name] >= amount for name, amount in wanted.items()) for zone in zones)


async def test_crowd_fills_the_nodes_without_rejection(site: Site) -> None:
    before = await binds(site)
    async with site.nodes(*FLEET, delay=1, jitter=0.5, fingerprint=Fingerprint.ALL) as cluster:
        wishes = {wish["metadata"]["name"]: wish for wish in crowd(seed=6)}
        await site.create(*wishes.values())

        async def misplaced() -> list[str]:
            running = await site.running()
            return [name for name, wish in wishes.items() if name not in running and fits(cluster, wish)]

        await eventually(misplaced, lambda seen: not seen, "all ran that fit")
        # Every pod with reserved zones was seen where it is.
        reservations = partial(site.count, "numalign_reservations")
        await eventually(reservations, lambda seen: not seen, "no reservation was left")
        await cluster.idle()
        running = await site.running()
        done = [after - since for after, since in zip(await binds(site), before, strict=True)]

        assert cluster.rejections == []
        assert CROWD / 2 < len(running) < CROWD
        # Kubelets gave what is recorded, wherever the scorer believes a record.
        doubtful = (await (await site.leader()).state())["doubtful"]
        pods = await site.pods()
        believed = [pods[name] for name in running if f"default/{name}" not in doubtful]
        assert [*map(recorded, believed)] == [given(cluster, each) for each in believed]
        called, answered, bound = done
        assert called == answered >= bound == len(running)


async def binds(site: Site) -> tuple[float, float, float]:
    """How often the scheduler asked for a pod to be bound, heard of it, and heard that it was bound."""
    return (
        await site.count("numalign_scheduler_calls_total", verb="bind", result="answered"),
        await site.count("numalign_binds_total"),
        await site.count("numalign_binds_total", outcome="bound"),
    )


# ---- preemption

CLASSES = {"low": 10, "middle": 20, "high": 30}


async def fill(site: Site, node: str, *priorities: str) -> list[str]:
    """Four pods of two CPUs, of these priorities, one after another: two on each of the node's two zones."""
    names = [f"{node}-{number}" for number in range(len(priorities))]
    for name, priority in zip(names, priorities, strict=True):
        await site.create(pod(name, cpu=2, priorityClassName=priority, **on(node)))
        await site.until_run(name)
    found = await site.pods()
    assert [list(recorded(found[name]) or ()) for name in names] == [[("node-0",)]] * 2 + [[("node-1",)]] * 2
    return names


async def test_pods_are_evicted_only_from_where_that_frees_a_zone(site: Site) -> None:
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, value in CLASSES.items():
        await site.store.apply({**about, "metadata": {"name": name}, "value": value})
    machines = [SimNode("across", "small"), SimNode("along", "small")]
    async with site.nodes(*machines, fingerprint=Fingerprint.ALL) as cluster:
        # Of the less important ones, two sit on one zone here and on two zones there.
        across = await fill(site, "across", "low", "middle", "low", "middle")
        along = await fill(site, "along", "middle", "middle", "low", "low")
        # Of those that came a moment before others left nobody would know for sure where they sit.
        await asyncio.sleep(RELEASE_SECONDS)

        await site.create(pod("large", cpu=4, priorityClassName="high"))
        await site.until_run("large")

        assert (await site.pods())["large"]["spec"]["nodeName"] == "along"
        assert await site.running() == {"large", *across, *along[:2]}
        assert cluster.rejections == []


# ---- a kubelet that says no


PREDICTED = (
    "numalign predicted that the pod gets 6 cpu and 6Gi memory from zone 0 on liar; the kubelet of liar"
    " rejected the pod: TopologyAffinityError: Pod was rejected: Resources cannot be allocated with"
    " Topology locality"
)
CHOSEN_AGAIN = "node liar has just rejected a pod with the same requests, and was chosen again"


async def wrong(site: Site) -> tuple[float, float]:
    """How often kubelets rejected pods with reservations, and how often such a node was chosen again."""
    return (
        await site.count("numalign_kubelet_refusals_total", reason="TopologyAffinityError", known="reserved"),
        await site.count("numalign_refused_node_chosen_again_total"),
    )


async def test_wrong_prediction_is_counted_and_reported(site: Site) -> None:
    async with site.nodes(SimNode("liar", "small"), fingerprint=Fingerprint.ALL) as cluster:
        # It is published that a zone has twice its CPUs, and the scorer believes it.
        path = f"{TOPOLOGIES}/liar"
        topology = (await ask(site.api, "GET", path)).body
        [cpus] = [each for each in topology["zones"][0]["resources"] if each["name"] == "cpu"]
        cpus |= dict.fromkeys(("capacity", "allocatable", "available"), "8")
        assert (await ask(site.api, "PUT", path, topology)).code == HTTPStatus.OK
        look = partial(site.rank, pod("probe", cpu=8))
        await eventually(look, lambda seen: seen["nodes"][0]["fits"], "the lie was believed")
        before = await wrong(site)

        for name in ("first", "again"):
            await site.create(pod(name, cpu=6))
            await site.until_event(name, "NUMAPredictionWrong", PREDICTED)

        assert [decision.pod for decision in cluster.rejections] == ["default/first", "default/again"]
        await site.until_event("again", "NUMAPredictionWrong", CHOSEN_AGAIN)
        assert [after - since for after, since in zip(await wrong(site), before, strict=True)] == [2, 1]
