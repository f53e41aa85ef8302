"""The text that explains a pod."""

import io
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from kubectl_numa import explanation, pages
from kubectl_numa.lines import TextWriter
from kubectl_numa.questions import ClusterView
from numalign.model.attributes import Attributes
from numalign.model.intent import Gate, NamespaceRules, Policy
from numalign.model.node import Known, Node, node_class
from tests.unit.kubectl_numa.objects import SINGLE, state, view
from tests.worlds.notation import node, table
from tests.worlds.webhook import raw

ALIGNED = {"numalign.io/policy": SINGLE}


def shown(
    cluster: ClusterView,
    container: str,
    annotations: dict[str, str] = ALIGNED,
    *,
    depth: bool = False,
    limit: int | None = None,
) -> str:
    pod = raw(container, annotations=annotations)
    decided = cluster.decide(pod, name="pod", namespace="default")
    explained = explanation.explain(decided, cluster, state(cluster))
    written = io.StringIO()
    writer = TextWriter(Console(file=written, width=80))
    pages.show(explained, writer, now=cluster.now, limit=limit)
    for answer in explained.answers if depth else ():
        pages.show_node(explained, answer, writer)
    return written.getvalue()


def test_a_page_has_groups_of_nodes(cluster: ClusterView) -> None:
    big, small = (node_class(each) for each in cluster.snapshot.nodes)

    assert shown(cluster, "cpu=32 mem=4Gi") == (
        'default/pod requests single-numa-node alignment\n  container "c0": 32 cpu, 4Gi memory\n  1 of 2'
        " nodes can run it now, 1 never; no NUMA topology published by hidden\n\n  fits    94 big\n        "
        f"     class {big}\n             gets  zone 1: 32 cpu, 4Gi memory\n             rank  94 of 100: one"
        " zone of two (12 deducted for each), no closer\n                   ones exist (6 added)\n\n  never"
        f"      small\n             class {small}\n             why   the pod: the node has at most 16 cpu"
        " in total\n\n  based on   counts of 2 nodes; unknown: options, no version, init cpus\n"
    )


def test_beyond_the_limit_nodes_are_counted_by_reason() -> None:
    full, busy = node("cpu=8/8/2 mem=8Gi", policy=SINGLE), node("cpu=8 mem=8Gi", policy="restricted")
    cordoned = replace(busy, attributes=Attributes(cordoned=True))
    small = node("cpu=2 mem=8Gi", policy=SINGLE, totals="cpu=2 mem=8Gi")
    nodes = {"a": busy, "b": full, "c": full, "d": cordoned, "e": small, "f": replace(busy, threads=2)}
    cluster = view(*(replace(each, name=name) for name, each in nodes.items()))
    page = shown(cluster, "cpu=4 mem=1Gi", limit=1)

    assert page[page.index("  and ") :] == (
        "  and 4 more nodes (--limit 0 shows them all)\n  later       2 have no NUMA zone with 4 cpu and"
        " 1Gi memory free\n  later       1 were unschedulable\n  never       1 have less than 4 cpu in"
        " total\n\n  based on   counts of 6 nodes; unknown: options, no version, init cpus\n"
    )
    assert "a, f" in page


def test_reports_of_agents_have_their_age() -> None:
    made = replace(node("cpu=8 mem=8Gi", policy=SINGLE), known=Known.MACHINE)
    nodes = (replace(made, name="a"), replace(made, name="b"), replace(made, known=Known.COUNTS))
    cluster = view(*nodes, now=1_790_000_000.0, observed_at={"a": 1_789_999_990.0, "b": 1_789_999_000.0})
    page = shown(cluster, "cpu=4 mem=1Gi", depth=True)
    words = " ".join(page.split())

    assert "based on machine of 2 nodes from their agents, counts of 1 node; unknown: " in words
    assert "; stale: the agent of 1 node " in words
    assert "  known: machine, reported by its agent less than a minute ago\n" in page
    assert "  known: machine, reported by its agent, silent for 16 min\n" in page


PLAIN = node("cpu=8 mem=8Gi", policy="restricted")


