"""All nodes asked together: what each node says by itself, and nothing asked twice."""

import gc
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numalign.fleet import Fleet, Question
from numalign.rules.demand import Demand
from numalign.rules.evaluate import evaluate
from numalign.rules.intent import Match, Policy
from numalign.rules.resources import CPU, Resources
from numalign.rules.topology import Node, node_class
from tests.notation import asks, means, node, table

BINDING = "single-numa-node"

# Two zones of one GPU each; two of two; one that only has CPUs.
SMALL = node("cpu=8 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=BINDING)
LARGE = node("cpu=8 mem=8Gi gpu=2", "cpu=8 mem=8Gi gpu=2", policy=BINDING)
PLAIN = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy=BINDING)


def question(*containers: str, policy: str = BINDING) -> Question:
    return Question(asks(*containers), means(policy))


ONE_GPU = question("cpu=2 mem=1Gi gpu=1")
TWO_GPUS = question("cpu=2 mem=1Gi gpu=2")


def labelled(made: Node, label: str) -> Node:
    return replace(made, label=label)


def steps(fleet: Fleet, asked: Question) -> int:
    """How many shapes had to be evaluated to answer."""
    return len(list(fleet.ask(asked)))


@st.composite
def zone_texts(draw: st.DrawFn) -> str:
    def amount(name: str, most: int, unit: str = "") -> str:
        full = draw(st.integers(0, most))
        return f"{name}={full}{unit}/{full}{unit}/{draw(st.integers(0, full))}{unit}"

    return " ".join([amount("cpu", 4), amount("mem", 3, "Gi"), amount("gpu", 2)])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    made = node(
        *draw(st.lists(zone_texts(), min_size=1, max_size=3)),
        policy=draw(st.sampled_from(Policy)),
        scope=draw(st.sampled_from(["container", "pod"])),
        totals=draw(st.sampled_from([None, "cpu=4 mem=4Gi gpu=2"])),
    )
    return replace(made, label=draw(st.sampled_from([None, "blue", "green"])))


fleets = st.lists(nodes(), min_size=0, max_size=5)
containers = st.builds(
    "cpu={} mem={}Gi gpu={}".format, st.integers(0, 4), st.integers(1, 3), st.integers(0, 2)
)
questions = st.builds(
    Question,
    st.lists(containers, min_size=1, max_size=2).map(lambda texts: asks(*texts)),
    st.builds(
        means,
        st.sampled_from(Policy),
        scope=st.sampled_from([None, "container", "pod"]),
        match=st.sampled_from(Match),
    ),
)


def could(made: Node, asked: Question) -> bool:
    """What the rules say of the node with nothing on it."""
    return evaluate(made.emptied(), asked.demand, asked.intent).admitted


def names_of(made: Node) -> set[str]:
    return {node_class(made), *filter(None, [made.label])}


# Equal to the rules.


@given(fleets, questions)
def test_a_class_can_hold_a_pod_if_any_node_of_that_name_can(members: list[Node], asked: Question) -> None:
    able = [made for made in members if could(made, asked)]
    feasible: set[str] = set().union(*map(names_of, able))
    every: set[str] = set().union(*map(names_of, members))

    survey = Fleet(members, unknown=3).ever(asked)

    assert survey.feasible == tuple(sorted(feasible))
    assert survey.infeasible == tuple(sorted(every - feasible))
    assert (survey.able, survey.known, survey.unknown) == (len(able), len(members), 3)


@given(fleets, questions)
def test_some_node_has_room_now_if_one_that_ever_could_says_so(members: list[Node], asked: Question) -> None:
    room = [evaluate(made, asked.demand, asked.intent).admitted for made in members if could(made, asked)]

    assert Fleet(members).now(asked) is any(room)


