"""Without gates kubelets refuse pods, and `heal: failed` helps owners over it; behind gates none is refused.

The scheduler prefers two nodes that have room by number and in no zone.
"""

from functools import partial

import pytest

from tests.system.eventually import eventually
from tests.system.workloads import workloads
from tests.system.workloads.installed import GATE, HEAL, KEPT, Numalign
from tests.system.workloads.stages import HOLES, PART, Looked, Stage, looking, refused, runs
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
        job = workloads.job(home, "job", 1, workloads.ending(template("job"), seconds=2), backoff=6)
        jobset = workloads.jobset(
            home, "jobset", workloads.ending(template("jobset"), seconds=2), backoff=6, restarts=0
        )
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
    concerned = [each["involvedObject"] for each in events]
    assert len({each["uid"] for each in concerned if each["name"] == "statefulset-0"}) >= 2
    assert all(counts[of] <= MOST for of in LASTING)
    assert {name: len(looked.now[name]) for name in LASTING if name != "deployment"} == {"statefulset": 1}
    # What was taken away was counted before, and not again.
    assert failures == looked.refused("job")
    rejected = [each for each in events if each["reason"] == "NUMARefused"]
    assert {each["involvedObject"]["uid"] for each in rejected} >= {
        uid for of in ("job", "jobset") for uid, pod in looked.seen[of].items() if refused(pod)
    }


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


async def test_gated_pods_of_all_owners_run_at_once(ours: Numalign) -> None:
    stage, made = ours.stage, {"deployment": 1, "statefulset": 1, "job": 1, "jobset": workloads.JOBS}
    async with ours.home("gated", {GATE: "enabled", HEAL: "running"}) as home:
        await stage.block(home, *HOLES)
        plain = {name: workloads.template(name, on=ON) for name in made}
        brief = {name: workloads.ending(plain[name], seconds=2) for name in made}
        lasting = (
            workloads.deployment(home, "deployment", 1, plain["deployment"]),
            workloads.statefulset(home, "statefulset", 1, plain["statefulset"]),
        )
        ends = (
            workloads.job(home, "job", 1, brief["job"], backoff=0),
            workloads.jobset(home, "jobset", brief["jobset"], backoff=0, restarts=0),
        )
        async with looking(stage, home, [*made]) as looked:
            for document in (*lasting, *ends):
                await stage.store.apply(document)
            for document in ends:
                await stage.until_ended(document)
            for document in lasting:
                await stage.until_running(home, document["metadata"]["name"], 1)
            counts = await looked.look()

    # Each is made once, and runs where it was pinned.
    assert counts == made
    assert {of: looked.refused(of) for of in made} == dict.fromkeys(made, 0)
    pods = [pod for of in looked.seen.values() for pod in of.values()]
    workloads.assert_pinned(pods)
    assert {pod["spec"]["nodeName"] for pod in pods} == {"whole"}
    assert [runs(pod) for of in LASTING for pod in looked.now[of]] == [True, True]


# ---- what owners do by themselves: the facts by which ours decides what to do about refused pods


ALONE = {"numalign.io/admission": "disabled"}
MANY = 5
"""Pods for a single place."""


async def test_without_help_workloads_run_against_the_wall(cluster: Stage) -> None:
    enough = {"replicaset": MANY, "statefulset": MANY, "job": 2, "jobset": 2 * workloads.JOBS}
    async with cluster.home("alone", ALONE) as home:
        await cluster.block(home, *HOLES, "whole")
        # Pods that would end after a second, if any kubelet took them.
        of_job, of_jobset = [
            workloads.ending(workloads.template(name, on=ON), seconds=1) for name in ("job", "jobset")
        ]
        job = workloads.job(home, "job", 1, of_job, backoff=6)
        jobset = workloads.jobset(home, "jobset", of_jobset, backoff=0, restarts=1)
        for document in (
            workloads.replicaset(home, "replicaset", 1, workloads.template("replicaset", on=ON)),
            workloads.statefulset(home, "statefulset", 1, workloads.template("statefulset", on=ON)),
            job,
            jobset,
        ):
            await cluster.store.apply(document)
        async with looking(cluster, home, [*enough]) as looked:
            await eventually(
                looked.look,
                lambda counts: all(counts[of] >= count for of, count in enough.items()),
                f"{enough} pods were made",
                within=120,
            )
            await eventually(
                partial(cluster.read, jobset),
                lambda found: found.get("status", {}).get("terminalState") == "Failed",
                "the JobSet was lost",
            )
            await looked.look()
        counted = (await cluster.read(job))["status"]["failed"]

    # A ReplicaSet makes the next at once, and nobody takes the refused ones away.
    assert looked.kept("replicaset") >= MANY - 1
    assert {*looked.seen["replicaset"]} == {pod["metadata"]["uid"] for pod in looked.now["replicaset"]}
    # A StatefulSet takes them away itself, and makes the next of the same name.
    assert looked.kept("statefulset") <= 1
    assert {pod["metadata"]["name"] for pod in looked.seen["statefulset"].values()} == {"statefulset-0"}
    # Of a Job each counts, though it ignores pods that were disturbed: a refused pod has no such condition.
    assert 1 <= counted <= looked.kept("job")
    assert not any(pod["status"].get("conditions") for pod in looked.now["job"] if refused(pod))
    # A JobSet that starts all of it anew is lost at once.
    assert len(looked.seen["jobset"]) == 2 * workloads.JOBS
