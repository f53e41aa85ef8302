"""What could make a prediction wrong: each missing fact is named where it would count, and nowhere else."""

from dataclasses import replace

import pytest

from numalign.decision.doubts import Doubt, doubts
from numalign.model import demand
from numalign.model.intent import Policy
from numalign.model.node import Known, Node
from tests.worlds.notation import GPU, asks, machine, node, options, pod, table

CPUS, MEMORY, DEVICES = "cpu=2 mem=1Gi", "cpu=500m mem=1Gi", "cpu=500m gpu=1"
NOTHING = "cpu=500m.."


def configured(start: Node, words: str = "", *, minor: int = 36) -> Node:
    """The node with a known configuration and version."""
    return replace(start, known=Known.CONFIGURED, options=options(words, minor=minor))


PLAIN = configured(node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="restricted"))
BUSY = configured(node("cpu=8//4 mem=8Gi//4Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="restricted"))
GROUPED = configured(node("cpu=8 mem=8Gi//4Gi", "cpu=8 mem=8Gi//4Gi", blocks=[(0, 1)], policy="restricted"))
LONE = configured(node("cpu=8//4 mem=8Gi//4Gi", policy="restricted"))
KEPT = configured(node("cpu=8/7", "cpu=8"), "full-pcpus-only")
CORES = configured(PLAIN, "full-pcpus-only")
SOCKETS = configured(PLAIN, "align-by-socket")
CLOSEST = configured(PLAIN, "prefer-closest-numa-nodes")
KNOWN = replace(
    machine("cpu=0-3", "cpu=4-7", devices="gpu=0,1", reserved="0", policy="restricted"),
    options=options("full-pcpus-only align-by-socket", minor=34),
)
LOST = replace(PLAIN, uncertain=frozenset({GPU}))
UNVERSIONED = replace(PLAIN, options=options())
NEWER = replace(KNOWN, options=options(minor=99))
NOVEL = options(minor=36, unknown="prefer-blue")
SCORED = options(minor=37, strategy="most-allocated")
PACKED = options("prefer-most-allocated-numa-node", minor=37)

DOUBTS = [
    # what it shows                               node      pod      doubts
    ("unknown configuration", node("cpu=8", "cpu=8"), CPUS, {Doubt.OPTIONS, Doubt.NO_VERSION}),
    ("for a pod that gets nothing",    node("cpu=8", "cpu=8"), NOTHING, set()),
    ("known options, unknown version",     UNVERSIONED, CPUS, {Doubt.NO_VERSION}),
    ("CPUs of an empty node are not in doubt",    PLAIN,    CPUS,    set()),
    ("of a used node, some may be in use",        LONE,     CPUS,    {Doubt.INIT_CPUS}),
    ("used memory may bind zones together",       BUSY,     MEMORY,  {Doubt.GROUPS}),
    ("unless groups are known",                    GROUPED,  MEMORY,  set()),
    ("or there is but one zone",                  LONE,     MEMORY,  set()),
    ("devices may be unlike what zones show",     PLAIN,    DEVICES, {Doubt.DEVICES}),
    ("zones that an exporter got wrong", LOST, DEVICES, {Doubt.DEVICES, Doubt.ZONES}),
    ("for a pod that requests others", LOST,     CPUS,    set()),
    ("how many threads make a whole core",        CORES,    CPUS,    {Doubt.THREADS}),
    ("unless a label has them",                     replace(CORES, threads=1), CPUS, set()),
    ("which cores keep a thread for the system",  replace(KEPT, threads=1), CPUS, {Doubt.CORES}),
    ("and which are in use",                      configured(LONE, "full-pcpus-only"), CPUS,
                                                        {Doubt.THREADS, Doubt.CORES, Doubt.INIT_CPUS}),
    ("for a pod without CPUs", CORES,    MEMORY,  set()),
    ("which zones share a socket",                SOCKETS,  CPUS,    {Doubt.SOCKETS}),
    ("how far apart zones are",                   CLOSEST,  CPUS,    {Doubt.DISTANCES}),
    ("a version that was never compared",         configured(PLAIN, minor=35), CPUS, {Doubt.VERSION}),
    ("one that is not released yet",              configured(PLAIN, minor=38), CPUS, {Doubt.PRE_RELEASE}),
    ("of a known machine nothing is in doubt",    KNOWN,    "cpu=2 mem=1Gi gpu=1", set()),
    ("but its version",                           NEWER,    CPUS,    {Doubt.VERSION}),
    ("an option that is not known", replace(PLAIN, options=NOVEL), CPUS, {Doubt.UNKNOWN_OPTION}),
    ("one that no release has",                   replace(PLAIN, options=SCORED), CPUS, {Doubt.UNRELEASED}),
    ("unless its policy is another",              replace(PLAIN, options=PACKED), CPUS, set()),
    ("scores of what is not preferred",           replace(PLAIN, options=SCORED, policy=Policy.BEST_EFFORT),
                                                     CPUS,           {Doubt.UNRELEASED, Doubt.SCORES}),
    ("but not of one resource alone",             replace(PLAIN, options=SCORED, policy=Policy.BEST_EFFORT),
                                                     DEVICES,        {Doubt.DEVICES, Doubt.UNRELEASED}),
]  # fmt: skip


@pytest.mark.parametrize(("start", "pod", "named"), table(DOUBTS))
def test_missing_fact_is_a_doubt_where_it_counts(start: Node, pod: str, named: set[Doubt]) -> None:
    assert set(doubts(start, asks(pod))) == named


def test_pod_pinned_only_by_a_gate_is_doubted() -> None:
    pod_level = demand.of(pod("cpu=1.. mem=1Gi..", requests="cpu=2 mem=2Gi", limits="cpu=2 mem=2Gi"))
    assert doubts(node("cpu=8", "cpu=8"), pod_level) == (Doubt.OPTIONS, Doubt.NO_VERSION)


def test_kubelet_without_pod_level_resources_is_doubted() -> None:
    pod_level = demand.of(pod("cpu=2 mem=1Gi", requests="cpu=2 mem=2Gi", limits="cpu=2 mem=2Gi"))
    assert doubts(configured(PLAIN, minor=32), pod_level) == (Doubt.POD_LEVEL,)
    assert doubts(configured(PLAIN, minor=34), pod_level) == ()


def test_every_doubt_is_shown() -> None:
    assert set().union(*(named for *_, named in DOUBTS)) == set(Doubt) - {Doubt.POD_LEVEL}
