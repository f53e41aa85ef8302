"""Laws of running pods: `check -A` says of a pod what `check -f` said of its manifest."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import assume, event, given

from kubectl_numa import moving, running_pods
from kubectl_numa.checking import Checked, CheckResult
from kubectl_numa.selection import PodSelection
from numalign.model.intent import Match
from numalign.scheduling.running_pods import PodRule, RuleOutcome, RunningPod
from tests.laws.clusters import KINDS, Case, Machine, case, node, plain_pod, topology
from tests.laws.fleets import drawn
from tests.laws.programs import check_manifest, cluster_view

UID = "00000000-0000-0000-0000-000000000001"


def created(cluster: Case, on: str) -> dict[str, Any]:
    """The pod as it is stored once a scheduler has put it on a node, and its kubelet has started it."""
    pod = cluster.pod
    metadata = {**pod["metadata"], "name": "p", "namespace": cluster.namespace, "uid": UID}
    status = {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": on}, "status": status}


def both(cluster: Case, on: str = "n0") -> tuple[Checked, RunningPod]:
    """What is said of the manifest, and of the pod."""
    view = cluster_view(cluster)
    objects: list[object] = [*cluster.items, created(cluster, on)]
    placed = moving.placed_pods(view, objects, match=Match(cluster.match), complete=True)
    (running,) = running_pods.judged(placed, view, PodSelection(everywhere=True))
    return check_manifest(cluster, view), running


def differences(checked: Checked, running: RunningPod) -> Iterator[str]:
    """Wherever the two contradict each other."""
    if checked.pod is None:
        # Of what nobody asks anything no API server has let in what cannot be read.
        if running.outcome is not RuleOutcome.ERROR and running.results:
            yield f"the manifest cannot be read, and of the pod is said {running.results}"
        return
    refusal = running.decision.refusal if running.decision else None
    if refusal != checked.refusal:
        yield f"the manifest is refused with {checked.refusal!r}, the pod with {refusal!r}"
    # A pod that runs has its room.
    warnings_of = checked.pod.decision.all_warnings
    lasting = tuple(text for text in warnings_of if not text.endswith("; the pod will stay pending"))
    warnings = running.decision.all_warnings if running.decision else ()
    if warnings != lasting:
        yield f"the manifest is warned of {lasting}, the pod of {warnings}"
    cluster = running.result(PodRule.ADMITTED)
    refused = cluster is not None and cluster.outcome is RuleOutcome.FAIL
    if refused == (checked.result in (CheckResult.OK, CheckResult.UNKNOWN)):
        yield f"the manifest is {checked.result}, and of the pod is said {cluster}"


@given(drawn(case))
def test_a_pod_is_judged_like_the_manifest_it_was_made_from(cluster: Case) -> None:
    # Who names a node in a manifest cannot be told from a scheduler afterwards.
    assume(isinstance(cluster.pod.get("metadata"), dict) and not cluster.pod["spec"].get("nodeName"))
    checked, running = both(cluster)
    event(checked.result)

    assert [*differences(checked, running)] == []


def test_other_answers_are_differences() -> None:
    machine = Machine("n0", KINDS[0])
    fits = Case(
        items=[node(machine), topology(machine)],
        namespace="team",
        pod=plain_pod({"numalign.io/policy": "single-numa-node"}),
    )
    huge = replace(fits, pod={**fits.pod, "spec": {"containers": [_container("4000")]}})

    assert [*differences(*both(fits))] == []
    assert [*differences(both(fits)[0], both(huge)[1])]
    assert [*differences(both(huge)[0], both(fits)[1])]


def _container(cpu: str) -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}}
