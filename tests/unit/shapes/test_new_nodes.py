"""Which labels a new node shares with the present ones of its kind, by their keys."""

import tracemalloc

import pytest

from numalign.model.constraints import NAME_FIELD, Constraints, Operator, Requirement, Term
from numalign.shapes.new_nodes import loosened, set_later, varied
from tests.worlds.notation import table

MANY, LONG = 32, 100_000

KEYS = [
    # the key of a label                               varied set later
    ("topology.kubernetes.io/zone",                    True,  False),
    ("topology.disk.csi.azure.com/zone",               True,  False),
    ("topology.k8s.aws/network-node-layer-1",          True,  False),
    ("network.topology.nvidia.com/leaf",               True,  True),
    ("nvidia.com/gpu.clique",                          True,  True),
    ("example.com/hall",                               True,  False),
    ("kubernetes.io/hostname",                         True,  False),
    ("karpenter.k8s.aws/instance-gpu-count",           True,  False),
    ("karpenter.sh/capacity-type",                     True,  False),
    ("cloud.google.com/gke-spot",                      True,  False),
    ("example.com/rackId",                             True,  False),
    ("feature.node.kubernetes.io/kernel-version.full", True,  True),
    ("nvidia.com/mig.config.state",                    True,  True),
    ("nvidia.com/gpu.product",                         False, True),
    ("feature.node.kubernetes.io/pci-10de.present",    False, True),
    ("numalign.io/class",                              False, True),
    ("numalign.io/node",                               True,  True),
    ("notnvidia.com/x",                                False, False),
    ("pool",                                           False, False),
    ("node-role.kubernetes.io/control-plane",          False, False),
    ("kubernetes.io/os",                               False, False),
    ("trackid",                                        False, False),
]  # fmt: skip


@pytest.mark.parametrize(("key", "varies", "later"), KEYS)
def test_label_key_decides_if_new_nodes_may_differ(key: str, *, varies: bool, later: bool) -> None:
    assert (varied(key), set_later(key)) == (varies, later)


def test_overlong_key_is_not_cached() -> None:
    tracemalloc.start()
    try:
        for at in range(MANY):
            varied(f"{at}{'x' * LONG}")
            set_later(f"{at}{'x' * LONG}")
        now, _most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < LONG


def wants(key: str) -> Requirement:
    return Requirement(key, Operator.IN, frozenset("a"))


POOL, ZONE, PRODUCT, NAME = map(wants, ["pool", "zone", "nvidia.com/gpu.product", NAME_FIELD])
NOTHING = Term()


def any_of(*terms: Term) -> Constraints:
    return Constraints(terms=terms)


LOOSENED = [
    # what it shows                     the constraints, and those that hold for new nodes too
    ("a node selector", Constraints((POOL, ZONE, PRODUCT)), Constraints((POOL,))),
    ("each term", any_of(Term((POOL, ZONE)), Term((POOL,), (NAME,))), any_of(Term((POOL,)), Term((POOL,)))),
    ("a term of varying labels", any_of(Term((POOL,)), Term((ZONE,))), Constraints()),
    ("a term about a name", any_of(Term((POOL,)), Term(fields=(NAME,))), Constraints()),
    ("a term that nothing meets", any_of(Term((POOL,)), NOTHING), any_of(Term((POOL,)))),
    ("no term that anything meets", any_of(NOTHING), any_of()),
]  # fmt: skip


@pytest.mark.parametrize(("stated", "lasting"), table(LOOSENED))
def test_varying_labels_do_not_bind_new_nodes(stated: Constraints, lasting: Constraints) -> None:
    assert loosened(stated) == lasting
