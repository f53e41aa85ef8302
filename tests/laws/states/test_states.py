"""
The states of a cluster that docs/reference/admission.md lists, and what each program says in them.

Two small nodes have two GPUs in each of two zones, three large ones four. The pod asks for four GPUs in one
zone unless a state says otherwise: only a large node could take it. What is right is what the page quotes.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from click.testing import CliRunner

from kubectl_numa.cli import program
from numalign.kube.decode import shapes
from numalign.kube.files import documents as files
from numalign.kube.files import policy, snapshot
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.intent import CLASS_LABEL
from numalign.model.node import node_class
from numalign.shapes import ShapeHistory
from tests.worlds.manifests import labelled, topology, v1_pod
from tests.worlds.notation import GPU, node
from tests.worlds.objects import listed
from tests.worlds.scorer import SINGLE, Scorer
from tests.worlds.webhook import Webhook

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of two zones: its name, the CPUs and GPUs of each zone, and what its Node says besides.

    `broken` devices of each zone are not counted any more. The plugin is "up", "down" (nothing may be given
    out, and only the capacity of the Node tells that there was something), or "gone" (five minutes later).
    """

    name: str
    cpus: int
    gpus: int
    plugin: str = "up"
    broken: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    cordoned: bool = False
    ready: bool = True
    published: bool = True
    uid: str = ""
    node_class: str | None = None

    def objects(self) -> Iterator[Json]:
        """Its Node and, where an exporter runs, its NodeResourceTopology."""
        total, left = 2 * self.gpus, self.gpus - self.broken
        capacity, allocatable, zone = {
            "up": ({GPU: f"{total}"}, {GPU: f"{2 * left}"}, f"gpu={left}"),
            "down": ({GPU: f"{total}"}, {GPU: "0"}, "gpu=0"),
            "gone": ({}, {}, ""),
        }[self.plugin]
        amounts = {"cpu": f"{2 * self.cpus}", "memory": "512Gi", "pods": "110"}
        label = {CLASS_LABEL: self.node_class} if self.node_class else {}
        made = labelled("Node", self.name, {"kubernetes.io/hostname": self.name, **self.labels, **label})
        made["metadata"]["uid"] = self.uid or f"uid-of-{self.name}"
        made["spec"] = {"taints": list(self.taints), "unschedulable": self.cordoned}
        made["status"] = {
            "capacity": amounts | capacity,
            "allocatable": amounts | allocatable,
            "conditions": [{"type": "Ready", "status": str(self.ready)}],
            "nodeInfo": {"kubeletVersion": "v1.34.4", "systemUUID": self.uid or self.name},
        }
        yield made
        if self.published:
            yield topology(self.name, node(*[f"cpu={self.cpus} mem=256Gi {zone}"] * 2, policy=SINGLE))


SMALL = tuple(Machine(f"small-{at}", cpus=24, gpus=2, labels={"pool": "small"}) for at in (0, 1))
LARGE = tuple(Machine(f"large-{at}", cpus=48, gpus=4, labels={"pool": "large"}) for at in (0, 1, 2))
HEALTHY = (*SMALL, *LARGE)


def every(machines: Iterable[Machine], **changes: Any) -> tuple[Machine, ...]:  # noqa: ANN401  facts of any type
    """The same machines, with other facts."""
    return tuple(replace(one, **changes) for one in machines)


def documents(machines: Iterable[Machine], *others: Json) -> Json:
    """What kubectl prints of these machines and a namespace `team`, and of other objects."""
    return listed(
        labelled("Namespace", "team", {}), *(one for each in machines for one in each.objects()), *others
    )


def pod(gpus: int = 4, *, policy: str = SINGLE, resource: str = GPU, **spec: object) -> Json:
    size = f"cpu=8 mem=32Gi {resource}={gpus}"
    made = v1_pod(size, policy=policy, spec=spec, name="train", namespace="team", uid="uid-of-train")
    made["spec"]["containers"][0]["name"] = "main"
    return made


@dataclass(frozen=True, slots=True)
class State:
    """What the `machines` of a cluster are now and were `before`, and the pod that comes to it."""

    name: str
    machines: tuple[Machine, ...]
    before: tuple[Machine, ...] = HEALTHY
    pod: Json = field(default_factory=pod)
    policy: Mapping[str, object] = field(default_factory=dict)
    unknown_nodes: str = "may-fit"


