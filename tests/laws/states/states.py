"""
The states of a cluster that docs/reference/admission.md lists, and what each program says in them.

`machines` are what the cluster is now, `before` what it was until then. The pod asks for four GPUs in one
zone unless a state says otherwise: only a large node could take it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.laws.states.machines import GPU, HEALTHY, LARGE, SMALL, Json, Machine, every, pod

ROOM = "no node can provide single-numa-node alignment now; the pod will stay pending"
GONE = "no node that could align the pod exists now; last seen"
SINGLE = 'no node can align container "main" as single-numa-node'


@dataclass(frozen=True, slots=True)
class State:
    """A state, and the answers: parts of the texts, None where nothing is said.

    `patched` says whether mutation keeps the pod from some classes, `check` is the word that `kubectl numa
    check` begins its line with. The scorer lets the pod on those nodes that it `fits`; `waits` are those that
    could take it at another time.
    """

    name: str
    machines: tuple[Machine, ...]
    before: tuple[Machine, ...] = HEALTHY
    pod: Json = field(default_factory=pod)
    policy: Mapping[str, object] = field(default_factory=dict)
    unknown_nodes: str = "may-fit"
    refused: str | None = None
    warned: str | None = None
    patched: bool = True
    check: str = "ok"
    fits: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()


def names(machines: tuple[Machine, ...]) -> tuple[str, ...]:
    """Their names."""
    return tuple(each.name for each in machines)


LARGE_NAMES = names(LARGE)
DEDICATED = {"key": "dedicated", "value": "other", "effect": "NoSchedule"}
POOLED = every(SMALL, labels={"karpenter.sh/nodepool": "default"})
REBUILT = every(LARGE, gpus=3, uid="new")
DECLARED = {
    "shapes": [
        {
            "attributes": [
                {"name": "topologyManagerPolicy", "value": "single-numa-node"},
                {"name": "topologyManagerScope", "value": "container"},
            ],
            "zones": [
                {
                    "name": f"node-{at}",
                    "type": "Node",
                    "resources": [
                        {"name": "cpu", "capacity": "48", "allocatable": "48"},
                        {"name": "memory", "capacity": "256Gi", "allocatable": "256Gi"},
                        {"name": GPU, "capacity": "4", "allocatable": "4"},
                    ],
                }
                for at in (0, 1)
            ],
            "labels": {"pool": "large"},
        }
    ]
}

STATES = (
    State("healthy", HEALTHY, fits=names(LARGE)),
    State("too-large", HEALTHY, pod=pod(5), refused=SINGLE, patched=False, check="never"),
    State("plugin-down", every(HEALTHY, plugin="down"), warned=ROOM, waits=names(LARGE)),
    State(
        "plugin-down-unseen",
        (*SMALL, *every(LARGE, plugin="down")),
        before=SMALL,
        warned=ROOM,
        waits=names(LARGE),
    ),
    State("plugin-gone", every(HEALTHY, plugin="gone"), warned=ROOM, waits=names(LARGE)),
    State("device-unhealthy", (*SMALL, *every(LARGE, broken=1)), warned=ROOM, waits=names(LARGE)),
    State("plugin-of-large-down", (*SMALL, *every(LARGE, plugin="gone")), warned=ROOM, waits=names(LARGE)),
    State(
        "labels-gone",
        (*SMALL, *every(LARGE, labels={}, plugin="gone")),
        pod=pod(nodeSelector={"pool": "large"}),
        warned="nodes that could align the pod exist, but it may not be scheduled to them now",
    ),
    State(
        "no-topology",
        (*SMALL, *every(LARGE, published=False)),
        before=SMALL,
        warned="no node with a NUMA topology can align the pod; 3 nodes without one may",
        patched=False,
        check="unknown",
    ),
    State("topology-gone", (*SMALL, *every(LARGE, published=False)), warned=GONE),
    State("scaled-to-zero", SMALL, warned=GONE),
    State(
        "declared-only", SMALL, before=SMALL, policy=DECLARED, warned="the policy file declares such nodes"
    ),
    State(
        "pool-may-grow",
        POOLED,
        before=POOLED,
        warned="node pool karpenter.sh/nodepool=default may get other nodes",
        patched=False,
        check="unknown",
    ),
    State(
        "pool-is-fixed",
        POOLED,
        before=POOLED,
        policy={"fixedPools": ["karpenter.sh/nodepool"]},
        refused=SINGLE,
        patched=False,
        check="never",
    ),
    State("rebuilt-smaller", (*SMALL, *REBUILT), warned=GONE),
    State("cordoned", (*SMALL, *every(LARGE, cordoned=True)), warned=ROOM, waits=names(LARGE)),
    State("not-ready", (*SMALL, *every(LARGE, ready=False)), warned=ROOM, waits=names(LARGE)),
    State("taint-added", (*SMALL, *every(LARGE, taints=(DEDICATED,))), warned=GONE),
    State(
        "no-match",
        HEALTHY,
        pod=pod(nodeSelector={"pool": "huge"}),
        warned="match no known node",
        check="unknown",
    ),
    State(
        "selector-small",
        HEALTHY,
        pod=pod(nodeSelector={"pool": "small"}),
        refused="3 didn't match the pod's node affinity/selector",
        check="never",
    ),
    State(
        "not-tolerated",
        (*SMALL, *every(LARGE, taints=(DEDICATED,))),
        before=(*SMALL, *every(LARGE, taints=(DEDICATED,))),
        refused="3 had untolerated taints",
        check="never",
    ),
    State("never", SMALL, before=SMALL, refused=SINGLE, patched=False, check="never"),
    State(
        "misspelt-resource",
        HEALTHY,
        pod=pod(resource="nvidia.com/gpus"),
        warned=f'did you mean "{GPU}"?',
        patched=False,
        check="unknown",
    ),
    State(
        "misspelt-denied",
        HEALTHY,
        pod=pod(resource="nvidia.com/gpus"),
        policy={"unknownResources": "deny"},
        refused=f'did you mean "{GPU}"?',
        patched=False,
        check="never",
    ),
    State(
        "best-effort-too-large",
        HEALTHY,
        pod=pod(9, policy="best-effort"),
        warned="(0 of 5 nodes)",
        patched=False,
    ),
    State("never-warn", HEALTHY, pod=pod(5), policy={"never": "warn"}, warned=SINGLE, patched=False),
    State(
        "unknown-cannot-fit",
        (*SMALL, *every(LARGE, published=False)),
        before=SMALL,
        unknown_nodes="cannot-fit",
        refused="3 publish no NUMA topology",
        patched=False,
        check="never",
    ),
    State(
        "nothing-known",
        every(HEALTHY, published=False),
        before=(),
        warned="no node topology is known",
        check="unknown",
        patched=False,
    ),
)
