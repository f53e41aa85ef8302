"""The filters of the fleet: what is read of an address, what is told of a wrong one, and the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube import selectors
from numalign.map import fleet_query
from numalign.map.fleet_query import MOST_PAIRS
from numalign.map.views import Condition, FleetQuery
from numalign.model.errors import BadInput
from numalign.model.intent import Policy
from tests.worlds.notation import GPU

QUERIES = st.builds(
    FleetQuery,
    selector=st.sampled_from(["", "rack=a", "tier in (b,a),!spot"]).map(selectors.parse),
    node_class=st.sampled_from(["", "2x64cpu"]),
    policy=st.sampled_from([None, *Policy]),
    only=st.frozensets(st.sampled_from(Condition)),
)


def test_an_address_without_filters_shows_everything_by_cpu() -> None:
    assert fleet_query.parse([("labels", ""), ("class", ""), ("only", "")]) == FleetQuery(resource="cpu")


def test_every_filter_is_read() -> None:
    pairs = [
        ("labels", "rack=a,!spot"),
        ("class", "2x64cpu"),
        ("policy", "single-numa-node"),
        ("resource", GPU),
        ("only", "misaligned"),
        ("only", "not-ready"),
    ]

    query = fleet_query.parse(pairs)

    assert query == FleetQuery(
        selector=selectors.parse("rack=a,!spot"),
        node_class="2x64cpu",
        policy=Policy.SINGLE_NUMA_NODE,
        resource=GPU,
        resource_required=True,
        only=frozenset({Condition.MISALIGNED, Condition.NOT_READY}),
    )
    assert query.pairs() == tuple(pairs)


@given(query=QUERIES)
def test_what_a_query_writes_is_read_as_the_same(query: FleetQuery) -> None:
    assert fleet_query.parse(query.pairs()) == query


def test_all_that_is_wrong_is_told_at_once_each_with_its_name() -> None:
    with pytest.raises(BadInput) as caught:
        fleet_query.parse(
            [
                ("labels", "a in"),
                ("class", "c" * 64),
                ("policy", "singel-numa-node"),
                ("policy", "none"),
                ("resource", "no resource"),
                ("only", "sad"),
                ("colour", "red"),
            ]
        )

    told = {mistake.where: mistake.message for mistake in caught.value.mistakes}
    assert told["labels"] == 'expected "(" instead of the end'
    assert told["class"] == "is too long: a class has at most 63 characters"
    assert told["resource"] == '"no resource" is not a resource name, like cpu or nvidia.com/gpu'
    assert told["only"].startswith('"sad" is not a known value; ')
    assert told["colour"] == "is not a filter: expected one of labels, class, policy, resource, only"
    assert [str(mistake) for mistake in caught.value.mistakes if mistake.where == "policy"] == [
        "policy: is set 2 times: set it once",
        'policy: "singel-numa-node" is not a known value; did you mean "single-numa-node"?',
    ]


@pytest.mark.parametrize(
    "pairs",
    [
        [("only", "stale")] * (MOST_PAIRS + 1),
        [("only", "x" * 2**20)],
        [("policy", "x" * 2**20)],
        [("x" * 2**20, "y")],
        [("resource", "x" * 2**20)],
        [("labels", "x" * 2**20)],
    ],
)
def test_what_is_too_much_is_refused_in_few_words(pairs: list[tuple[str, str]]) -> None:
    with pytest.raises(BadInput) as caught:
        fleet_query.parse(pairs)

    assert 0 < len(str(caught.value)) < 2000
