"""
Measure how long pods of a real cluster take to evaluate, and how often columns have no answer for them.

The trace that is bundled with the examples has 151 shapes of pods and 27 shapes of nodes. Each pod is
evaluated with every policy and scope that its owner may request. The nodes have all these shapes, split into
1, 2, 4 and 8 zones, under every policy that aligns and in both scopes. Their free amounts are random, from a
fixed seed. Times are processor times.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, product
from time import process_time
from types import MappingProxyType
from unittest import mock

from examples.openb.recipe import GPU, GPU_SHARE, MIB, RESERVED_CPUS, RESERVED_MIB, WHOLE_GPU
from examples.openb.shapes import NodeShape, PodShape, node_shapes, pod_shapes
from numalign.cache import ClusterCache, Question
from numalign.decision.evaluate import evaluating
from numalign.decision.scoring import EVEN, Strategy
from numalign.model import demand
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.node import Known, Node, Zone
from numalign.model.pod import Container, Pod
from numalign.model.resources import CPU, MEMORY, MILLI, Resources, ZoneId
from tools.bench import command_line
from tools.bench.cluster import Raw
from tools.bench.figures import Spread, table
from tools.bench.fleets import ALIGNING, ZONES
from tools.bench.rows import digits
from tools.bench.timing import timed, undisturbed

HERE, NEAR, FAR = 10, 12, 21
"""The costs of a zone from itself, from one in the same socket, and from one in the other socket."""

Ask = Callable[[ClusterCache, Question], None]
"""Evaluates all nodes of a cluster."""

_SEED = 151


def nodes(count: int) -> list[Node]:
    """Return so many nodes, of all shapes in all configurations in turn; their free amounts are random."""
    dice = random.Random(_SEED)  # noqa: S311 - it makes input, not secrets
    shapes = [(shape, zones) for shape, zones in product(node_shapes(), ZONES) if _divides(shape, zones)]
    every = cycle(product(shapes, product(ALIGNING, Scope)))
    return [
        _node(f"node-{number:05}", shape, zones, kubelet, dice)
        for number, ((shape, zones), kubelet) in enumerate(islice(every, count))
    ]


def _divides(shape: NodeShape, zones: int) -> bool:
    """Return whether zones have the same whole number of CPUs, and more CPUs and memory than is reserved."""
    cpus, over = divmod(shape.cpu_milli // MILLI, zones)
    return not over and cpus > RESERVED_CPUS and shape.memory_mib // zones > RESERVED_MIB


def _node(
    name: str, shape: NodeShape, count: int, kubelet: tuple[Policy, Scope], dice: random.Random
) -> Node:
    zones = tuple(_zone(shape, at, count, dice) for at in range(count))
    totals = {each: sum(zone.allocatable[each] for zone in zones) for each in zones[0].allocatable}
    shares = {GPU_SHARE: shape.gpu * WHOLE_GPU} if shape.gpu else {}
    return Node(
        name,
        zones,
        policy=kubelet[0],
        scope=kubelet[1],
        totals=Resources({**totals, **shares, "pods": 110}),
        known=Known.CONFIGURED,
    )


def _zone(shape: NodeShape, at: int, count: int, dice: random.Random) -> Zone:
    """Return an even part of a machine; if GPUs do not divide evenly, the first zones have one more."""
    cpus, memory = shape.cpu_milli // MILLI // count, shape.memory_mib // count
    share, over = divmod(shape.gpu, count)
    gpus = {GPU: share + (at < over)} if shape.gpu else {}
    full = Resources({CPU: cpus * MILLI, MEMORY: memory * MIB, **gpus})
    left = {CPU: (cpus - RESERVED_CPUS) * MILLI, MEMORY: (memory - RESERVED_MIB) * MIB, **gpus}
    costs = tuple((ZoneId(to), _cost(at, to, count)) for to in range(count))
    return Zone(ZoneId(at), f"node-{at}", full, Resources(left), _free(left, dice), costs)


def _cost(here: int, there: int, count: int) -> int:
    if here == there:
        return HERE
    return NEAR if here * 2 // count == there * 2 // count else FAR


def _free(most: dict[str, int], dice: random.Random) -> Resources:
    """Return all of it with a probability of one half, else random amounts from nothing to all."""
    if dice.getrandbits(1):
        return Resources(most)
    units = {CPU: MILLI, MEMORY: MIB}
    return Resources(
        {
            name: units.get(name, 1) * dice.randint(0, amount // units.get(name, 1))
            for name, amount in most.items()
        }
    )


def questions() -> Iterator[Question]:
    """Yield every shape of a pod with every policy and scope that its owner may request."""
    for shape, policy, scope in product(pod_shapes(), Policy, Scope):
        yield Question(demand.of(_pod(shape)), Intent(policy, scope=scope))


def _pod(shape: PodShape) -> Pod:
    """Return a pod with limits for all requests; for devices alone if all pods of the shape are Burstable."""
    devices = {}
    if shape.num_gpu:
        shared = shape.gpu_milli < WHOLE_GPU
        devices = {GPU_SHARE: shape.gpu_milli} if shared else {GPU: shape.num_gpu}
    memory = {MEMORY: shape.memory_mib * MIB} if shape.memory_mib else {}
    requests = Resources({CPU: shape.cpu_milli, **memory, **devices})
    limits = Resources(devices) if shape.burstable == shape.count else requests
    return Pod("pod", containers=(Container("main", requests=requests, limits=limits),))


@dataclass(frozen=True, slots=True)
class Asked:
    """The seconds of each question to all nodes, and the number of pairs that columns had no answer for."""

    seconds: Sequence[float]
    by_rules: int

    @classmethod
    def of(cls, ask: Ask, members: Sequence[Node], asked: Sequence[Question]) -> "Asked":
        """Ask each question of a cluster that has not been asked it; count the rules' calls in another."""
        _, seconds = timed(partial(ask, ClusterCache.of(members)), asked, clock=process_time)
        with mock.patch("numalign.cache.evaluation.evaluating", wraps=evaluating) as rules:
            timed(partial(ask, ClusterCache.of(members)), asked)
        return cls(seconds, rules.call_count)

    def document(self, pairs: int) -> Raw:
        """Return milliseconds per question, and the share of pairs of question and node left to the rules."""
        mean = sum(self.seconds) / len(self.seconds) * MILLI
        return {"ms": {**Spread.of(self.seconds).millis(), "mean": mean}, "by_rules": self.by_rules / pairs}