@settings(max_examples=25)
@given(fleets, fleets, fleets, st.lists(questions, min_size=1, max_size=2))
def test_a_following_fleet_says_what_a_new_one_would(
    first: list[Node], second: list[Node], third: list[Node], asked: list[Question]
) -> None:
    fleet = Fleet(first)
    for members in (first, second, third):
        fleet = fleet.following(members, unknown=1)
        fresh = Fleet(members, unknown=1)
        assert [fleet.ever(each) for each in asked] == [fresh.ever(each) for each in asked]
        assert [fleet.now(each) for each in asked] == [fresh.now(each) for each in asked]


@given(nodes())
def test_the_class_of_a_node_is_that_of_its_facts(made: Node) -> None:
    fleet = Fleet([made])

    assert fleet.class_of(made) == node_class(made)
    assert fleet.classes == tuple(sorted(names_of(made)))


def test_one_node_is_asked_by_its_name_as_things_stand() -> None:
    busy = replace(node("cpu=8/8/0 mem=8Gi gpu=1", policy=BINDING), name="busy")
    fleet = Fleet([SMALL, busy])

    assert fleet.verdict("busy", ONE_GPU) == evaluate(busy, ONE_GPU.demand, ONE_GPU.intent)
    assert fleet.verdict("nowhere", ONE_GPU) is None


# Names.

CLASS_NAMES = [
    # what it shows                   nodes                      feasible
    ("a label on a node that can",    [labelled(LARGE, "blue")], {"blue"}),
    ("a label on a node that cannot", [labelled(SMALL, "blue")], set()),
    ("one label on both: any member is enough",
        [labelled(SMALL, "blue"), labelled(LARGE, "blue")],                                {"blue"}),
    ("two labels on equal nodes",
        [labelled(LARGE, "blue"), labelled(LARGE, "green")],                               {"blue", "green"}),
]  # fmt: skip


@pytest.mark.parametrize(("members", "feasible"), table(CLASS_NAMES))
def test_present_labels_are_class_names_too(members: list[Node], feasible: set[str]) -> None:
    survey = Fleet(members).ever(TWO_GPUS)
    labels = {made.label for made in members}

    assert labels & set(survey.feasible) == feasible
    assert labels & set(survey.infeasible) == labels - feasible


def test_a_stale_label_does_not_condemn_the_class_whose_name_it_bears() -> None:
    stale = labelled(LARGE, node_class(SMALL))

    survey = Fleet([SMALL, stale]).ever(TWO_GPUS)

    assert survey.infeasible == ()
    assert survey.feasible == tuple(sorted({node_class(SMALL), node_class(LARGE)}))


def test_a_class_whose_members_differ_in_mebibytes_is_judged_by_each_of_them() -> None:
    exact = node("cpu=8 mem=8191Mi", policy=BINDING)
    less = node("cpu=8 mem=8190Mi", policy=BINDING)
    assert node_class(exact) == node_class(less)

    survey = Fleet([less, exact]).ever(question("cpu=1 mem=8191Mi"))

    assert (survey.feasible, survey.infeasible, survey.able) == ((node_class(exact),), (), 1)


# Nothing is asked twice.


def test_equal_nodes_are_one_question() -> None:
    busy = node("cpu=8 mem=8Gi gpu=1/1/0", "cpu=8/8/3 mem=8Gi gpu=1", policy=BINDING)
    fleet = Fleet([SMALL, labelled(SMALL, "blue"), replace(SMALL, name="other"), busy, LARGE])

    assert steps(fleet, ONE_GPU) == 2


def test_an_answer_is_remembered() -> None:
    fleet = Fleet([SMALL, LARGE, PLAIN])

    assert [steps(fleet, ONE_GPU), steps(fleet, ONE_GPU)] == [3, 0]


def test_an_equal_question_is_the_same_question() -> None:
    fleet = Fleet([SMALL, LARGE])
    steps(fleet, question("cpu=2 mem=1Gi gpu=1"))

    assert steps(fleet, question("cpu=2 mem=1024Mi gpu=1")) == 0


def test_another_intent_is_another_question() -> None:
    fleet = Fleet([SMALL, LARGE])
    steps(fleet, ONE_GPU)

    assert steps(fleet, replace(ONE_GPU, intent=means("restricted"))) == 2


