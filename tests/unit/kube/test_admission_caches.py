"""A cache that is used now and then has all that changed in between."""

from dataclasses import replace

from numalign.cache import Question
from numalign.decision.evaluate import NO_INTENT
from numalign.kube.admission_caches import GatheredCache
from numalign.kube.cluster import NO_NODE, NodeChanged, NodeState, ShapesChanged
from numalign.model.constraints import Constraints, Operator, Requirement
from numalign.shapes import GrowablePools, Pool
from tests.worlds.clusters import a_cluster
from tests.worlds.notation import asks, node

SMALL = replace(node("cpu=8 mem=8Gi", policy="restricted"), name="small")
POD = Question(asks("cpu=2 mem=1Gi"), NO_INTENT)


async def test_nodes_that_come_change_and_go_are_those_of_now() -> None:
    cluster = a_cluster([SMALL])
    gathered = GatheredCache(cluster)
    assert (await gathered.current()).nodes.names() == {"small"}

    before, other = cluster.states["small"], NodeState(replace(SMALL, name="other"))
    cluster.apply(NodeChanged("other", NO_NODE, other))
    cluster.apply(NodeChanged("small", before, NO_NODE))
    assert (await gathered.current()).nodes.names() == {"other"}


async def test_other_pools_count_without_another_shape_or_node() -> None:
    pool = Pool("pool", "b")
    in_pool = Constraints((Requirement("pool", Operator.IN, frozenset({"b"})),))
    cluster = a_cluster([SMALL])
    gathered = GatheredCache(cluster)
    assert (await gathered.current()).ever(POD, in_pool).may_grow is None

    cluster.apply(ShapesChanged({}, None, GrowablePools(frozenset({"pool"}), frozenset())))
    assert (await gathered.current()).ever(POD, in_pool).may_grow == pool
