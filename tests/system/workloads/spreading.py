"""Pods that sit misaligned: each got its CPUs when every zone of its node had but one left.

Under best-effort a kubelet then spreads a pod over two zones. When the pods that left it no choice are gone,
it stays so, as long as it lives.
"""

from collections.abc import Sequence

from tests.system.workloads import workloads
from tests.system.workloads.stages import EACH, MACHINE, PART, Stage, runs
from tests.system.workloads.workloads import WIDE
from tools.clusters.api_requests import Json
from tools.clusters.kubelets.kept import kept

FROM, TO = "loose-1", "loose-2"
ON = {PART: "moved"}
MOST = EACH - 2
"""Pods that can be spread so: a kubelet puts two pods of a single CPU into one zone, if that has room."""


async def spread(stage: Stage, home: str, documents: Sequence[Json]) -> None:
    """Have these workloads run, one pod each, all spread on `FROM`; `TO` is full, until `free` is called."""
    assert len(documents) <= MOST
    await stage.block(home, TO, cpus=EACH)
    for number, document in enumerate(documents, start=1):
        await stage.block(home, FROM, cpus=EACH - number)
        await stage.store.apply(document)
        name = document["metadata"]["name"]
        [pod] = await stage.until_running(home, name, 1)
        assert len(zones(stage, pod)) == len(MACHINE["zones"]), pod["status"]
        await stage.unblock(home, FROM)


def zones(stage: Stage, pod: Json) -> set[int]:
    kubelet = stage.cluster.kubelets[pod["spec"]["nodeName"]]
    total = kept(kubelet.state, pod["metadata"]["uid"], {}).total(MACHINE)
    return {zone for several in total for zone in several}


async def aligned(stage: Stage, home: str, of: str) -> bool:
    """Whether a workload has one pod, that runs in a single zone."""
    pods = await stage.pods(home, of)
    return [*map(runs, pods)] == [True] and len(zones(stage, pods[0])) == 1


def template(name: str) -> Json:
    return workloads.template(name, on=ON, cpus=WIDE)


def of_job(name: str) -> Json:
    """A pod of a Job that says that it may be moved all the same; it runs until it is deleted."""
    wish = workloads.template(name, on=ON, cpus=WIDE, restart="Never")
    wish["metadata"]["annotations"]["descheduler.alpha.kubernetes.io/evict"] = "true"
    return wish