def with_large(*, before: tuple[Machine, ...] = HEALTHY, **changes: object) -> dict[str, Any]:
    """Large machines with other facts than they had."""
    return {"machines": (*SMALL, *every(LARGE, **changes)), "before": before}


DEDICATED: dict[str, Any] = {"taints": ({"key": "dedicated", "value": "other", "effect": "NoSchedule"},)}
POOLED = every(SMALL, labels={"karpenter.sh/nodepool": "default"})
[_, LARGE_TOPOLOGY] = json.loads(json.dumps([*LARGE[0].objects()]))
DECLARED = {key: LARGE_TOPOLOGY[key] for key in ("attributes", "zones")} | {"labels": {"pool": "large"}}
MISSPELT = pod(resource="nvidia.com/gpus")
STATES = (
    State("healthy", HEALTHY),
    State("too-large", HEALTHY, pod=pod(5)),
    State("plugin-down", every(HEALTHY, plugin="down")),
    State("plugin-down-unseen", **with_large(before=SMALL, plugin="down")),
    State("plugin-gone", every(HEALTHY, plugin="gone")),
    State("device-unhealthy", **with_large(broken=1)),
    State("plugin-of-large-down", **with_large(plugin="gone")),
    State("labels-gone", **with_large(labels={}, plugin="gone"), pod=pod(nodeSelector={"pool": "large"})),
    State("no-topology", **with_large(before=SMALL, published=False)),
    State("topology-gone", **with_large(published=False)),
    State("scaled-to-zero", SMALL),
    State("declared-only", SMALL, before=SMALL, policy={"shapes": [DECLARED]}),
    State("pool-may-grow", POOLED, before=POOLED),
    State("pool-is-fixed", POOLED, before=POOLED, policy={"fixedPools": ["karpenter.sh/nodepool"]}),
    State("rebuilt-smaller", **with_large(gpus=3, uid="new")),
    State("cordoned", **with_large(cordoned=True)),
    State("not-ready", **with_large(ready=False)),
    State("taint-added", **with_large(**DEDICATED)),
    State("no-match", HEALTHY, pod=pod(nodeSelector={"pool": "huge"})),
    State("selector-small", HEALTHY, pod=pod(nodeSelector={"pool": "small"})),
    State("not-tolerated", **with_large(before=(*SMALL, *every(LARGE, **DEDICATED)), **DEDICATED)),
    State("never", SMALL, before=SMALL),
    State("misspelt-resource", HEALTHY, pod=MISSPELT),
    State("misspelt-denied", HEALTHY, pod=MISSPELT, policy={"unknownResources": "deny"}),
    State("best-effort-too-large", HEALTHY, pod=pod(9, policy="best-effort")),
    State("never-warn", HEALTHY, pod=pod(5), policy={"never": "warn"}),
    State("unknown-cannot-fit", **with_large(before=SMALL, published=False), unknown_nodes="cannot-fit"),
    State("nothing-known", every(HEALTHY, published=False), before=()),
)  # fmt: skip
UNKNOWN = {"no-topology", "pool-may-grow", "no-match", "misspelt-resource", "nothing-known"}
"""States in which `kubectl numa check` cannot say whether the pod fits."""

every_state = pytest.mark.parametrize("state", STATES, ids=[one.name for one in STATES])


# The page.