def ruled(made: Node = PLAIN, **rules: Any) -> ClusterView:  # noqa: ANN401  any value
    return view(made, rules=NamespaceRules(**rules))


SENTENCES = [
    # the cluster, the container, its annotations, and a part of the text
    ("routed", ruled(scheduler="second"), "cpu=4 mem=1Gi", ALIGNED,
        "4 cpu, 1Gi memory would be assigned to the scheduler second by its namespace "),
    ("gated", ruled(gate=Gate.ENABLED), "cpu=4 mem=1Gi", ALIGNED,
        "4 cpu, 1Gi memory would be held by the scheduling gate numalign.io/placement if the webhook runs"),
    ("denied", ruled(), "cpu=33 mem=4Gi", ALIGNED, " denied: no node can align "),
    ("refused by kubelets", ruled(), "cpu=33 mem=4Gi", {}, " never: no node can run "),
    ("below enforce", ruled(enforce=Policy.RESTRICTED), "cpu=8 mem=4Gi", {},
        (' denied: namespace "default" enforces NUMA alignment of at least restricted, and the pod requests'
        " none. Set annotation numalign.io/policy to restricted or single-numa-node.")),
    ("no room now", ruled(node("cpu=8/8/2 mem=8Gi", policy=SINGLE)), "cpu=4 mem=1Gi", ALIGNED,
        ' now container "c0": the node has at most 2 cpu free in one NUMA zone (Topology Manager policy'),
    ("no nodes", view(), "cpu=4 mem=1Gi", ALIGNED,
        "no node publishes a NUMA topology, so no node can be evaluated"),
    ("no policy", ruled(), "cpu=2", {}, "requests no NUMA alignment; each node's kubelet policy applies"),
    ("a default", ruled(default=Policy.RESTRICTED), "cpu=2", {},
        "requests restricted alignment (namespace default)"),
    ("all annotations", ruled(), "cpu=2", {**ALIGNED, "numalign.io/resources": "cpu, memory",
        "numalign.io/scope": "pod"}, "requests single-numa-node alignment of cpu, memory, scope pod"),
    ("exclusive", ruled(default=Policy.RESTRICTED), "cpu=2", {"numalign.io/exclusive": "zone"},
        "requests restricted alignment (namespace default), exclusive in its NUMA zones"),
    ("exempt", ruled(disabled=True), "cpu=2", ALIGNED, ("is not checked: its namespace is labelled"
        " numalign.io/admission: disabled; each node's kubelet policy applies")),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "container", "annotations", "part"), table(SENTENCES))
def test_a_sentence_of_the_page(
    cluster: ClusterView, container: str, annotations: dict[str, str], part: str
) -> None:
    words = " ".join(shown(cluster, container, annotations).split())

    assert part in words
    assert ("would be" in words) == ("would be" in part)


def test_a_node_in_depth_has_its_zones_and_shortages() -> None:
    best_effort = view(node("cpu=4 mem=8Gi", "cpu=4 mem=8Gi", policy="best-effort"))

    assert shown(best_effort, "cpu=6 mem=1Gi", depth=True).endswith(
        "\nnode  best-effort, scope container\n  known: counts, reported by an exporter\n "
        f" {node_class(best_effort.snapshot.nodes[0])}\n  not labelled\n          cpu                  "
        " memory\n  zone 0  ░░░░░░░░░░░░░░░░ 0/4  ░░░░░░░░░░░░░░░░ 0/8Gi\n  zone 1  ░░░░░░░░░░░░░░░░ 0/4 "
        " ░░░░░░░░░░░░░░░░ 0/8Gi\n  would allocate     zone 0: 4 cpu; zone 0 and zone 1 together: 1Gi"
        " memory;\n                     zone 1: 2 cpu\n  short in           zone 0: cpu 6 requested, 4"
        " free\n  short in           zone 1: cpu 6 requested, 4 free\n  topology hint      container c0:"
        " zone 0, zone 1, not preferred\n  node as a whole    requested 6 cpu, 1Gi memory; total unknown\n "
        " unknown            the kubelet's options are unknown; none are assumed\n  unknown            the"
        " kubelet's version is unknown; the newest tested version\n                     is assumed\n"
    )
