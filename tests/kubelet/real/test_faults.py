"""What goes wrong on nodes and around them, and for how long anything wrong is believed of them.

While an agent or the API server is away nobody can tell what a kubelet does. That time is not counted, but
pods come and go in it, and what follows is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

import pytest
from kubernetes_asyncio.client.api_client import ApiClient

from tests.kubelet.real.comparing import Tally
from tests.kubelet.real.conftest import VERSIONS
from tests.kubelet.real.playing import PODS, Course, Machine, running
from tests.kubelet.real.watching import Longest, Watch, Wrong, longest, watching
from tools.clusters.api_requests import Json, ask
from tools.clusters.kubelets.agents import Agent
from tools.clusters.kubelets.clusters import RealCluster
from tools.clusters.kubelets.kubelets import RealKubelet
from tools.clusters.waiting import seconds_until

ZONED, ODD, PAIRS = MACHINES = (
    # Three zones of three cores, single-numa-node, two kinds of devices, CPUs reserved on each.
    Machine("partial", 12),
    # Zones 1 and 3 of a machine that has no others, restricted.
    Machine("odd", 1),
    # full-pcpus-only and strict-cpu-reservation, no memory manager.
    Machine("options", 4),
)
DRAWN = 200
BEFORE, MEANWHILE, AFTER = 5, 2, 5
DANGEROUS_SECONDS = 2.0
QUIET_SECONDS = 1.5 * DANGEROUS_SECONDS
FEWEST_LOOKS = 5
RETRY_SECONDS = 2 * 30.0
"""A kubelet that could not reach the API server asks it for pods again after up to half a minute, or, by
chance, after up to twice that (the backoff of reflectors in client-go)."""

REFUSAL_SECONDS = 10.0
"""A pod that a kubelet refuses as it starts is Failed at the API server so much later."""

SLACK_SECONDS = 10.0
SETTLES_SECONDS = RETRY_SECONDS + REFUSAL_SECONDS + SLACK_SECONDS
"""Limit of a wait."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All that runs, by name of the node."""

    version: str
    cluster: RealCluster
    api: ApiClient
    agents: Mapping[str, Agent]
    courses: Mapping[str, Course]
    watch: Watch

    def kubelet(self, machine: Machine) -> RealKubelet:
        """The one on a node."""
        return self.cluster.kubelets[machine.name]

    async def send(self, machine: Machine) -> None:
        """Pods come to a node and go, and nobody waits for it."""
        await self.courses[machine.name].send(MEANWHILE)

    async def settled(self, machine: Machine) -> None:
        """Return when every pod of a node is refused, or taken, and its agent has reported it."""
        stage = self.courses[machine.name].stage

        async def open_pods() -> list[str]:
            of_node = (await ask(self.api, "GET", PODS, fieldSelector=f"spec.nodeName={machine.name}")).body
            reported = await stage.reported()
            return [pod["metadata"]["name"] for pod in of_node["items"] if not _settled(pod, reported)]

        what = f"all pods of {machine.name} were settled"
        await seconds_until(open_pods, lambda seen: not seen, what=what, within=SETTLES_SECONDS, every=0.1)


def _settled(pod: Json, reported: Mapping[str, object]) -> bool:
    metadata = pod["metadata"]
    ended = pod["status"].get("phase") in ("Failed", "Succeeded")
    return "deletionTimestamp" not in metadata and (ended or metadata["uid"] in reported)


Fault = Callable[[Scene, Machine], Awaitable[None]]
"""Lets something go wrong on a node and mends it, so far as it is mended at all."""


async def restarted(scene: Scene, machine: Machine) -> None:
    """The kubelet ends and starts again."""
    kubelet = scene.kubelet(machine)
    await kubelet.stop()
    await scene.send(machine)
    await kubelet.serve()


async def crashed(scene: Scene, machine: Machine) -> None:
    """The kubelet is killed, and starts again."""
    kubelet = scene.kubelet(machine)
    await kubelet.kill()
    await scene.send(machine)
    await kubelet.serve()


async def state_deleted(scene: Scene, machine: Machine) -> None:
    """All that the kubelet's managers remember is gone when it starts again, and its pods run on."""
    kubelet = scene.kubelet(machine)
    await kubelet.stop()
    kubelet.delete_state()
    await scene.send(machine)
    await kubelet.serve()


async def devices_ill(scene: Scene, machine: Machine) -> None:
    """One of each resource falls ill."""
    kubelet = scene.kubelet(machine)
    every = kubelet.node.devices.items()
    await kubelet.devices(
        {resource: [{**one, "healthy": False}, *others] for resource, (one, *others) in every}
    )
    await scene.send(machine)