def test_what_was_asked_in_part_is_asked_no_more() -> None:
    fleet = Fleet([SMALL, LARGE, PLAIN])
    half = fleet.ask(ONE_GPU)
    next(half)
    next(half)

    assert steps(fleet, ONE_GPU) == 1
    assert list(half) == []


FOLLOWING = [
    # what happens to [SMALL, LARGE]   the nodes after it                                 shapes asked
    ("nothing",                        [SMALL, LARGE],                                    0),
    ("a node is in use",
        [node("cpu=8/8/1 mem=8Gi gpu=1", "cpu=8 mem=8Gi gpu=1", policy=BINDING), LARGE], 0),
    ("a node is labelled",             [labelled(SMALL, "blue"), LARGE],                  0),
    ("another of the same kind joins", [SMALL, SMALL, LARGE],                             0),
    ("a node leaves",                  [LARGE],                                           0),
    ("one of a new kind joins",        [SMALL, LARGE, PLAIN],                             1),
    ("a node changes its policy",      [SMALL, replace(LARGE, policy=Policy.RESTRICTED)], 1),
]  # fmt: skip


@pytest.mark.parametrize(("after", "asked"), table(FOLLOWING))
def test_only_new_shapes_are_asked_when(after: list[Node], asked: int) -> None:
    before = Fleet([SMALL, LARGE])
    steps(before, ONE_GPU)

    assert steps(before.following(after), ONE_GPU) == asked


def test_a_shape_that_comes_back_is_remembered() -> None:
    fleet = Fleet([SMALL, LARGE])
    steps(fleet, ONE_GPU)

    assert steps(fleet.following([SMALL]).following([SMALL, LARGE]), ONE_GPU) == 0


TAKEN = node("cpu=8/8/0 mem=8Gi gpu=1", policy=BINDING)


def looks(fleet: Fleet) -> int:
    return len(list(fleet.look(ONE_GPU)))


def test_what_fits_now_is_looked_at_once_and_later_only_on_nodes_that_have_changed() -> None:
    fleet = Fleet([TAKEN, replace(TAKEN, name="other")])
    first, second = looks(fleet), looks(fleet)
    same = fleet.following(fleet.nodes)
    changed = same.following([TAKEN, replace(TAKEN, name="other")])

    # One shape, then two nodes; nothing; nothing, for these are the very nodes; the one that is new.
    assert [first, second, looks(same), looks(changed)] == [3, 0, 0, 1]


def test_a_node_that_has_room_is_asked_again_only_when_it_has_changed() -> None:
    free, taken = replace(SMALL, name="n"), replace(TAKEN, name="n")
    fleet = Fleet([free])
    assert fleet.now(ONE_GPU)
    same = fleet.following(fleet.nodes)
    assert looks(same) == 0
    assert same.now(ONE_GPU)

    assert not same.following([taken]).now(ONE_GPU)
    assert not same.following([]).now(ONE_GPU)


def test_two_moments_that_follow_the_same_one_find_their_own_room() -> None:
    before = Fleet([replace(SMALL, name="n")])
    one, other = before.following([replace(TAKEN, name="n")]), before.following(before.nodes)

    assert [one.now(ONE_GPU), other.now(ONE_GPU), before.now(ONE_GPU)] == [False, True, True]


@given(
    st.lists(st.lists(st.sampled_from(["free", "taken", "gone", "same"]), min_size=3, max_size=3), max_size=6)
)
def test_what_fits_now_is_what_a_fleet_without_a_past_says(story: list[list[str]]) -> None:
    states = {"free": SMALL, "taken": TAKEN}
    present: dict[str, Node] = {}
    fleet = Fleet([])
    for step in story:
        for name, state in zip("abc", step, strict=True):
            if state in states:
                present[name] = replace(states[state], name=name)
            elif state == "gone":
                present.pop(name, None)
        fleet = fleet.following(present.values())
        assert fleet.now(ONE_GPU) == Fleet(present.values()).now(ONE_GPU)


