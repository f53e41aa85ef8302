"""A node while pods come and go, and replay, a conversation about it over a pipe."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import kubectl_numa
from kubectl_numa import events
from kubectl_numa.cli import program
from kubectl_numa.events import BadLine, Created, Deleted, NodeEvent, Observed, Started
from kubectl_numa.replaying import PredictedAdmission, Session, follow
from numalign.kubelet.observed_state import FreeByZone, ObservedContainer
from numalign.model.bitset import bits
from numalign.model.demand import WHOLE_POD
from numalign.model.intent import Policy
from numalign.model.machine import Core, Machine, device_places
from numalign.model.node import Known, Node
from numalign.model.options import CpuOption, FeatureGate, Options
from numalign.model.resources import Resources, ZoneId
from tests.unit.kubectl_numa.conftest import Cli
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import GPU, bag, free_of, node, pod, table, zone_ids
from tests.worlds.objects import GIB, Json, described_machine, machine_zone

# Two zones of which each keeps one of its four CPUs for the system.
ZONE = "cpu=4/3 mem=8Gi/7Gi"
LEVEL = bag("cpu=2 mem=2Gi")
PLAIN = node(f"{ZONE} gpu=2", f"{ZONE} gpu=2", policy="single-numa-node")


def described(plain: Node = PLAIN) -> Node:
    """The node with its machine: cores of one thread, GPUs in their zones."""
    ids = zone_ids(0, 1)
    cores = (Core(ZoneId(at // 4), at // 4, at // 4, bits([at])) for at in range(8))
    gpus = device_places(ids, [(frozenset({zone}), True) for zone in ids for _ in range(2)])
    made = Machine(ids, tuple(cores), reserved=bits([0, 4]), devices=((GPU, gpus),))
    return replace(plain, machine=made, known=Known.MACHINE)


def create(name: str, *containers: str) -> Created:
    return Created(replace(pod(*containers), name=name))


def walk(start: Node, *events: NodeEvent) -> tuple[Session, list[PredictedAdmission]]:
    """Return the last session, and all answers."""
    session, answers = follow(None, Started(start))[0], []
    for event in events:
        session, answer = follow(session, event)
        answers += [answer] if answer else []
    return session, answers


def answered(start: Node, *events: NodeEvent) -> Json:
    """Return the JSON of the last answer."""
    return walk(start, *events)[1][-1].to_json()


def free(start: Node, *events: NodeEvent) -> list[int]:
    return free_of(walk(start, *events)[0].node, "cpu")


def took(name: str, *zones: int, cpu: int = 2000, remaining: FreeByZone | None = None) -> Observed:
    """Containers c0, c1, ... of a pod have these CPUs, each in its zone."""
    containers = (
        ObservedContainer(f"c{at}", None, {zone_ids(zone): Resources({"cpu": cpu})})
        for at, zone in enumerate(zones)
    )
    return Observed(name, tuple(containers), remaining)


def rejected(name: str) -> Observed:
    return Observed(name, None)


BIG = create("big", "cpu=3 mem=1Gi")
SMALL = create("small", "cpu=2 mem=1Gi")
NONE = create("none", "mem=1Gi")
# Its first container is admitted before its second one is rejected.
HALF = create("half", "cpu=2 mem=1Gi | cpu=9 mem=1Gi")
ADMITTED_HALF = took("half", 1, 0, cpu=1000)

CHARGED: list[tuple[str, list[NodeEvent], list[int]]] = [
    ("admitted", [BIG], [0, 3]),
    ("on a new node", [BIG, Started(PLAIN), BIG], [0, 3]),
    ("deleted, until the next one comes", [BIG, Deleted("big")], [0, 3]),
    ("deleted, and the next one comes", [BIG, Deleted("big"), NONE], [3, 3]),
    ("rejected halfway, until the next one comes", [HALF], [1, 3]),
    ("rejected halfway, and the next one comes", [HALF, BIG], [0, 3]),
    ("rejected twice, and deleted", [HALF, HALF, Deleted("half"), BIG], [0, 3]),
    ("observed at once", [SMALL, took("small", 1)], [3, 1]),
    ("observed after another pod came", [SMALL, BIG, took("small", 1)], [0, 1]),
    ("observed as rejected", [SMALL, rejected("small")], [3, 3]),
    ("observed as rejected, after another pod came", [SMALL, BIG, rejected("small")], [0, 3]),
    ("observed as rejected, then as admitted", [SMALL, rejected("small"), took("small", 1)], [3, 1]),
    ("observed as admitted, predicted as rejected", [HALF, ADMITTED_HALF], [2, 2]),
    ("observed as admitted, and another pod comes",
        [HALF, ADMITTED_HALF, create("more", "cpu=2 mem=1Gi")], [0, 2]),
    ("observed without containers", [SMALL, took("small")], [3, 3]),
    ("observed and deleted", [SMALL, took("small", 0), Deleted("small"), NONE], [3, 3]),
    ("observed in the room of another", [SMALL, BIG, took("small", 0, cpu=1000)], [2, 0]),
    ("observed both, the older one last", [SMALL, BIG, took("big", 0, cpu=3000), took("small", 1)], [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("events", "remaining"), table(CHARGED))
def test_cpus_are_charged_once(events: list[NodeEvent], remaining: list[int]) -> None:
    assert free(PLAIN, *events) == remaining


def test_reported_free_memory_gives_the_split() -> None:
    wide = replace(PLAIN, policy=Policy.BEST_EFFORT)
    both = ObservedContainer("c0", None, {zone_ids(0, 1): Resources({"memory": 8 * GIB})})
    remaining = {zone_ids(0): Resources({"memory": 6 * GIB}), zone_ids(1): Resources({"memory": 0})}
    observed = Observed("wide", (both,), remaining)
    created = create("wide", "cpu=500m mem=8Gi")
    for between in ([], [create("none", "cpu=500m")]):
        assert free_of(walk(wide, created, *between, observed)[0].node, "mem") == [6, 0]


REQUEST = "cpu=2 mem=1Gi"
FIRST = ObservedContainer("c0", bits([1, 2]), {zone_ids(0): bag(REQUEST)})
TRUTH = Observed("b", (FIRST,), None)


def test_a_deleted_guess_returns_no_observed_cpus() -> None:
    """The second pod has what the first one was predicted to have."""
    events = (create("a", REQUEST), create("b", REQUEST), Deleted("a"), TRUTH, create("c", REQUEST))
    placements = {name: charge.held for name, charge in walk(described(), *events)[0].now.pods.items()}

    assert placements["b"] is not None
    assert placements["c"] is not None
    assert not placements["b"].cpus & placements["c"].cpus


def test_pods_may_share_a_cpu_on_uneven_sockets() -> None:
    """So the observation of one contradicts no guess about the other."""
    cores = (Core(ZoneId(at // 4), at // 4, at // 4, bits([at])) for at in range(6))
    made = Machine(zone_ids(0, 1), tuple(cores), reserved=bits([5]))
    both = ObservedContainer("c0", bits([0, 1]), {zone_ids(0): bag(REQUEST)})
    events = (create("a", "cpu=1 mem=1Gi"), create("b", REQUEST), Observed("b", (both,), None))
    placement = walk(replace(described(), machine=made, stock=None), *events)[0].now.pods["a"].held

    assert placement is not None
    assert placement.cpus == bits([0])


def test_a_repeated_observation_is_charged_once() -> None:
    once, _ = walk(described(), create("a", REQUEST), create("b", REQUEST), TRUTH)
    twice, _ = walk(described(), create("a", REQUEST), create("b", REQUEST), TRUTH, TRUTH)
    gone, _ = walk(described(), create("b", REQUEST), TRUTH, TRUTH, Deleted("b"), create("c", "cpu=500m.."))

    assert once.node == twice.node
    assert gone.node.stock == described().stock


def test_settled_turns_are_forgotten() -> None:
    events: list[NodeEvent] = [create("b", REQUEST), TRUTH, Deleted("b")]

    assert len(walk(described(), *events * 50)[0].turns) <= 2


def test_observed_cpu_ids_count_on_a_described_machine() -> None:
    container = ObservedContainer("c0", bits([5, 7]), {zone_ids(1): Resources({"cpu": 2000})})
    events = (SMALL, Observed("small", (container,), None))
    session, _ = walk(described(), *events)

    assert session.node.stock is not None
    assert session.node.stock.cpus == bits([1, 2, 3, 6])
    assert free(PLAIN, *events) == free(described(), *events) == [3, 1]


def test_containers_are_observed_in_admission_order() -> None:
    """An app container uses the CPUs of the init container again, in whatever order they are listed."""
    created = create("two", "init cpu=2 mem=1Gi | cpu=2 mem=1Gi")
    init, app = (
        ObservedContainer(name, bits([1, 2]), {zone_ids(0): Resources({"cpu": 2000})})
        for name in ("c0", "c1")
    )
    for containers in ((init, app), (app, init)):
        assert free(described(), created, Observed("two", containers, None)) == [1, 3]


ODD_CONTAINER = ObservedContainer("x", bits([1]), {zone_ids(0, 3): Resources()})
ODD = Observed("big", (ODD_CONTAINER, ObservedContainer("c0", bits([9]), {})), {zone_ids(2): Resources()})
IMPOSSIBLE: list[tuple[str, list[NodeEvent], str]] = [
    ("deleted, never created", [Deleted("x")], 'delete: there is no pod "x" on the node'),
    ("deleted twice", [BIG, Deleted("big"), Deleted("big")], 'delete: there is no pod "big" on the node'),
    ("observed, never created", [BIG, took("x")], 'observed.pod: there is no pod "x" on the node'),
    ("observed on another node", [BIG, Started(PLAIN), took("big")],
        'observed.pod: there is no pod "big" on the node'),
    ("created twice", [BIG, BIG], 'create.metadata.name: "big" is already on the node: delete it first'),
    ("observed with unknown parts", [BIG, ODD],
        ("observed.containers.x: the pod has no such container\nobserved.containers.x.amounts:"
        " there is no zone 3 on this node\nobserved.containers.c0.cpus: CPU 9 is not on this"
        " machine\nobserved.free: there is no zone 2 on this node")),
]  # fmt: skip


@pytest.mark.parametrize(("events", "message"), table(IMPOSSIBLE))
def test_an_impossible_event_is_a_mistake(events: list[NodeEvent], message: str) -> None:
    with pytest.raises(BadLine) as raised:
        walk(described(), *events)
    assert str(raised.value) == message


def test_answer_has_what_each_container_gets() -> None:
    first = {"affinity": (0,), "preferred": True, "amounts": {"0": {"cpu": 2000, "memory": GIB}}}
    both = answered(described(), create("p", "cpu=2 mem=1Gi gpu=1 | cpu=500m mem=1Gi"))
    amounts = {"0": {"cpu": 2000, "memory": GIB, GPU: 1}}

    assert both == {
        "pod": "p",
        "admitted": True,
        "containers": {
            "c0": {**first, "cpus": "1-2", "amounts": amounts},
            "c1": {**first, "amounts": {"0": {"memory": GIB}}},
        },
        "known": "machine",
        "doubts": ["no-version"],
    }
    counted = answered(PLAIN, SMALL)
    assert (counted["containers"]["c0"], counted["known"]) == (first, "counts")
    assert answered(described(), create("p", "cpu=1.."))["containers"] == {
        "c0": {"affinity": None, "preferred": True, "amounts": {}}
    }
    chosen = answered(replace(PLAIN, policy=Policy.NONE), create("p", "gpu=1"))
    assert chosen["containers"]["c0"]["choices"] == (GPU,)


AT_MOST = 'container "c0": the node has at most {} (Topology Manager policy "single-numa-node")'.format


def test_answer_of_a_rejection_has_the_reason() -> None:
    assert answered(PLAIN, create("p", "cpu=4 mem=1Gi")) == {
        "pod": "p",
        "admitted": False,
        "reason": "TopologyAffinityError",
        "message": AT_MOST("3 cpu free in one NUMA zone"),
        "containers": {},
        "known": "counts",
        "doubts": ["options", "no-version"],
    }


def test_message_is_of_the_rejecting_manager() -> None:
    """Not of the whole node, and not of an empty one."""
    also = replace(SMALL, pod=replace(SMALL.pod, name="also"))

    def refused(policy: Policy, container: str) -> tuple[str, str]:
        options = Options(frozenset({CpuOption.FULL_PCPUS_ONLY}), minor=34)
        strict = replace(described(replace(PLAIN, policy=policy)), options=options)
        answer = answered(strict, SMALL, also, create("huge", container))
        assert "doubts" not in answer
        return answer["reason"], answer["message"]

    assert refused(Policy.NONE, "cpu=1000 mem=1Gi") == (
        "SMTAlignmentError",
        'container "c0": the node has at most 2 cpu free in whole cores',
    )
    assert refused(Policy.SINGLE_NUMA_NODE, "cpu=4 mem=1Gi") == (
        "TopologyAffinityError",
        AT_MOST("1 cpu free in one NUMA zone"),
    )


POD_LEVEL = Created(
    replace(pod("cpu=1 mem=1Gi | cpu=500m.."), name="p", pod_requests=LEVEL, pod_limits=LEVEL)
)
WHOLE = node(ZONE, ZONE, policy="restricted", scope="pod")


def test_answer_of_a_pod_level_request_has_shared_cpus() -> None:
    """From Kubernetes 1.36 on, behind a gate."""
    gated = replace(described(WHOLE), options=Options(gates=frozenset(FeatureGate)))
    answer = answered(gated, POD_LEVEL)
    shared = ObservedContainer(WHOLE_POD, bits([5, 6]), {zone_ids(1): LEVEL})
    one = ObservedContainer("c0", None, {zone_ids(1): Resources({"cpu": 1000})})

    assert answer["shared"] == {"cpus": "1-2", "amounts": {"0": {"cpu": 2000, "memory": 2 * GIB}}}
    assert answer["containers"]["c0"]["cpus"] == "1"
    assert free(gated, POD_LEVEL) == [1, 3]
    assert free(gated, POD_LEVEL, Observed("p", (one, shared), None)) == [3, 1]


ALIGNS = {"topologyManagerPolicy": "single-numa-node", "cpuManagerPolicy": "static"}
REPLAYED: Json = {
    "name": "n",
    "kubeletVersion": "v1.34.4",
    "kubeletConfig": {**ALIGNS, "memoryManagerPolicy": "Static"},
    "machine": described_machine(machine_zone(0), machine_zone(1), reservedSystemCPUs="0,2"),
}
STARTED = json.dumps({"node": REPLAYED})


def created_line(name: str, cpu: str) -> str:
    return json.dumps({"create": manifest(name, cpu)})


def test_each_pod_is_answered_before_the_next_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kubectl_numa", "replay"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def talk(*lines: str) -> Json:
            stdin.write("".join(f"{line}\n" for line in lines))
            stdin.flush()
            answer: Json = json.loads(stdout.readline())
            return answer

        first, second = talk(STARTED, created_line("a", "4")), talk(created_line("b", "4"))
        assert (first["admitted"], first["containers"]["main"]["cpus"]) == (True, "4-7")
        assert (second["admitted"], second["reason"]) == (False, "TopologyAffinityError")
        assert talk('{"delete": "a"}', created_line("c", "4"))["containers"]["main"]["cpus"] == "4-7"
        containers = {"main": {"cpus": "1,3", "amounts": {"0": {"cpu": 2000, "memory": GIB}}}}
        observed = json.dumps({"observed": {"pod": "c", "admitted": True, "containers": containers}})
        assert talk(observed, created_line("d", "4"))["containers"]["main"]["cpus"] == "4-7"

        stdin.close()
        assert stdout.read() == ""
        assert process.wait(10) == 0


def test_a_file_is_replayed(cli: Cli) -> None:
    path = cli.write("events.jsonl", f"{STARTED}\n\n{created_line('a', '4')}\n{created_line('b', '4')}")
    answers = [json.loads(line) for line in cli.text("replay", "-f", path).splitlines()]

    assert [answer["admitted"] for answer in answers] == [True, False]
    assert cli("replay", stdin=STARTED).output == ""


def test_example_of_the_help_is_a_conversation(cli: Cli) -> None:
    [path] = re.findall(r"replay -f (examples/\S+)$", cli.text("replay", "--help", width=80), re.MULTILINE)
    example = Path(kubectl_numa.__path__[0]).parent / path
    kinds = [next(iter(json.loads(line))) for line in example.read_bytes().splitlines()]
    inference, odd, training = map(json.loads, cli.text("replay", "-f", example).splitlines())

    assert kinds == ["node", "create", "observed", "create", "delete", "create"]
    assert [inference["containers"]["main"]["cpus"], odd["reason"], odd["message"]] == [
        "1-2,9-10",
        "SMTAlignmentError",
        'container "main": the node allocates whole cores of 2 CPUs, and 3 cpu is no multiple of that',
    ]
    assert (training["admitted"], training["containers"]["main"]["cpus"]) == (True, "4-7,12-15")


def test_help_names_every_field(cli: Cli) -> None:
    text = cli.text("replay", "--help")
    read = (*events.NODE_FIELDS, "pod", "admitted", "containers", "shared", "free", *events.CONTAINER_FIELDS)
    written = ("reason", "message", "known", "doubts")

    assert [name for name in (*read, *written) if f'"{name}"' not in text] == []


WRONG: list[tuple[str, str, str, str]] = [
    # the lines, what is printed, and the beginning of the error
    ("not JSON after an answer", f"{STARTED}\n{created_line('a', '4')}\nx\n", "a", "Error: line 3: is not"),
    ("no node yet", '{"delete": "a"}', "",
        "Error: line 1: there is no node yet: the first event must be a node\n"),
    ("an unknown pod, after an empty line", f'{STARTED}\n\n{{"delete": "a"}}', "",
        'Error: line 3: delete: there is no pod "a" on the node\n'),
    ("several mistakes", '{"node": {"name": "n", "labels": []}}', "",
        "Error: line 1: node.nrt: is missing\nline 1: node.labels: must be an object, not a list\n"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "pod", "error"), table(WRONG))
def test_an_unreadable_line_ends_the_replay(cli: Cli, lines: str, pod: str, error: str) -> None:
    result = cli("replay", stdin=lines)

    assert (result.exit_code, [json.loads(line)["pod"] for line in result.stdout.splitlines()]) == (2, [*pod])
    assert result.stderr.startswith(error)


def test_closed_standard_input_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What Python makes of one that is closed.
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as ended:
        program.main(["replay"], prog_name="kubectl-numa")
    assert (ended.value.code, capsys.readouterr().err) == (2, "Error: standard input is closed\n")