def _verdicts(cluster: ClusterCache, question: Question) -> None:
    cluster.ask([], question).evaluation.admitted()


def _scores(cluster: ClusterCache, question: Question) -> None:
    cluster.ask([], question).evaluation.scores(Strategy.LEAST_NUMA_NODES, EVEN)


ASKED: Mapping[str, Ask] = MappingProxyType({"verdicts": _verdicts, "scores": _scores})
"""What is evaluated on all nodes; scores apply only to nodes that take the pod, so verdicts come first."""


def measure(*, count: int, every: int) -> Raw:
    """Ask so many nodes one question in `every`; return the figures."""
    members, asked = nodes(count), list(questions())[::every]
    with undisturbed():
        found = {name: Asked.of(ask, members, asked) for name, ask in ASKED.items()}
    documents = {name: each.document(len(asked) * count) for name, each in found.items()}
    return {"nodes": count, "questions": len(asked), **documents}


def text(found: Raw) -> str:
    """Return the table."""
    head = [f"{found['questions']:,} questions of {found['nodes']:,} nodes", *_TIMES, "by the rules"]
    return table(head, [_row(name, found[name]) for name in ASKED])


_TIMES = ("mean", "p50", "p99", "max")


def _row(name: str, found: Raw) -> list[str]:
    return [f"{name}, ms", *(digits(found["ms"][key]) for key in _TIMES), f"{found['by_rules']:.2%}"]


def main() -> int:
    """Measure as the flags say; return 0 however slow it was."""
    parser = command_line.parser("tools.bench.openb", __doc__)
    number = command_line.number
    parser.add_argument("--nodes", type=number, default=5000, help="nodes of the cluster (default 5000)")
    parser.add_argument("--every", type=number, default=1, help="ask one in so many questions (default 1)")
    chosen = parser.parse_args()
    found = measure(count=chosen.nodes, every=chosen.every)
    print(text(found))
    command_line.write(found, chosen.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
