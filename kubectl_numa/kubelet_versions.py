"""
What kubelets of one minor version do differently from older ones, each with a smallest case that shows it.

A case is a node and pods, as lines of `kubectl numa replay`: they can be given to a real kubelet, too. The
numbers are those of pull requests of kubernetes/kubernetes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from kubectl_numa import events, replaying
from numalign.kube.kinds import Object
from numalign.model.options import CHANGES, PRE_RELEASE, KubeletChange


class Effect(StrEnum):
    """What a change can change; what follows from it is not counted."""

    CPU_IDS = "CPU IDs"
    AFFINITY = "affinity"
    VERDICT = "verdict"


@dataclass(frozen=True, slots=True)
class VersionCase:
    """A node without pods, as `kubectl numa replay` reads it without a version, and the pods that arrive."""

    node: Object
    pods: tuple[Object, ...]

    def lines(self, version: str) -> Sequence[Object]:
        """Return the events for `kubectl numa replay`, for a kubelet of this version."""
        return [{"node": {**self.node, "kubeletVersion": version}}, *({"create": pod} for pod in self.pods)]

    def predictions(self, minor: int) -> Sequence[Object]:
        """Return what a kubelet of a minor version does with each pod, as `kubectl numa replay` prints it."""
        session, answers = None, []
        for line in self.lines(f"v1.{minor}.0"):
            session, answer = replaying.follow(session, events.read(orjson.dumps(line)))
            answers += [answer.to_json()] if answer else []
        return answers


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A change, what it is in a sentence without a full stop, and its pull request.

    `endless` says that kubelets before it never answer in the case; they are predicted to reject the pod.
    """

    change: KubeletChange
    what: str
    effect: Effect
    pull: int
    node: Object
    pods: tuple[Object, ...]
    endless: bool = False

    @property
    def case(self) -> VersionCase:
        """The smallest case that shows it."""
        return VersionCase(self.node, self.pods)

    @property
    def minor(self) -> int:
        """The first minor version with it."""
        return CHANGES[self.change]

    @property
    def since(self) -> str:
        """The first version with it, for people."""
        return f"1.{self.minor}{' (pre-release)' if self.minor == PRE_RELEASE else ''}"

    @property
    def url(self) -> str:
        """The address of its pull request."""
        return f"https://github.com/kubernetes/kubernetes/pull/{self.pull}"

    @property
    def before(self) -> str:
        """What the version before does in the case, for people."""
        if self.endless:
            return "searches without end"
        return described(self.case.predictions(self.minor - 1))

    @property
    def after(self) -> str:
        """What its first version does in the case, for people."""
        return described(self.case.predictions(self.minor))

    def to_json(self) -> dict[str, Any]:
        """Return the change for programs; `case` has the lines for `kubectl numa replay`."""
        return {
            "change": self.change,
            "since": f"1.{self.minor}",
            "preRelease": self.minor == PRE_RELEASE,
            "what": self.what,
            "effect": self.effect,
            "upstream": self.url,
            "before": self.before,
            "after": self.after,
            "case": self.case.lines(f"v1.{self.minor}.0"),
        }


def described(predictions: Sequence[Object]) -> str:
    """Return in a few words what a kubelet does with the pods of a case."""
    parts: list[str] = []
    for each in predictions:
        if not each["admitted"]:
            parts.append(f"rejects {each['pod']}: {each['reason']}")
            continue
        for name, held in each["containers"].items():
            zones = held["affinity"]
            affinity = f", affinity {','.join(map(str, zones))}" if zones else ""
            parts.append(f"{name}: CPUs {held['cpus']}{affinity}" if "cpus" in held else f"{name}: admitted")
    return "; ".join(parts)


