"""The filters of the fleet in an address: what is read, mistakes, and the way back."""

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
from tests.worlds.objects import mistakes

QUERIES = st.builds(
    FleetQuery,
    selector=st.sampled_from(["", "rack=a", "tier in (b,a),!spot"]).map(selectors.parse),
    node_class=st.sampled_from(["", "2x64cpu"]),
    policy=st.sampled_from([None, *Policy]),
    only=st.frozensets(st.sampled_from(Condition)),
)


def test_every_filter_is_read() -> None:
    pairs = [("labels", "rack=a,!spot"), ("class", "2x64cpu"), ("policy", "single-numa-node")]
    pairs += [("resource", GPU), ("only", "misaligned"), ("only", "not-ready")]
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
    assert fleet_query.parse([("labels", ""), ("class", ""), ("only", "")]) == FleetQuery(resource="cpu")


@given(query=QUERIES)
def test_a_written_query_is_read_as_the_same(query: FleetQuery) -> None:
    assert fleet_query.parse(query.pairs()) == query


def test_all_mistakes_are_raised_with_their_names() -> None:
    wrong = [("labels", "a in"), ("class", "c" * 64), ("policy", "singel-numa-node"), ("policy", "none")]
    wrong += [("resource", "no resource"), ("only", "sad"), ("colour", "red")]
    messages = sorted(mistake.partition("\n")[0] for mistake in mistakes(BadInput, fleet_query.parse, wrong))

    assert [message for message in messages if not message.startswith("only")] == [
        "class: is too long: a class has at most 63 characters",
        "colour: is not a filter: expected one of labels, class, policy, resource, only",
        'labels: expected "(" instead of the end',
        'policy: "singel-numa-node" is not a known value; did you mean "single-numa-node"?',
        "policy: is set 2 times: set it once",
        'resource: "no resource" is not a resource name, like cpu or nvidia.com/gpu',
    ]
    assert any(message.startswith('only: "sad" is not a known value; ') for message in messages)


LONG = "x" * 2**20


TOO_LONG = [[(name, LONG)] for name in ("only", "policy", "resource", "labels")]


@pytest.mark.parametrize("pairs", [*TOO_LONG, [("only", "stale")] * (MOST_PAIRS + 1), [(LONG, "y")]])
def test_too_long_filters_have_short_messages(pairs: list[tuple[str, str]]) -> None:
    [message, *_] = mistakes(BadInput, fleet_query.parse, pairs)

    assert 0 < len(message) < 2000
