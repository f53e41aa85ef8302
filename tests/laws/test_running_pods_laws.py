"""Laws of running pods: `check -A` says of a pod what `check -f` said of its manifest."""

from collections.abc import Iterator

from hypothesis import assume, event, given

from kubectl_numa import moving, running_pods
from kubectl_numa.checking import Checked, CheckResult
from kubectl_numa.selection import PodSelection
from numalign.model.intent import Match
from numalign.scheduling.running_pods import PodRule, RuleOutcome, RunningPod
from tests.laws.clusters import Case, case
from tests.laws.fleets import drawn
from tests.laws.programs import check_manifest, cluster_view

UID = "00000000-0000-0000-0000-000000000001"


def both(cluster: Case) -> tuple[Checked, RunningPod]:
    """What is said of the manifest, and of the pod once a scheduler has put it on a node where it runs."""
    view, pod = cluster_view(cluster), cluster.pod
    metadata = {**pod["metadata"], "name": "p", "namespace": cluster.namespace, "uid": UID}
    status = {"phase": "Running", "startTime": "2026-11-20T00:00:00Z"}
    created = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": "n0"}, "status": status}
    objects: list[object] = [*cluster.items, created]
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
