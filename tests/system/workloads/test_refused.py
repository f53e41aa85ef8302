"""Without gates kubelets refuse pods, and with `heal: failed` their owners get over it.

The scheduler prefers two nodes that have room by number and in no zone. The pods that come after a refusal
are kept away from the node that refused, and what was refused is taken away but for the last.
"""

from collections.abc import Sequence

import pytest

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import HEAL, KEPT, Numalign
from tests.system.workloads.stages import HOLES, PART, Looked, looking, refused
from tools.clusters.api_requests import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

ON = {PART: "refused"}
LASTING = ("deployment", "statefulset")
ALL = (*LASTING, "job", "jobset")
MOST = 12
"""Pods of one owner where two nodes refuse it: who makes the next at once may be faster than the news."""


async def test_every_owner_gets_over_refusals(ours: Numalign) -> None:
    stage = ours.stage
    async with ours.home("refused", {HEAL: "failed"}) as home:
        await stage.block(home, *HOLES)
        job = workloads.job(home, "job", 1, ending("job"), backoff=6)
        jobset = workloads.jobset(home, "jobset", ending("jobset"), backoff=6, restarts=0)
        lasting = (
            workloads.deployment(home, "deployment", 1, template("deployment")),
            workloads.statefulset(home, "statefulset", 1, template("statefulset")),
        )
        async with looking(stage, home, ALL) as looked:
            # One after the other: a pod on its way fills by number what has room in no zone, and a kubelet
            # may take ten seconds to say that it refused it.
            for document in lasting:
                await stage.store.apply(document)
                await stage.until_running(home, document["metadata"]["name"], 1, within=120)
            for document in (job, jobset):
                await stage.store.apply(document)
                await until_refused(looked, document["metadata"]["name"])
            for each in (job, jobset):
                await stage.until_ended(each, within=120)
            failures = (await stage.read(job))["status"].get("failed", 0)
            counts = await eventually(
                looked.look,
                lambda _: all(looked.kept(of) <= KEPT for of in LASTING),
                f"no more than {KEPT} refused pods were kept",
            )
            events = await stage.events(home)

    refusals = {of: looked.refused(of) for of in ALL}
    # Of a StatefulSet what was refused may be gone before anybody looked: events are left of it.
    assert all(refusals[of] >= 1 for of in ALL if of != "statefulset")
    assert len(pods_with_events(events, "statefulset-0")) >= 2
    assert all(counts[of] <= MOST for of in LASTING)
    assert {name: len(looked.now[name]) for name in LASTING if name != "deployment"} == {"statefulset": 1}
    # What was taken away was counted before, and not again.
    assert failures == looked.refused("job")
    rejected = [each for each in events if each["reason"] == "NUMARefused"]
    assert {each["involvedObject"]["uid"] for each in rejected} >= {
        uid for of in ("job", "jobset") for uid, pod in looked.seen[of].items() if refused(pod)
    }


def pods_with_events(events: Sequence[Json], name: str) -> set[str]:
    """The uids of all pods of this name that have events."""
    concerned = (event["involvedObject"] for event in events)
    return {pod["uid"] for pod in concerned if pod["kind"] == "Pod" and pod["name"] == name}


async def until_refused(looked: Looked, name: str) -> None:
    await eventually(looked.look, lambda _: looked.refused(name) > 0, f"a pod of {name} was refused")


def template(name: str) -> Json:
    """A pod that would rather have the nodes with holes, and is like none of another workload.

    What was refused once is kept from that node, whoever owns the next pod that asks for the same.
    """
    wish = workloads.template(name, on=ON)
    resources = wish["spec"]["containers"][0]["resources"]
    for amounts in resources.values():
        amounts["memory"] = f"{64 + ALL.index(name)}Mi"
    holes = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*HOLES]}
    preferred = [{"weight": 50, "preference": {"matchExpressions": [holes]}}]
    node = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    return {**wish, "spec": {**wish["spec"], "affinity": {"nodeAffinity": node}}}


def ending(name: str) -> Json:
    return workloads.ending(template(name), seconds=2)