def _machine(
    *zones: Sequence[Sequence[int]], reserved: str, sockets: Sequence[int] = (), **more: object
) -> Object:
    """Return a machine of zones with these cores, by default on sockets of their own."""
    near = [[10 if one == other else 20 for other in range(len(zones))] for one in range(len(zones))]
    on = sockets or range(len(zones))
    return {
        "zones": [
            {"id": at, "socket": on[at], "cores": cores, "memory": 8 * _GIB, "distances": near[at]}
            for at, cores in enumerate(zones)
        ],
        "reservedSystemCPUs": reserved,
        **more,
    }


def _cores(first: int, count: int, threads: int = 1) -> list[list[int]]:
    """Return cores of consecutive CPUs."""
    return [[*range(cpu, cpu + threads)] for cpu in range(first, first + count * threads, threads)]


def _node(machine: Object, *options: str, policy: str = "none", **more: object) -> Object:
    """Return a node whose CPU manager is static, with options that are on."""
    told = {"cpuManagerPolicyOptions": dict.fromkeys(options, "true")} if options else {}
    config = {"cpuManagerPolicy": "static", **told, "topologyManagerPolicy": policy, **more}
    return {"name": "node", "kubeletConfig": config, "machine": machine}


def _container(name: str = "main", **limits: str) -> Object:
    return {"name": name, "resources": {"limits": {"memory": "1Gi", **limits}}}


def _pod(*containers: Object, **spec: object) -> Object:
    return {"metadata": {"name": "pod"}, "spec": {"containers": containers, **spec}}


def _asking(cpus: int, gpus: int = 0) -> tuple[Object]:
    return (_pod(_container(cpu=str(cpus), **({_GPU: str(gpus)} if gpus else {}))),)


_GIB = 2**30
_GPU = "nvidia.com/gpu"
_DISTRIBUTE, _FULL = "distribute-cpus-across-numa", "full-pcpus-only"
_BY_SOCKET, _SPREAD = "align-by-socket", "distribute-cpus-across-cores"
_BY_CACHE = "prefer-align-cpus-by-uncorecache"


def _cached(machine: Object, *caches: Sequence[int]) -> Object:
    """Return a machine of one zone with these caches."""
    return {**machine, "zones": [{**machine["zones"][0], "uncoreCaches": caches}]}


def _gpus(*zones: int) -> Object:
    return {_GPU: [{"id": f"gpu-{at}", "zones": [zone]} for at, zone in enumerate(zones)]}


def _with_memory(machine: Object, *pages: int) -> Object:
    """Return a machine whose first zone has memory reserved, and whose zones have these pages of 1Gi."""
    zones = [
        {**zone, "reservedMemory": 0 if zone["id"] else _GIB, "hugepages": {"1Gi": count}}
        for zone, count in zip(machine["zones"], pages, strict=True)
    ]
    return {**machine, "zones": zones}