def test_looking_ends_at_the_first_node_with_room() -> None:
    fleet = Fleet([SMALL] * 50)

    assert len(list(fleet.look(ONE_GPU))) == 2
    assert fleet.now(ONE_GPU)


# Two moments that live at once: a review that waits keeps the moment it began in.


def test_an_earlier_moment_still_answers_when_a_later_one_has_been_asked() -> None:
    before = Fleet([SMALL])
    after = before.following([SMALL, LARGE])

    after.ever(TWO_GPUS)

    assert before.ever(TWO_GPUS).able == 0
    assert after.ever(TWO_GPUS).able == 1


def test_two_moments_that_follow_the_same_one_do_not_mix_their_answers() -> None:
    before = Fleet([PLAIN])
    one, other = before.following([LARGE]), before.following([SMALL])

    assert [one.ever(TWO_GPUS).able, other.ever(TWO_GPUS).able] == [1, 0]


# Bounds.


FEW = 16
"""Questions that are remembered here."""


class Traced(Demand):
    """A demand whose end can be seen: unlike a slotted one it has room for weak references."""


def traced(asked: Question) -> Question:
    demand = asked.demand
    return replace(asked, demand=Traced(demand.qos, demand.steps, demand.whole, demand.total))


def unlike(count: int) -> Iterable[Question]:
    """So many questions, each another one, to all of which a small node says no at once."""
    totals = (Resources({CPU: 10**6 + number}) for number in range(count))
    return (replace(ONE_GPU, demand=replace(ONE_GPU.demand, total=total)) for total in totals)


def test_the_least_recently_asked_is_forgotten_first() -> None:
    fleet = Fleet([SMALL], remembered=FEW)
    other = question("cpu=3 mem=1Gi")
    steps(fleet, ONE_GPU)
    steps(fleet, other)
    steps(fleet, ONE_GPU)
    for each in unlike(FEW - 1):
        steps(fleet, each)

    assert [steps(fleet, ONE_GPU), steps(fleet, other)] == [0, 1]


def test_room_is_found_for_a_pod_whose_answers_were_forgotten() -> None:
    fleet = Fleet([SMALL], remembered=FEW)
    fleet.now(ONE_GPU)
    for each in unlike(FEW):
        fleet.ever(ONE_GPU)
        fleet.now(each)

    assert fleet.now(ONE_GPU)


FORGETTING: list[tuple[str, Callable[[Fleet, Question], object]]] = [
    ("what could ever be", Fleet.ever),
    ("what fits now", Fleet.now),
    ("why not", Fleet.why_not),
]


@pytest.mark.parametrize("ask", table(FORGETTING))
def test_in_one_moment_memory_is_bounded_for(ask: Callable[[Fleet, Question], object]) -> None:
    fleet = Fleet([SMALL], remembered=FEW).following([SMALL])
    first = traced(question("cpu=99 mem=1Gi"))
    gone = weakref.ref(first.demand)
    ask(fleet, first)
    del first
    for each in unlike(FEW):
        ask(fleet, each)
    gc.collect()

    assert gone() is None


def test_an_empty_fleet_can_hold_nothing() -> None:
    fleet = Fleet([], unknown=2)
    survey = fleet.ever(ONE_GPU)

    assert (survey.feasible, survey.infeasible, survey.able, survey.unknown) == ((), (), 0, 2)
    assert not fleet.now(ONE_GPU)
    assert fleet.classes == ()


def test_room_is_looked_for_only_on_nodes_that_could_ever_take_the_pod() -> None:
    small, large = node("cpu=2 mem=4Gi", policy="restricted"), node("cpu=8 mem=8Gi", policy="restricted")
    fleet, asked = Fleet([small, small, small, large]), Question(asks("cpu=4 mem=1Gi"), means("restricted"))
    list(fleet.ask(asked))

    assert len(list(fleet.look(asked))) == 1
