"""The pod after one that was refused goes elsewhere first, and nothing else is written for it."""

import pytest

from numalign.kube.decode.pod_reader import PodReader
from numalign.kube.kinds import PODS
from numalign.model.intent import NODE_LABEL
from numalign.scheduling.recent_refusals import AVOID_SECONDS, RecentRefusals
from tests.worlds.clock import Clock
from tests.worlds.json_patch import applied
from tests.worlds.notation import node, table
from tests.worlds.webhook import TEAM, Raw, Webhook, cluster, raw, read
from webhook.mutate import AVOIDED, Avoidance, with_avoidance
from webhook.review import Allowed, Patched

NOW = 1767323045

BORN, LONG_AGO = "2026-01-02T03:04:05Z", "2026-01-02T02:04:05Z"
SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u1", "controller": True}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SINGLE = node("cpu=8", "cpu=8", policy="single-numa-node")


def made(
    container: str = "cpu=4 mem=1Gi", *, policy: str | None = "single-numa-node", **metadata: object
) -> Raw:
    pod = raw(container, policy=policy)
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [SET], **metadata}}


def refused(on: str = "a", *, created: str = BORN, **status: object) -> Raw:
    pod = made(name="web-1-x", namespace=TEAM, uid="p1", creationTimestamp=created)
    failure = {"phase": "Failed", "reason": "TopologyAffinityError", "startTime": BORN, **status}
    return {**pod, "spec": {**pod["spec"], "nodeName": on}, "status": failure}


NOTHING: list[tuple[str, Raw]] = [
    ("all of it is of another shape", {"metadata": [], "spec": 1, "status": "x"}),
    ("its status is of another shape", refused(phase=["Failed"], reason={})),
    ("its time is none",              {**refused(startTime=5), "metadata": {"namespace": TEAM}}),
    ("its containers are none",       {**refused(), "spec": {"nodeName": "a", "containers": 1}}),
    ("it ended for another reason",   refused(reason="Evicted")),
]  # fmt: skip


@pytest.mark.parametrize("pod", [refused(), *table(NOTHING)])
def test_only_the_node_of_a_rejected_pod_is_avoided(pod: Raw) -> None:
    clock = Clock(NOW)
    avoidance = Avoidance(RecentRefusals(clock=clock, wall=clock), PodReader())
    avoidance.update_pod(PODS.described(pod), counted=False)

    for container, rejected in (("cpu=4 mem=1Gi", pod == refused()), ("cpu=2 mem=1Gi", False)):
        nodes = avoidance.nodes(read(made(container), cluster([SINGLE])))
        assert nodes == (("a",) if rejected else ())


AFFINITY = {"nodeAffinity": {PREFERRED: [{"weight": 100, "preference": {"matchFields": [
    {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}}]}}  # fmt: skip


def test_avoidance_is_a_preference_added_once() -> None:
    pod = read(made(), cluster([SINGLE]))

    alone = with_avoidance(Allowed(audit={"x": "y"}), pod, ("a",), {})
    assert isinstance(alone, Patched)
    assert alone.audit == {"x": "y", AVOIDED: "a"}
    assert applied(dict(pod.pod), alone.operations)["spec"]["affinity"] == AFFINITY
    patched = read(applied(dict(pod.pod), alone.operations), cluster([SINGLE]))
    assert with_avoidance(alone, patched, ("a",), {}) == alone


def test_avoidance_uses_the_node_label_if_set() -> None:
    labels = {"a": {NODE_LABEL: "a"}, "b": {NODE_LABEL: "of-another"}}
    answer = with_avoidance(Allowed(), read(made(), cluster([SINGLE])), ("a", "b"), labels)

    assert isinstance(answer, Patched)
    [wish] = applied(made(), answer.operations)["spec"]["affinity"]["nodeAffinity"][PREFERRED]
    assert wish["preference"] == {
        "matchExpressions": [{"key": NODE_LABEL, "operator": "NotIn", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}],
    }


def test_nothing_is_written_into_a_placed_or_unaligned_pod() -> None:
    for pod in (made(policy="none"), {**made(), "spec": {**made()["spec"], "nodeName": "a"}}):
        assert with_avoidance(Allowed(), read(pod, cluster([SINGLE])), ("a",), {}) == Allowed()


@pytest.mark.parametrize("injection", ["exclude", "off"])
async def test_avoidance_is_audited_and_expires(webhook: Webhook, injection: str) -> None:
    await webhook.know({"a": SINGLE})
    webhook.clock.seconds = NOW
    webhook.avoidance(webhook.settings()).update_pod(PODS.described(refused("a")), counted=True)
    async with webhook.open(injection=injection) as caller:
        answer = await caller.ask("/mutate", made())
        assert answer.get("auditAnnotations") == (None if injection == "off" else {AVOIDED: "a"})
        assert webhook.count("numalign_cache_entries", cache="avoided") == 1
        webhook.clock.seconds += AVOID_SECONDS
        assert "patch" not in await caller.ask("/mutate", made())