ROWS: Sequence[VersionChange] = (
    VersionChange(
        KubeletChange.ODD_CACHE_SHARE,
        "With prefer-align-cpus-by-uncorecache, an odd number of CPUs fits into one cache",
        Effect.CPU_IDS,
        131850,
        _node(_cached(_machine(_cores(0, 4, 2), reserved="5"), [0, 1, 2, 3], [4, 5, 6, 7]), _BY_CACHE),
        _asking(3),
    ),
    VersionChange(
        KubeletChange.HINTS_WHERE_DEVICES_ARE,
        "Hints for devices include only zones that have a device of the resource",
        Effect.AFFINITY,
        138244,
        _node(_machine(_cores(0, 2), _cores(2, 2), reserved="0,2-3", devices=_gpus(1)), policy="best-effort"),
        _asking(1, gpus=1),
    ),
    VersionChange(
        KubeletChange.SOCKET_SHARE,
        "With align-by-socket, distribute-cpus-across-numa prefers zones of one socket",
        Effect.CPU_IDS,
        139778,
        _node(
            _machine(*(_cores(2 * at, 2) for at in range(4)), reserved="2", sockets=(0, 0, 1, 1)),
            _DISTRIBUTE,
            _BY_SOCKET,
        ),
        _asking(3),
    ),
    VersionChange(
        KubeletChange.LOWERED_SHARE,
        "The even share of distribute-cpus-across-numa is lowered to what the chosen zones have",
        Effect.CPU_IDS,
        139778,
        _node(_machine(_cores(0, 3, 2), _cores(6, 3, 2), reserved="7-8,11"), _DISTRIBUTE, _BY_SOCKET),
        _asking(8),
    ),
    VersionChange(
        KubeletChange.NO_MEMORY_NO_BLOCK,
        "With PodLevelResourceManagers, the Memory Manager leaves containers alone that request no memory",
        Effect.VERDICT,
        138770,
        _node(
            _with_memory(_machine(_cores(0, 2), reserved="0"), 0),
            memoryManagerPolicy="Static",
            featureGates={"PodLevelResourceManagers": True},
        ),
        (_pod({"name": "main"}, resources={"limits": {"cpu": "1", "memory": "1Gi"}}),),
    ),
    VersionChange(
        KubeletChange.HINT_WIDTH,
        "distribute-cpus-across-numa uses at least as many zones as the Topology Manager chose",
        Effect.CPU_IDS,
        139456,
        _node(
            _machine(_cores(0, 2), _cores(2, 2), reserved="0", devices=_gpus(0, 1)),
            _DISTRIBUTE,
            policy="best-effort",
        ),
        _asking(2, gpus=2),
    ),
    VersionChange(
        KubeletChange.COPIED_COMBINATIONS,
        "distribute-cpus-across-numa uses the zones that it found best; before, the last of four was another",
        Effect.CPU_IDS,
        141238,
        _node(_machine(*(_cores(2 * at, 2) for at in range(6)), reserved="1", sockets=(0,) * 6), _DISTRIBUTE),
        _asking(7),
    ),
    VersionChange(
        KubeletChange.WHOLE_GROUPS,
        "distribute-cpus-across-numa takes what is left after even shares only from zones that have it in"
        " whole cores; before, it could search for such zones without end",
        Effect.VERDICT,
        140730,
        _node(
            _machine(*(_cores(6 * at, 3, 2) for at in range(4)), reserved="0-1,6-7,12,18"),
            _DISTRIBUTE,
            _FULL,
        ),
        _asking(14),
        endless=True,
    ),
    VersionChange(
        KubeletChange.OWN_SIZE,
        "A core or socket is whole if all its own CPUs are free; before, where they differ in size, pods"
        " could get reserved CPUs",
        Effect.CPU_IDS,
        140498,
        _node(_machine([[0, 1], [2]], reserved="1")),
        _asking(2),
    ),
    VersionChange(
        KubeletChange.SPREAD_IN_TURN,
        "distribute-cpus-across-cores takes one CPU of each core before a second, however CPUs are numbered",
        Effect.CPU_IDS,
        140766,
        _node(_machine(_cores(0, 2, 2), reserved="2"), _SPREAD),
        _asking(2),
    ),
    VersionChange(
        KubeletChange.CACHES_IN_TWO_PASSES,
        "prefer-align-cpus-by-uncorecache takes whole caches before parts of caches",
        Effect.CPU_IDS,
        141026,
        _node(_cached(_machine(_cores(0, 4), reserved="0-1"), [0, 1, 2], [3]), _BY_CACHE),
        _asking(1),
    ),
    VersionChange(
        KubeletChange.INIT_ONLY_NAMES,
        "In pod scope, memory and hugepages count that only init containers request",
        Effect.VERDICT,
        140816,
        _node(
            _with_memory(_machine(_cores(0, 2), _cores(2, 2), reserved="0"), 0, 1),
            policy="restricted",
            topologyManagerScope="pod",
            memoryManagerPolicy="Static",
        ),
        (
            _pod(
                _container(cpu="1"),
                initContainers=[_container("init", cpu="1", **{"hugepages-1Gi": "1Gi"})],
            ),
        ),
    ),
)
"""Every change, by version."""
