"""Which pools may get nodes of any hardware, and which pods could be placed there."""

from collections.abc import Mapping

import pytest

from numalign.model.attributes import OS_LABEL, Attributes, Labels, Taint
from numalign.model.constraints import Constraints, Operator, Requirement, Term, Toleration
from numalign.shapes.growable_pools import BUILT_IN, LABELS, GrowablePools, Pool
from numalign.shapes.shape import LabelValues, Shape, shape
from tests.worlds.notation import node, table

NODEPOOL, GROUP, EKSCTL = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
)
DEFAULT, BATCH = Pool(NODEPOOL, "default"), Pool(NODEPOOL, "batch")
GPU_TAINT = Taint("dedicated", "gpu")
TOLERANT = (Toleration("dedicated", value="gpu"),)


def wants(key: str, *values: str, by: Operator = Operator.IN) -> Requirement:
    return Requirement(key, by, frozenset(values))


def selects(*requirements: Requirement) -> Constraints:
    return Constraints(requirements)


def any_of(*requirements: Requirement) -> Constraints:
    return Constraints(terms=tuple(Term((each,)) for each in requirements))


def fixed(*pools: Pool) -> GrowablePools:
    return GrowablePools(fixed=frozenset(pools))


ANY_POOL = wants(NODEPOOL, by=Operator.EXISTS)
NAMED = [
    # what it shows                     which pools may grow, the constraints, the pool that they name
    ("a node selector",                 BUILT_IN, selects(wants(NODEPOOL, "default")), DEFAULT),
    ("one of several terms",            BUILT_IN, any_of(wants("tier"), wants(NODEPOOL, "batch")), BATCH),
    ("any pool of a kind",              BUILT_IN, selects(ANY_POOL), Pool(NODEPOOL)),
    ("all pools but one",               BUILT_IN, selects(wants(NODEPOOL, "a", by=Operator.NOT_IN)), None),
    ("no pool",                         BUILT_IN, selects(wants("pool", "a")), None),
    ("a label of the policy file",      GrowablePools(frozenset({"pool"})), selects(wants("pool", "a")),
                                        Pool("pool", "a")),
    ("a fixed pool",                    fixed(DEFAULT), selects(wants(NODEPOOL, "default")), None),
    ("a pool of which all are fixed",   fixed(Pool(NODEPOOL)), selects(wants(NODEPOOL, "default")), None),
    ("a fixed pool, or another",        fixed(DEFAULT), selects(wants(NODEPOOL, "default", "batch")), BATCH),
    ("a fixed pool by two labels",      fixed(Pool(GROUP, "gpu")),
                                        selects(wants(GROUP, "gpu"), wants(EKSCTL, "gpu")), None),
]  # fmt: skip


@pytest.mark.parametrize(("pools", "pod", "named"), table(NAMED))
def test_pod_names_a_pool_that_may_grow(pools: GrowablePools, pod: Constraints, named: Pool | None) -> None:
    assert pools.named(pod) == named


def of(labels: Mapping[str, LabelValues], *taints: Taint, other_labels: bool = False) -> Shape:
    return shape(node("cpu=8 mem=8Gi"), taints, labels, other_labels=other_labels)


def always(*values: str) -> LabelValues:
    return LabelValues(frozenset(values))


def sometimes(*values: str) -> LabelValues:
    return LabelValues(frozenset(values), always=False)


POOLED = of({NODEPOOL: always("default"), "tier": always("a"), OS_LABEL: always("linux")})
TAINTED = of({NODEPOOL: always("default")}, GPU_TAINT)
MIXED = of({NODEPOOL: sometimes("default"), "tier": always("a")})
BOTH = of({NODEPOOL: always("default", "batch")})
MANAGED = of({GROUP: always("gpu"), EKSCTL: always("gpu")})

GROWN = [
    # what it shows                     which pools may grow, the shape, the constraints, the pool
    ("a pod without constraints",         BUILT_IN, POOLED, Constraints(), DEFAULT),
    ("all pools but this one",          BUILT_IN, POOLED,
                                        selects(wants(NODEPOOL, "default", by=Operator.NOT_IN)), None),
    ("another value of a label",        BUILT_IN, POOLED, selects(wants("tier", "b")), DEFAULT),
    ("one of its terms", BUILT_IN, POOLED, any_of(wants("pool", "metal"), wants("tier", "b")), DEFAULT),
    ("and one that may come later",     BUILT_IN, POOLED, selects(wants("nvidia.com/gpu.product", "H200")),
                                        DEFAULT),
    ("a taint",                         BUILT_IN, TAINTED, Constraints(), None),
    ("that it tolerates",               BUILT_IN, TAINTED, Constraints(tolerations=TOLERANT), DEFAULT),
    ("nodes of which some are of one",  BUILT_IN, MIXED, Constraints(), DEFAULT),
    ("where it goes to the others",     BUILT_IN, MIXED,
                                        selects(wants(NODEPOOL, by=Operator.DOES_NOT_EXIST)), None),
    ("two pools",                       BUILT_IN, BOTH, Constraints(), Pool(NODEPOOL)),
    ("of which one is fixed",           fixed(DEFAULT), BOTH, Constraints(), BATCH),
    ("where it names that one",         fixed(DEFAULT), BOTH, selects(wants(NODEPOOL, "default")), None),
    ("by one of two labels",            fixed(Pool(GROUP, "gpu")), MANAGED, Constraints(), None),
    ("labels that are not known",       BUILT_IN, of({}, other_labels=True), selects(wants("tier", "a")),
                                        Pool("agentpool")),
]  # fmt: skip


@pytest.mark.parametrize(("pools", "seen", "pod", "pool"), table(GROWN))
def test_pool_may_grow_a_node_that_differs_in_hardware(
    pools: GrowablePools, seen: Shape, pod: Constraints, pool: Pool | None
) -> None:
    assert pools.grown_by(seen, pod) == pool
    assert (pools.unmet(seen, pod) is None) == (pool is not None)


BARE = Attributes(
    Labels({NODEPOOL: "default", "tier": "a"}), (GPU_TAINT, Taint("node.kubernetes.io/not-ready"))
)


def test_node_without_topology_shows_labels_and_taints() -> None:
    [alike, seen] = [BUILT_IN.node(each) for each in (Attributes(BARE.labels, (GPU_TAINT,)), BARE)]
    assert seen is not None
    assert seen == alike
    assert BUILT_IN.grown_by_node(seen, Constraints((wants("tier", "b"),), tolerations=TOLERANT)) == DEFAULT
    assert (
        BUILT_IN.grown_by_node(seen, Constraints((wants(NODEPOOL, "batch"),), tolerations=TOLERANT)) is None
    )
    assert BUILT_IN.grown_by_node(seen, Constraints((wants("pool", "a"),), tolerations=TOLERANT)) is None
    assert BUILT_IN.grown_by_node(seen, Constraints()) is None
    assert fixed(DEFAULT).grown_by_node(seen, Constraints(tolerations=TOLERANT)) is None
    assert BUILT_IN.node(Attributes(Labels({"tier": "a"}))) is None


def test_every_built_in_label_has_a_source() -> None:
    assert all(LABELS.values())
    assert {NODEPOOL, GROUP, EKSCTL, "cloud.google.com/gke-nodepool", "agentpool"} < BUILT_IN.labels
