"""The outcomes of the bundled pods are the expected ones, with the real webhook over HTTPS."""

from collections.abc import Callable
from typing import Any

import pytest

from examples.demo import bundled, small, webhook
from examples.demo.bundled import Story
from examples.demo.calls import PodOutcome, line_to
from examples.demo.story import DemoFiles
from kubectl_numa.lines import TextWriter
from kubectl_numa.questions import ClusterView
from numalign.kube.files import snapshot
from numalign.model.node import node_class
from numalign.scheduling.scheduler_state import SchedulerState
from tests.unit.examples.demo.conftest import fake
from tests.unit.kubectl_numa.objects import state

STORIES = {story.manifest["metadata"]["name"]: story for story in bundled.stories(bundled.read(bundled.PODS))}


@pytest.fixture
def nodes(files: DemoFiles) -> ClusterView:
    """The bundled cluster."""
    return ClusterView(snapshot.load(files.cluster))


@pytest.fixture
def pods(nodes: ClusterView) -> SchedulerState:
    """The same cluster without pods."""
    return state(nodes)


async def test_every_bundled_pod_has_its_expected_outcome(
    files: DemoFiles, nodes: ClusterView, pods: SchedulerState, output: TextWriter, text: Callable[[], str]
) -> None:
    stories = list(STORIES.values())
    async with webhook.running(files.cluster, files.pair) as running, line_to(running, connections=1) as post:
        tally, differing = await small.review(stories, nodes, pods, post, output)
    assert running.process.returncode == 0
    assert differing == 0, text()
    assert str(tally) == "22 reviewed, 17 admitted (12 patched, 7 warned), 5 denied"
    shown = text()
    assert shown.startswith(
        "1/22  default/inference-7b\n"
        "  shows     the simple case, one GPU with its CPUs and memory in one zone.\n"
        "  pod       requests single-numa-node alignment. Guaranteed: container server 8\n"
        "            cpu, 48Gi memory, 1 nvidia.com/gpu\n"
        "  verdict   admitted, patched\n"
        "  affinity  nodeAffinity:\n"
        "              requiredDuringSchedulingIgnoredDuringExecution:\n"
        "                nodeSelectorTerms:\n"
    )
    assert "                         ^\n" in shown
    assert max(map(len, shown.splitlines())) <= 110


async def test_different_outcome_is_shown(
    nodes: ClusterView, pods: SchedulerState, output: TextWriter, text: Callable[[], str]
) -> None:
    _, differing = await small.review([STORIES["inference-7b"]], nodes, pods, fake(), output)
    assert differing == 1
    shown = " ".join(text().split())
    assert "But the outcome is admitted, not admitted, patched, and it keeps away from no node" in shown


def outcome_with(affinity: dict[str, Any], *, outcome: dict[str, Any] | None = None) -> PodOutcome:
    pod = {"spec": {"affinity": affinity}}
    return PodOutcome(pod, pod, **(outcome or {}))


def requiring(*values: str) -> dict[str, Any]:
    expression = {"key": "numalign.io/class", "operator": "NotIn", "values": list(values)}
    terms = [{}, {"matchExpressions": [expression, {"key": "x", "operator": "Exists"}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def test_excluded_nodes_are_those_of_the_classes(nodes: ClusterView) -> None:
    dgx = next(node for node in nodes.snapshot.nodes if node.name == "dgx-1")
    away = small.excluded(outcome_with(requiring(node_class(dgx), "no-such-class")), nodes)
    assert away == {"dgx-1", "dgx-2"}
    assert small.excluded(outcome_with({}), nodes) == frozenset()


def test_unexpectedly_excluded_nodes_are_a_difference(nodes: ClusterView, pods: SchedulerState) -> None:
    story = Story(STORIES["metrics-cache"].manifest, "", "admitted, patched; nothing to keep away from.")
    dgx = next(node for node in nodes.snapshot.nodes if node.name == "dgx-1")
    answer = outcome_with(requiring(node_class(dgx)), outcome={"operations": ({"op": "add"},)})
    assert small.compare(story, answer, nodes, pods).differences == (
        "it keeps away from dgx-1, dgx-2, not none",
    )


@pytest.mark.parametrize(
    ("name", "node"),
    [("inference-7b", None), ("pinned-benchmark", "legacy-1"), ("gpu-exporter-x7k2p", "dgx-1")],
    ids=["a scheduler chooses", "the pod names its node", "a DaemonSet's controller has"],
)
def test_node_of_a_pod_that_is_placed_already(name: str, node: str | None) -> None:
    assert small.placed_on(STORIES[name].manifest) == node
