"""What could make a prediction wrong: each missing fact is named where it would count, and nowhere else."""

from dataclasses import replace

import pytest

from numalign.rules.doubt import Doubt, doubts
from numalign.rules.topology import Known, Node
from tests.notation import asks, machine, node, options, table

CPUS, MEMORY, DEVICES = "cpu=2 mem=1Gi", "cpu=500m mem=1Gi", "cpu=500m gpu=1"
NOTHING = "cpu=500m.."


def told(start: Node) -> Node:
    """The node with its configuration told: options no longer in doubt."""
    return replace(start, known=Known.CONFIGURED)


PLAIN = told(node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="restricted"))
BUSY = told(node("cpu=8//4 mem=8Gi//4Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="restricted"))
GROUPED = told(node("cpu=8 mem=8Gi//4Gi", "cpu=8 mem=8Gi//4Gi", blocks=[(0, 1)], policy="restricted"))
LONE = told(node("cpu=8//4 mem=8Gi//4Gi", policy="restricted"))
CORES = replace(PLAIN, options=options("full-pcpus-only"))
SOCKETS = replace(PLAIN, options=options("align-by-socket"))
CLOSEST = replace(PLAIN, options=options("prefer-closest-numa-nodes"))
NEWER = replace(PLAIN, options=options(minor=99))
LAZY = told(node("gpu=1", "gpu=1", policy="none"))
KNOWN = machine("cpu=0-3", "cpu=4-7", devices="gpu=0,1", reserved="0", policy="restricted")
OLD_KNOWN = replace(KNOWN, options=options("full-pcpus-only align-by-socket", minor=12))

DOUBTS = [
    # what it shows                               node      pod      doubts
    ("nobody told how the kubelet is configured", node("cpu=8", "cpu=8"), CPUS, {Doubt.OPTIONS}),
    ("which is no matter to who gets nothing",    node("cpu=8", "cpu=8"), NOTHING, set()),
    ("CPUs of an empty node are not in doubt",    PLAIN,    CPUS,    set()),
    ("of a used one, some only look free",        LONE,     CPUS,    {Doubt.INIT_CPUS}),
    ("used memory may bind zones together",       BUSY,     MEMORY,  {Doubt.GROUPS}),
    ("unless it was seen how",                    GROUPED,  MEMORY,  set()),
    ("or there is but one zone",                  LONE,     MEMORY,  set()),
    ("devices may sit between zones",             PLAIN,    DEVICES, {Doubt.DEVICES}),
    ("which is no matter where nothing is aligned", LAZY,   DEVICES, set()),
    ("how many threads make a whole core",        CORES,    CPUS,    {Doubt.THREADS}),
    ("a label tells",                             replace(CORES, threads=2), CPUS, set()),
    ("and on a used node, which cores are whole",
     replace(BUSY, threads=2, options=CORES.options), CPUS, {Doubt.CORES, Doubt.GROUPS, Doubt.INIT_CPUS}),
    ("which is no matter to who asks for no CPU", CORES,    MEMORY,  set()),
    ("which zones share a socket",                SOCKETS,  CPUS,    {Doubt.SOCKETS}),
    ("how far apart zones are",                   CLOSEST,  CPUS,    {Doubt.DISTANCES}),
    ("a version that was never compared",         NEWER,    CPUS,    {Doubt.VERSION}),
    ("of a known machine nothing is in doubt",    KNOWN,    "cpu=2 mem=1Gi gpu=1", set()),
    ("but what its kubelet makes of it",          OLD_KNOWN, CPUS,   {Doubt.VERSION}),
]  # fmt: skip


@pytest.mark.parametrize(("start", "pod", "named"), table(DOUBTS))
def test_doubts(start: Node, pod: str, named: set[Doubt]) -> None:
    assert set(doubts(start, asks(pod))) == named


def test_every_doubt_is_shown() -> None:
    assert set().union(*(named for *_, named in DOUBTS)) == set(Doubt)