async def plugins_gone(scene: Scene, machine: Machine) -> None:
    """While nothing else happens that an agent would look at, all plugins end."""
    await asyncio.sleep(QUIET_SECONDS)
    await scene.kubelet(machine).devices({})
    await asyncio.sleep(QUIET_SECONDS)


async def plugins_back(scene: Scene, machine: Machine) -> None:
    """All plugins are there again, and all their devices well."""
    kubelet = scene.kubelet(machine)
    await kubelet.devices(kubelet.node.devices)


async def agent_killed(scene: Scene, machine: Machine) -> None:
    """The agent is killed, and starts after a while."""
    agent = scene.agents[machine.name]
    await agent.kill()
    await scene.send(machine)
    await asyncio.sleep(DANGEROUS_SECONDS)
    await agent.start()
    await agent.until_up()


SINCE_IT_BEGAN, SINCE_IT_WAS_OVER = "since it began", "since it was over"

CASES: Mapping[Machine, Sequence[tuple[Fault, str, int]]] = {
    # a fault of the node, since when what is wrong counts, and how many pods are predicted afterwards
    ZONED: ((restarted, SINCE_IT_BEGAN, AFTER), (devices_ill, SINCE_IT_BEGAN, AFTER)),
    ODD: ((state_deleted, SINCE_IT_BEGAN, AFTER),),
    PAIRS: (
        (crashed, SINCE_IT_BEGAN, AFTER),
        (plugins_gone, SINCE_IT_BEGAN, 0),
        (plugins_back, SINCE_IT_BEGAN, AFTER),
        (agent_killed, SINCE_IT_WAS_OVER, AFTER),
    ),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
async def test_wrong_beliefs_end_soon_after_a_fault(version: str, tell: Callable[[str], None]) -> None:
    async with _scene(version) as scene:
        outcomes = await asyncio.gather(*(_play(scene, machine) for machine in CASES))
        outcomes = [*outcomes, await _restart_the_api_server(scene)]
    happened = [one for several in outcomes for one in several]
    for one in happened:
        tell(f"{version} {one}")
    assert not [str(one) for one in happened if one.looks < FEWEST_LOOKS]
    assert not scene.watch.problems
    assert not [str(one) for one in happened if one.tally.differences]
    assert not [str(one) for one in happened if one.longest[Wrong.DANGEROUS][0] > DANGEROUS_SECONDS]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a fault on one node, in so many looks at it."""

    what: str
    looks: int
    longest: Longest
    tally: Tally

    def __str__(self) -> str:
        """A line for people, and one for each difference."""
        wrong = (
            f"{direction.value}: {seconds:.2f} s{' ' * bool(item)}{' '.join(map(str, item))}"
            for direction, (seconds, item) in self.longest.items()
        )
        reported = f"{self.what} ({self.looks} looks): {'; '.join(wrong)}; {self.tally}"
        return "\n".join([reported, *map(str, self.tally.differences)])


async def _play(scene: Scene, machine: Machine) -> Sequence[Outcome]:
    outcomes = []
    for fault, counts, pods in CASES[machine]:
        began = monotonic()
        await fault(scene, machine)
        since = began if counts == SINCE_IT_BEGAN else monotonic()
        outcomes.append(await _outcome(scene, machine, f"{fault.__name__} {counts}", pods, since))
    return outcomes


async def _restart_the_api_server(scene: Scene) -> Sequence[Outcome]:
    for machine in MACHINES:
        await scene.send(machine)
    await scene.cluster.plane.kill()
    await asyncio.sleep(DANGEROUS_SECONDS)
    await scene.cluster.plane.serve()
    what, since = f"API server restarted {SINCE_IT_WAS_OVER}", monotonic()
    return await asyncio.gather(*(_outcome(scene, machine, what, AFTER, since) for machine in MACHINES))


async def _outcome(scene: Scene, machine: Machine, what: str, pods: int, since: float) -> Outcome:
    """Once all is settled and so many other pods came."""
    await scene.settled(machine)
    tally = await scene.courses[machine.name].come(pods)
    samples = [one for one in scene.watch.samples[machine.name] if one.at >= since]
    drawn = machine.drawn(scene.version)["machine"]
    return Outcome(f"{what}, {machine.name}", len(samples), longest(drawn, samples), tally)


@asynccontextmanager
async def _scene(version: str) -> AsyncIterator[Scene]:
    async with running(MACHINES, version) as (cluster, api, beside, stages):
        courses = {
            name: Course(stage, stage.machine.steps(version, pods=DRAWN)) for name, stage in stages.items()
        }
        async with watching(api, cluster.kubelets) as watch:
            await asyncio.gather(*(course.come(BEFORE) for course in courses.values()))
            yield Scene(version, cluster, api, beside, courses, watch)
