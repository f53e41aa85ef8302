"""Many nodes are asked in steps, and say what each says by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.cache import Question
from numalign.cache.columns import FreeOrEmpty, When
from numalign.cache.node_table import NodeTable
from numalign.cache.sweep import Sweep
from numalign.decision.evaluate import evaluate
from numalign.model.node import Node
from tests.naming import named
from tests.notation import asks, means, node, options

BINDING = "single-numa-node"
FREE = node("cpu=8 mem=8Gi gpu=1", policy=BINDING)
USED = node("cpu=8 mem=8Gi gpu=1/1/0", policy=BINDING)
SMALL = node("cpu=2 mem=8Gi gpu=1", policy=BINDING)
OTHER = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy="best-effort")
ODD = node("cpu=8 mem=8Gi gpu=1", policy=BINDING, options=options("full-pcpus-only"))

MOMENTS: list[FreeOrEmpty] = [When.NOW, When.EMPTY]

ONE_GPU = Question(asks("cpu=4 mem=1Gi gpu=1"), means(BINDING))


def tables(*nodes: Node) -> NodeTable:
    made = NodeTable()
    for each in named(nodes):
        made.put(each)
    return made


def takes(made: Node, when: FreeOrEmpty) -> bool:
    there = made.emptied() if when is When.EMPTY else made
    return evaluate(there, ONE_GPU.demand, ONE_GPU.intent).admitted


members = st.lists(st.sampled_from([FREE, USED, SMALL, OTHER, ODD]), max_size=8)


@given(members, st.sampled_from(MOMENTS), st.data())
def test_the_rows_that_are_meant_say_what_each_node_says(
    nodes: list[Node], when: FreeOrEmpty, data: st.DataObject
) -> None:
    made = tables(*nodes)
    rows = data.draw(
        st.none() | st.lists(st.sampled_from(range(len(nodes))), unique=True) if nodes else st.none()
    )
    chosen = None if rows is None else np.array(sorted(rows), dtype=np.intp)
    sweep = Sweep(made, ONE_GPU, when, chosen)
    for _ in sweep.run():
        pass

    meant = range(len(nodes)) if rows is None else rows
    assert sweep.patched(None).tolist() == [
        row in meant and takes(each, when) for row, each in enumerate(nodes)
    ]
    assert (sweep.found is not None) == any(takes(nodes[row], when) for row in meant)


def test_what_is_known_of_other_rows_stays() -> None:
    sweep = Sweep(tables(USED, FREE, FREE), ONE_GPU, When.NOW, np.array([0]))
    for _ in sweep.run():
        pass

    assert sweep.patched(np.array([True, False])).tolist() == [False, False, False]
    assert sweep.patched(np.array([True, True])).tolist() == [False, True, False]


def test_others_than_those_that_matter_are_not_asked() -> None:
    made = tables(FREE, ODD, ODD, FREE)
    sweep = Sweep(made, ONE_GPU, When.NOW, among=np.array([False, False, True, True]))

    assert len(list(sweep.run())) == 2
    assert sweep.taken.tolist() == [False, False, True, True]


def test_two_callers_go_on_with_one_sweep_in_turn() -> None:
    sweep = Sweep(tables(*[ODD] * 10, FREE), ONE_GPU, When.NOW)
    one, other = sweep.run(), sweep.run()
    taken = 0
    for runner in (one, other) * 5:
        next(runner)
        taken += 1
    rest = len([*one, *other])

    # One table and ten nodes.
    assert taken + rest == 11
    assert sweep.taken.all()


def test_a_row_without_a_node_takes_nothing() -> None:
    made = tables(FREE, ODD)
    for node_of in list(made.nodes()):
        made.drop(node_of.name)
    sweep = Sweep(made, ONE_GPU, When.EMPTY)

    assert list(sweep.run()) == []
    assert not sweep.taken.any()
    assert sweep.found is None


@pytest.mark.parametrize("when", MOMENTS)
def test_no_nodes_are_no_steps(when: FreeOrEmpty) -> None:
    assert list(Sweep(NodeTable(), ONE_GPU, when).run()) == []