_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "admission.md"
_ROW = re.compile(r"^\| ([a-z-]+) \| [A-Z][^|]* \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_CLASSES = {"2x24cpu-2gpu": "small", "2x48cpu-3gpu": "rebuilt"}
_FRAME = re.compile(r"^node\(s\) | \(numalign[^)]*\)$")

PAGE: Mapping[str, Sequence[str]] = {
    name: answers
    for name, *answers in _ROW.findall(_PAGE.read_text().partition("## Answers by cluster state")[2])
}
"""By state the excluded classes, and the answers of webhook and scorer; `...` stands for anything."""


def test_the_page_lists_just_these_states() -> None:
    assert [*PAGE] == [one.name for one in STATES]


def quotes(cell: str, answer: str) -> bool:
    """Whether a cell quotes an answer in full."""
    return re.fullmatch(".+".join(map(re.escape, cell.split("..."))), answer) is not None


def coded(verdict: str, text: str) -> str:
    return f"{verdict}: `{text.removeprefix('numalign: ')}`"


def admission(refusal: str | None, warnings: Iterable[str]) -> str:
    """A verdict with its texts, as the page writes it."""
    outcomes = [coded("denied", refusal)] if refusal else [coded("warning", each) for each in warnings]
    return "; ".join(outcomes) or "admitted"


# The programs.


@every_state
@pytest.mark.parametrize("restarted", [False, True], ids=["saw the change", "starts now"])
async def test_a_webhook(state: State, *, restarted: bool, tmp_path: Path) -> None:
    webhook = Webhook(tmp_path / "cluster.json")
    webhook.policy.now = written(state)
    seen = [left_behind(state)] if restarted else [documents(state.before), documents(state.machines)]
    for cluster in seen:
        webhook.put_bytes(orjson.dumps(cluster))
        await webhook.load()
    async with webhook.open(unknown_nodes=state.unknown_nodes) as caller:
        mutated = await caller.ask("/mutate", state.pod)
        validated = await caller.ask("/validate", state.pod)

    excluded, quoted, _ = PAGE[state.name]
    classes = re.findall("|".join(_CLASSES), mutated.get("auditAnnotations", {}).get("classes", ""))
    assert (" and ".join(_CLASSES[each] for each in classes) or "none") == excluded
    assert (mutated["allowed"], "patch" in mutated) == (True, excluded != "none")
    answer = admission(validated.get("status", {}).get("message"), validated.get("warnings", []))
    assert quotes(quoted, answer), answer
    assert validated["allowed"] is not answer.startswith("denied")


@every_state
def test_the_command_line(state: State, tmp_path: Path) -> None:
    cluster, pod, policy_file = (tmp_path / name for name in ("cluster.json", "pod.json", "policy.yaml"))
    cluster.write_bytes(orjson.dumps(left_behind(state)))
    pod.write_bytes(orjson.dumps(state.pod))
    policy_file.write_text(yaml.dump(dict(state.policy), Dumper=yaml.CSafeDumper))
    files_of = ("-f", str(pod), "--snapshot", str(cluster), "--policy", str(policy_file))

    run = CliRunner().invoke(
        program, ["check", "-o", "json", *files_of, "--unknown-nodes", state.unknown_nodes]
    )

    (result,) = json.loads(run.stdout)
    answer = admission(result["refusal"], result["warnings"])
    assert quotes(PAGE[state.name][1], answer), answer
    expected = ("never", 1) if result["refusal"] else ("unknown" if state.name in UNKNOWN else "ok", 0)
    assert (result["result"], run.exit_code) == expected


@every_state
async def test_the_scorer(state: State) -> None:
    scorer = Scorer()
    scorer.policy.now = written(state)
    pile = snapshot.build(files.objects([left_behind(state)]), shape_history=ShapeHistory(wall=time.time))
    await scorer.know_cluster(pile.cluster())
    async with scorer.open() as caller:
        ranked = (await caller.ask("/v1/rank", {"pod": state.pod}))["nodes"]

    assert sorted(one["name"] for one in ranked) == sorted(one.name for one in state.machines)
    small, large = ([one for one in ranked if one["name"].startswith(kind)] for kind in ("small", "large"))
    assert all(one["permanent"] for one in small)
    answers = {
        "fits" if one["fits"] else coded(verdict, _FRAME.sub("", one["reason"]))
        for one in large
        for verdict in ["never" if one.get("permanent") else "not now"]
    }
    assert quotes(PAGE[state.name][2], "; ".join(sorted(answers)) or "-"), answers


def written(state: State) -> ClusterPolicy:
    """The policy file of a state, read."""
    return (
        policy.parse(yaml.dump(dict(state.policy), Dumper=yaml.CSafeDumper).encode())
        if state.policy
        else NO_POLICY
    )


def left_behind(state: State) -> Json:
    """The cluster as it is now, with what a controller wrote into it before: class labels, and shapes."""
    seen = ShapeHistory(wall=time.time)
    result = snapshot.build(files.objects([documents(state.before)]), shape_history=seen).cluster()
    classes = {node.name: node_class(node) for node in result.nodes}
    uids = {one.name: one.uid for one in state.before}
    machines = [
        replace(one, node_class=classes.get(one.name)) if uids.get(one.name) == one.uid else one
        for one in state.machines
    ]
    metadata = {"name": shapes.NAME, "namespace": "numalign-system"}
    data = shapes.encode(seen.to_remember())
    return documents(machines, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
