"""What a person reads, to the letter."""

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
from numalign.model.node import Known, node_class
from tests.unit.kubectl_numa.objects import state, view
from tests.worlds.notation import node, table
from tests.worlds.webhook import raw

SINGLE = {"numalign.io/policy": "single-numa-node"}


def shown(
    cluster: ClusterView,
    container: str,
    annotations: dict[str, str],
    *,
    depth: bool = False,
    limit: int | None = None,
) -> str:
    made = raw(container, annotations=annotations)
    asked = cluster.decide(made, name="pod", namespace="default")
    explained = explanation.explain(asked, cluster, state(cluster))
    written = io.StringIO()
    writer = TextWriter(Console(file=written, width=80))
    pages.show(explained, writer, now=cluster.now, limit=limit)
    for answer in explained.answers if depth else ():
        pages.show_node(explained, answer, writer)
    return written.getvalue()


def test_a_whole_page(cluster: ClusterView) -> None:
    big, small = (node_class(each) for each in cluster.snapshot.nodes)
    assert shown(cluster, "cpu=32 mem=4Gi", SINGLE) == (
        'default/pod requests single-numa-node alignment\n  container "c0": 32 cpu, 4Gi memory\n  1 of 2'
        " nodes can run it now, 1 never; no NUMA topology published by hidden\n\n  fits    94 big\n        "
        f"     class {big}\n             gets  zone 1: 32 cpu, 4Gi memory\n             rank  94 of 100: one"
        " zone of two (12 deducted for each), no closer\n                   ones exist (6 added)\n\n  never"
        f"      small\n             class {small}\n             why   the pod: the node has at most 16 cpu"
        " in total\n\n  based on   counts of 2 nodes; unknown: options, no version, init cpus\n"
    )


@pytest.mark.parametrize(
    ("rules", "words"),
    table(
        [
            ("routed", {"scheduler": "second"}, "would be assigned to the scheduler second by its namespace"),
            (
                "gated",
                {"gate": Gate.ENABLED},
                "would be held by the scheduling gate numalign.io/placement if the webhook runs with --gates",
            ),
        ]
    ),
)
def test_who_is_to_place_a_pod_stands_above_what_nodes_say(rules: dict[str, Any], words: str) -> None:
    cluster = view(node("cpu=8 mem=8Gi", policy="restricted"), rules=NamespaceRules(**rules))
    page = shown(cluster, "cpu=4 mem=1Gi", SINGLE)
    assert f"4 cpu, 1Gi memory {words} " in " ".join(page.split())
    assert "would be" not in shown(cluster, "cpu=4 mem=1Gi", {"numalign.io/policy": "none"})


def test_beyond_the_limit_nodes_are_counted_by_reason() -> None:
    full, busy = (
        node("cpu=8/8/2 mem=8Gi", policy="single-numa-node"),
        node("cpu=8 mem=8Gi", policy="restricted"),
    )
    cordoned = replace(busy, attributes=Attributes(cordoned=True))
    small = node("cpu=2 mem=8Gi", policy="single-numa-node", totals="cpu=2 mem=8Gi")
    nodes = {"a": busy, "b": full, "c": full, "d": cordoned, "e": small, "f": replace(busy, threads=2)}
    page = shown(
        view(*(replace(each, name=name) for name, each in nodes.items())), "cpu=4 mem=1Gi", SINGLE, limit=1
    )
    assert page[page.index("  and ") :] == (
        "  and 4 more nodes (--limit 0 shows them all)\n  later       2 have no NUMA zone with 4 cpu and"
        " 1Gi memory free\n  later       1 were unschedulable\n  never       1 have less than 4 cpu in"
        " total\n\n  based on   counts of 6 nodes; unknown: options, no version, init cpus\n"
    )
    assert "a, f" in page


