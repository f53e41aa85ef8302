"""Each state that docs/policy.md has a row for: what is decided, what pods are kept from, what nodes say."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from numalign.fleet import Fleet, Question
from numalign.fleet.admission import Decision, State, decide
from numalign.fleet.pod_question import By, PodQuestion
from numalign.fleet.refusals import Reaction, Refusals
from numalign.rules import wording
from numalign.rules.attributes import NO_ATTRIBUTES, Attributes, Taint
from numalign.rules.constraints import Constraints, Operator, Requirement, Unmet, unmet_now
from numalign.rules.evaluate import evaluate
from numalign.rules.intent import UNRULED
from numalign.rules.topology import Node, node_class
from numalign.shapes import BareNode, Book, Identity, Shape
from numalign.shapes.shape import of
from tests.notation import asks, bag, means, node

PAGE = Path(__file__).parents[1] / "docs" / "policy.md"
SINGLE = "single-numa-node"
HOUR = 3600.0


def made(gpus: str, total: str) -> Node:
    """A node of two zones with so many GPUs each, and so many of them as a whole."""
    zone = f"cpu=32 mem=64Gi {gpus}"
    return node(zone, zone, policy=SINGLE, totals=f"cpu=64 mem=128Gi {total}")


SMALL, LARGE = made("gpu=2", "gpu=4"), made("gpu=4", "gpu=8")
NO_PLUGIN, NO_GPU, ILL = made("gpu=4/0/0", "gpu=0"), made("", ""), made("gpu=4/3/3", "gpu=6")
REBUILT = made("gpu=3", "gpu=6")
BARE = BareNode("large", bag("cpu=64 mem=128Gi gpu=8"))
TAINTED = Attributes(taints=(Taint("dedicated", "gpu"),))


def pod(container: str = "cpu=8 mem=8Gi gpu=4", policy: str = SINGLE) -> PodQuestion:
    question = Question(asks(container), means(policy))
    return PodQuestion(question, Constraints(), UNRULED, "team", By.POD, pin=None, excess=None)


PICKY = replace(pod(), constraints=Constraints((Requirement("tier", Operator.EXISTS),)))


@dataclass(frozen=True)
class Cluster:
    """What there was, and what is left of it: a small node, and a large one unless it is None."""

    before: Node | None = LARGE
    after: Node | None = LARGE
    attributes: Attributes = NO_ATTRIBUTES
    always: Attributes = NO_ATTRIBUTES
    machine: str = "same"
    bare: tuple[BareNode, ...] = ()
    declared: tuple[Shape, ...] = ()
    small: bool = True

    def fleet(self) -> Fleet:
        """Everything that is known, at the time 0."""
        book = Book(wall=lambda: 0.0)
        self._seen(book, self.before, self.always, "same")
        nodes = self._seen(book, self.after, self.attributes, self.machine)
        book.keep({each.name for each in nodes})
        book.declare(self.declared)
        return Fleet(nodes, book.known(), {each.name: each for each in self.bare})

    def _seen(self, book: Book, large: Node | None, attributes: Attributes, machine: str) -> list[Node]:
        small = replace(SMALL, name="small", label=node_class(SMALL))
        nodes = [book.see(small, identity=Identity("small"))] if self.small else []
        if large:
            labelled = replace(large, name="large", label=node_class(LARGE), attributes=attributes)
            nodes.append(book.see(labelled, identity=Identity(machine)))
        return nodes


NONE = Cluster(before=None, after=None)
WAITS = Decision(State.WAITS, warnings=("no node has room for single-numa-node now; the pod will wait",))
NOT_HERE = "no node of a shape that could take it is here"
TWO = '0/{} nodes can align container "c0" as {}: 1 has at most 2 nvidia.com/gpu in one zone{}'
LESS = ". Ask for at most 2 nvidia.com/gpu."
NEVER = TWO.format(1, SINGLE, LESS)
MISSPELT = 'no node lists the resource "nvidia.com/gpuu"; "nvidia.com/gpu" is meant?'
NO_ZONE = "have no zone with 8 cpu, 8Gi memory and 4 nvidia.com/gpu"


def warned(state: State, *texts: str) -> Decision:
    return Decision(state, warnings=texts)


GONE = warned(State.NO_NODE_HERE, f"{NOT_HERE}; last seen 2 h ago")

# By the id of the row: the cluster, the decision, what pods are kept away from, and what the large node says.
STATES: dict[str, tuple[Cluster, Decision, list[Node], str | None]] = {
    "healthy": (Cluster(), warned(State.FITS), [SMALL], "fits"),
    "plugin-down": (Cluster(after=NO_PLUGIN), WAITS, [SMALL], "have less than 4 nvidia.com/gpu now"),
    "plugin-gone": (Cluster(after=NO_GPU), WAITS, [SMALL], "have less than 4 nvidia.com/gpu now"),
    "device-ill": (Cluster(after=ILL), WAITS, [SMALL], f"{NO_ZONE} free"),
    "plugin-of-large-down": (Cluster(after=NO_PLUGIN), WAITS, [SMALL], "have less than 4 nvidia.com/gpu now"),
    "no-topology": (
        replace(NONE, bare=(BARE,)),
        warned(
            State.UNKNOWN_NODE, "no node of known topology could take it; 1 node without topology may"
        ),
        [], None,
    ),
    "scaled-to-zero": (Cluster(after=None), GONE, [SMALL], None),
    "declared-only": (
        replace(NONE, declared=(of(LARGE),)),
        warned(State.NO_NODE_HERE, f"{NOT_HERE}; the policy file declares one"),
        [SMALL], None,
    ),
    "rebuilt-smaller": (Cluster(after=REBUILT, machine="other"), GONE, [SMALL, REBUILT], f"{NO_ZONE}"),
    "cordoned": (Cluster(attributes=Attributes(cordoned=True)), WAITS, [SMALL], Unmet.CORDONED),
    "not-ready": (Cluster(attributes=Attributes(ready=False)), WAITS, [SMALL], Unmet.NOT_READY),
    "no-match": (
        Cluster(),
        warned(
            State.NOT_MATCHED,
            "its node selector, affinity and tolerations match no known node, so it was not checked",
        ),
        [SMALL], Unmet.AFFINITY,
    ),
    "not-tolerated": (
        Cluster(attributes=TAINTED, always=TAINTED),
        Decision(State.NEVER, TWO.format(2, SINGLE, f", 1 had untolerated taints{LESS}")),
        [SMALL], Unmet.TAINT,
    ),
    "never": (NONE, Decision(State.NEVER, NEVER), [], None),
    "misspelt-resource": (
        Cluster(), warned(State.UNKNOWN_RESOURCE, MISSPELT), [],
        "have less than 4 nvidia.com/gpuu in total",
    ),
    "best-effort-too-large": (
        NONE,
        Decision(
            State.NEVER, waived=TWO.format(1, "best-effort", f' (kubelet policy "{SINGLE}"){LESS}')
        ),
        [], None,
    ),
    "never-warn": (NONE, Decision(State.NEVER, waived=NEVER), [], None),
    "unknown-cannot-fit": (
        replace(NONE, bare=(BARE,)),
        Decision(State.NEVER, TWO.format(2, SINGLE, f", 1 publishes no NUMA topology{LESS}")),
        [], None,
    ),
    "nothing-known": (
        replace(NONE, small=False, bare=(BARE,)),
        warned(State.NOT_KNOWN, "no node topology is known, so the pod was not checked"),
        [], None,
    ),
}  # fmt: skip

PODS = {
    "no-match": PICKY,
    "misspelt-resource": pod("cpu=8 mem=8Gi nvidia.com/gpuu=4"),
    "best-effort-too-large": pod(policy="best-effort"),
}
REFUSALS = {
    "never-warn": Refusals(never=Reaction.WARN),
    "unknown-cannot-fit": Refusals(unknown_may_fit=False),
}
of_each_state = pytest.mark.parametrize("state", STATES)


def test_every_row_of_the_page_is_here() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Never, later, now")[2].partition("\n## ")[0]
    ids = re.findall(r"^\| ([a-z-]+) \|", section, re.MULTILINE)

    assert ids == ["id", *STATES]


@of_each_state
def test_what_is_decided(state: str) -> None:
    cluster, expected, _, _ = STATES[state]
    found = decide(PODS.get(state, pod()), cluster.fleet(), REFUSALS.get(state, Refusals()), now=2 * HOUR)

    assert found == expected


@of_each_state
def test_the_page_tells_it_in_the_same_words(state: str) -> None:
    _, expected, _, _ = STATES[state]
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {state} |"))
    admitted = " admitted" in row.split("|")[4] or "as above" in row.split("|")[4]

    assert admitted is (expected.refusal is None)


@of_each_state
def test_what_pods_are_kept_away_from(state: str) -> None:
    cluster, _, away, _ = STATES[state]
    survey = cluster.fleet().ever(PODS.get(state, pod()).question)

    # Where nothing could take the pod, nothing is written.
    assert list(survey.infeasible if survey.feasible else ()) == sorted(map(node_class, away))


@of_each_state
def test_what_the_large_node_says(state: str) -> None:
    cluster, _, _, expected = STATES[state]
    asked = PODS.get(state, pod())
    large = [each for each in cluster.fleet().nodes if each.name == "large"]

    assert [said(each, asked) for each in large] == ([expected] if expected else [])


def said(told: Node, asked: PodQuestion) -> str:
    """What the scorer says of a node, or why the scheduler does not ask it."""
    unmet = unmet_now(asked.constraints, told.name, told.attributes)
    verdict = evaluate(told, asked.question.demand, asked.question.intent)
    return unmet or (wording.reason(verdict) if verdict.refusal else "fits")