def test_it_is_told_what_agents_tell() -> None:
    told = node("cpu=8 mem=8Gi", policy="single-numa-node")
    nodes = (replace(told, name="a", known=Known.MACHINE), replace(told, name="b", known=Known.MACHINE), told)
    cluster = view(*nodes, now=1_790_000_000.0, observed_at={"a": 1_789_999_990.0, "b": 1_789_999_000.0})
    page = shown(cluster, "cpu=4 mem=1Gi", SINGLE, depth=True)

    words = " ".join(page.split())
    assert "based on machine of 2 nodes from their agents, counts of 1 node; unknown: " in words
    assert "; stale: the agent of 1 node " in words
    assert "  known: machine, reported by its agent less than a minute ago\n" in page
    assert "  known: machine, reported by its agent, silent for 16 min\n" in page


def test_a_refusal_stands_above_the_nodes(cluster: ClusterView) -> None:
    page = shown(cluster, "cpu=33 mem=4Gi", SINGLE)
    assert page.splitlines()[3].startswith('  denied:  no node can align container "c0" as ')


def test_what_only_the_kubelet_refuses_is_not_called_denied(cluster: ClusterView) -> None:
    assert '\n  never:   no node can run container "c0" (0 of 3' in shown(cluster, "cpu=33 mem=4Gi", {})


def test_a_namespace_that_enforces_more_denies(cluster: ClusterView) -> None:
    strict = ClusterView(
        replace(cluster.snapshot, namespaces={"default": NamespaceRules(enforce=Policy.RESTRICTED)})
    )
    assert (
        '  denied:  namespace "default" enforces NUMA alignment of at least restricted,\n           and'
        " the pod requests none. Set annotation numalign.io/policy to\n           restricted or"
        " single-numa-node.\n"
    ) in shown(strict, "cpu=8 mem=4Gi", {})


def test_what_does_not_fit_now_says_what_is_short_now() -> None:
    busy = view(node("cpu=8/8/2 mem=8Gi", policy="single-numa-node"))
    assert (
        '             now   container "c0": the node has at most 2 cpu free in one NUMA\n                 '
        '  zone (Topology Manager policy "single-numa-node")\n'
    ) in shown(busy, "cpu=4 mem=1Gi", SINGLE)


def test_without_nodes_nothing_is_said() -> None:
    page = shown(view(), "cpu=4 mem=1Gi", SINGLE)
    assert page.splitlines()[2] == "  no node publishes a NUMA topology, so no node can be evaluated"


@pytest.mark.parametrize(
    ("annotations", "rules", "words"),
    table(
        [
            ("nobody asks", {}, {}, "requests no NUMA alignment; each node's kubelet policy applies"),
            (
                "the namespace asks",
                {},
                {"default": Policy.RESTRICTED},
                "requests restricted alignment (namespace default)",
            ),
            (
                "all three annotations",
                {**SINGLE, "numalign.io/resources": "cpu, memory", "numalign.io/scope": "pod"},
                {},
                "requests single-numa-node alignment of cpu, memory, scope pod",
            ),
            (
                "to be alone",
                {"numalign.io/exclusive": "zone"},
                {"default": Policy.RESTRICTED},
                "requests restricted alignment (namespace default), exclusive in its NUMA zones",
            ),
            (
                "disabled",
                SINGLE,
                {"disabled": True},
                (
                    "is not checked: its namespace is labelled numalign.io/admission: disabled; each"
                    " node's kubelet policy applies"
                ),
            ),
        ]
    ),
)
def test_a_wish_in_words(annotations: dict[str, str], rules: dict[str, Any], words: str) -> None:
    cluster = view(rules=NamespaceRules(**rules))
    made = raw("cpu=2", annotations=annotations)
    asked = cluster.decide(made, name="pod", namespace="default")
    assert pages.intent_text(asked) == words


def test_a_node_in_depth_shows_what_the_kubelet_would_do_and_what_is_short_where() -> None:
    best_effort = view(node("cpu=4 mem=8Gi", "cpu=4 mem=8Gi", policy="best-effort"))
    page = shown(best_effort, "cpu=6 mem=1Gi", SINGLE, depth=True)
    assert page.endswith(
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
