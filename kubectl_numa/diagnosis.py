"""
What is missing for exact predictions, node by node, and how to fix it.

A prediction is exact if an agent described the machine a moment ago, and the rules were compared with the
version of its kubelet. Anything less is a finding: one row of a table, with when it holds, its consequence,
and what to do. Nodes with the same finding are grouped, because they are fixed together.
"""

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from kubectl_numa.lines import some
from kubectl_numa.nodemap import NOTHING
from numalign.decision import wording
from numalign.kube import exporters
from numalign.kube.cluster import NO_NODE, Cluster
from numalign.kube.decode import kubelet_config, nrt, numatopologies
from numalign.kube.exporters import NOBODY, ExporterHealth, TopologySource
from numalign.kube.stores import Problem
from numalign.kubelet import cpu_manager, work_limit
from numalign.kubelet.admit import without_zones
from numalign.model.errors import Mistake
from numalign.model.intent import PREFIX, Policy
from numalign.model.node import DEFAULT_MAX_ZONES, CpuManager, Known, Node
from numalign.model.options import COMPARED, PRE_RELEASE, FeatureGate
from numalign.model.resources import CPU

_NODE = "Node"
_ALL_NODES, _ANY_NODE = "NODES", "NODE"
"""In a remedy: the names of all of the nodes, and that of the first."""

LEAST_SKEW_SECONDS = 30
"""The least difference of clocks that is reported: a write to a slow API server takes seconds."""

_TOPOLOGIES = frozenset({nrt.KIND, numatopologies.KIND})


class Severity(StrEnum):
    """Whether something is missing, or the finding is only for information."""

    LACK = "lack"
    NOTE = "note"


class Finding(StrEnum):
    """What a node lacks, or what is worth knowing about it, in the order of reporting."""

    NO_TOPOLOGY = "no-topology"
    BAD_TOPOLOGY = "bad-topology"
    ODD_AMOUNTS = "odd-amounts"
    DOUBTFUL_DEVICES = "doubtful-devices"
    BAD_NODE = "bad-node"
    WRONG_CLOCK = "wrong-clock"
    STALE = "stale"
    BAD_REPORT = "bad-report"
    UNKNOWN_OPTION = "unknown-option"
    UNRELEASED_OPTION = "unreleased-option"
    BAD_CONFIGURATION = "bad-configuration"
    COUNTS_ONLY = "counts-only"
    NO_MACHINE = "no-machine"
    SILENT_AGENT = "silent-agent"
    NO_FINGERPRINT = "no-fingerprint"
    TWO_WRITERS = "two-writers"
    UNJUDGED_PODS = "unjudged-pods"
    NO_VERSION = "no-version"
    VERSION = "version"
    PRE_RELEASE = "pre-release"
    NOT_ALIGNED = "not-aligned"
    SHARED_CPUS = "shared-cpus"
    NO_SUCH_ZONE = "no-such-zone"
    STALLED = "stalled"
    ENDLESS = "endless-search"
    MANY_ZONES = "many-zones"
    ORPHAN = "orphan"


class Skew(NamedTuple):
    """By how many seconds a node's clock is ahead of the API server's; negative if it is behind.

    If not `measured`, it was that far behind at least when the last pod started.
    """

    seconds: int
    measured: bool = True


NO_SKEW = Skew(0)


@dataclass(frozen=True, slots=True)
class Traces:
    """
    What objects show that the rules do not read, by node.

    `writers` are the programs that wrote its topology, `asking` the pods there that request alignment,
    `skews` what is known of its clock.
    """

    writers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    skews: Mapping[str, Skew] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExaminedNode:
    """
    All facts that findings about one node are based on.

    `present` is whether the node exists; some names have only other objects that were left behind. `node` is
    None if its topology is unknown. `agents` is whether any node of the cluster has an agent. `mistakes` are
    those in its objects, by the finding that they lead to.
    """

    name: str
    present: bool = True
    node: Node | None = None
    exporter: ExporterHealth = NOBODY
    fingerprinted: bool = False
    agents: bool = False
    writers: Sequence[str] = ()
    asking: Sequence[str] = ()
    skew: Skew = NO_SKEW
    mistakes: Mapping[Finding, Sequence[str]] = field(default_factory=dict)


class FoundOnNode(NamedTuple):
    """A finding about one node; `detail` is "" if there is nothing to add."""

    finding: Finding
    detail: str
    remedy: str

    def to_json(self, name: str) -> dict[str, Any]:
        """Return the finding about the node with this name, for programs."""
        row = _ROWS[self.finding]
        return {
            "finding": self.finding,
            "severity": row.severity,
            "detail": self.detail or None,
            "what": row.what,
            "remedy": _for_nodes(self.remedy, [name]),
        }


@dataclass(frozen=True, slots=True)
class DiagnosedNode:
    """A node, and its findings."""

    examined: ExaminedNode
    found: tuple[FoundOnNode, ...]

    @property
    def name(self) -> str:
        """Return the name of the node."""
        return self.examined.name

    @property
    def lacking(self) -> bool:
        """Return whether something is missing."""
        return any(_ROWS[each.finding].severity is Severity.LACK for each in self.found)

    def to_json(self) -> dict[str, Any]:
        """Return the node for programs."""
        node = self.examined.node
        return {
            "name": self.name,
            "known": node.known if node else NOTHING,
            **self.examined.exporter.to_json(),
            "findings": [each.to_json(self.name) for each in self.found],
        }


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Nodes with the same finding and the same remedy, their names by detail."""

    finding: Finding
    remedy: str
    names_by_detail: Mapping[str, Sequence[str]]

    @property
    def severity(self) -> Severity:
        """Return whether they lack something."""
        return _ROWS[self.finding].severity

    @property
    def what(self) -> str:
        """Return the consequence, in a sentence without a full stop."""
        return _ROWS[self.finding].what

    @property
    def fix(self) -> str:
        """Return the remedy; a command that takes one name is for the first of the nodes."""
        return _for_nodes(self.remedy, self.names)

    @property
    def names(self) -> Sequence[str]:
        """Return all of the nodes, each once."""
        return sorted({name for names in self.names_by_detail.values() for name in names})


def diagnose(cluster: Cluster, traces: Traces, *, seen: float) -> tuple[DiagnosedNode, ...]:
    """
    Return the findings about every node, by name, at the time `seen`, in seconds since 1970.

    Names that have only a topology or a configuration count as nodes too.
    """
    return tuple(DiagnosedNode(node, tuple(_found(node))) for node in _examined(cluster, traces, seen=seen))


def is_of_node(problem: Problem) -> bool:
    """Return whether a problem is about a node, and so among its findings."""
    return problem.kind in {*_TOPOLOGIES, kubelet_config.KIND, _NODE}


def groups(nodes: Iterable[DiagnosedNode]) -> list[FindingGroup]:
    """Return the same findings grouped: what is missing first, and of that what most nodes lack."""
    same = defaultdict[tuple[Finding, str], dict[str, list[str]]](dict)
    for node in nodes:
        for finding, detail, remedy in node.found:
            same[finding, remedy].setdefault(detail, []).append(node.name)
    put_together = [FindingGroup(*key, details) for key, details in same.items()]
    return sorted(put_together, key=_rank)


def _rank(group: FindingGroup) -> tuple[int, int, int]:
    return _SEVERITIES[group.severity], -len(group.names), _PLACES[group.finding]


_SEVERITIES = {severity: place for place, severity in enumerate(Severity)}
_PLACES = {finding: place for place, finding in enumerate(Finding)}


def _examined(cluster: Cluster, traces: Traces, *, seen: float) -> Iterator[ExaminedNode]:
    nodes = {node.name: node for node in cluster.nodes}
    present = {*nodes, *cluster.unknown}
    mistakes = _mistakes(cluster.problems, present, nodes.keys())
    # An agent looks at the clock of its node.
    skews = {name: traces.skews.get(name, NO_SKEW) for name in nodes}
    health = {name: exporters.of_node(cluster, name, now=seen + skews[name].seconds) for name in nodes}
    agents = any(each.source is TopologySource.AGENT for each in health.values())
    for name in sorted(present | mistakes.keys()):
        yield ExaminedNode(
            name,
            present=name in present,
            node=nodes.get(name),
            exporter=health.get(name, NOBODY),
            fingerprinted=cluster.states.get(name, NO_NODE).fingerprint is not None,
            agents=agents,
            writers=traces.writers.get(name, ()),
            asking=traces.asking.get(name, ()),
            skew=traces.skews.get(name, NO_SKEW),
            mistakes=mistakes.get(name, {}),
        )


def _mistakes(
    problems: Iterable[Problem], present: AbstractSet[str], known: AbstractSet[str]
) -> Mapping[str, Mapping[Finding, Sequence[str]]]:
    """Return, by node name, the mistakes in its objects, by the finding that they lead to."""
    by_name = defaultdict[str, dict[Finding, list[str]]](dict)
    for problem in filter(is_of_node, problems):
        for mistake in problem.mistakes:
            finding = _leads_to(problem, mistake, present, known)
            by_name[problem.name].setdefault(finding, []).append(f"{problem.kind}: {mistake}")
    return by_name


def _leads_to(
    problem: Problem, mistake: Mistake, present: AbstractSet[str], known: AbstractSet[str]
) -> Finding:
    if PREFIX in mistake.where:
        return Finding.BAD_REPORT
    if problem.kind in _TOPOLOGIES and problem.name in known:
        return Finding.NO_FINGERPRINT if mistake.where == nrt.ATTRIBUTES else Finding.ODD_AMOUNTS
    if problem.kind in _TOPOLOGIES:
        return Finding.BAD_TOPOLOGY if problem.name in present else Finding.ORPHAN
    return Finding.BAD_CONFIGURATION if problem.kind == kubelet_config.KIND else Finding.BAD_NODE


def _found(examined: ExaminedNode) -> Iterator[FoundOnNode]:
    for finding, row in _ROWS.items():
        for detail in row.details(examined):
            yield FoundOnNode(finding, detail, row.remedy(examined))


class _FindingRow(NamedTuple):
    """When a finding holds (a detail for each time it does), its consequence, and what to do."""

    severity: Severity
    details: Callable[[ExaminedNode], Iterable[str]]
    what: str
    remedy: Callable[[ExaminedNode], str]


def _for_nodes(remedy: str, names: Sequence[str]) -> str:
    return remedy.replace(_ALL_NODES, shlex.join(names)).replace(_ANY_NODE, shlex.join(names[:1]))


def _where(holds: Callable[[ExaminedNode], bool]) -> Callable[[ExaminedNode], Iterable[str]]:
    """Return the details of a finding without details: one "" if it holds."""
    return lambda examined: ("",) if holds(examined) else ()


def _on_node(details: Callable[[Node], Iterable[str]]) -> Callable[[ExaminedNode], Iterable[str]]:
    """Return the details of a finding about a known node."""
    return lambda examined: details(examined.node) if examined.node else ()


def _wrong(finding: Finding) -> Callable[[ExaminedNode], Iterable[str]]:
    """Return the details of a finding with one for each mistake of a kind."""
    return lambda examined: examined.mistakes.get(finding, ())


def _do(text: str) -> Callable[[ExaminedNode], str]:
    return lambda _examined: text


def _have_agent(examined: ExaminedNode) -> str:
    return _LOOK_FOR_AGENT if examined.agents else _INSTALL_AGENT


def _knows(level: Known, source: TopologySource) -> Callable[[ExaminedNode], Iterable[str]]:
    """Return the details of a finding about nodes that this source leaves at this level."""
    return _where(
        lambda examined: (
            examined.node is not None and examined.node.known is level and examined.exporter.source is source
        )
    )


def _misplaced(node: Node) -> list[str]:
    strict = node.policy.at_least(Policy.RESTRICTED)
    return sorted(without_zones(node, node.devices)) if strict else []


def _stalled(node: Node) -> list[str]:
    endless = node.policy is not Policy.NONE and len(node.zones) > work_limit.MOST_ZONES
    return [f"{len(node.zones)} zones"] if endless else []


def _endless(node: Node) -> list[str]:
    zones = ", ".join(map(str, cpu_manager.endless(node)))
    return [f"parts of cores are reserved in zones {zones}"] if zones else []


def _kind(examined: ExaminedNode) -> str:
    """Return the kind of the first topology with a mistake, as kubectl takes it."""
    wrong = chain.from_iterable(examined.mistakes.get(finding, ()) for finding in _ABOUT_TOPOLOGIES)
    return next(wrong, nrt.KIND).partition(":")[0].lower()


def _fix_exporter(examined: ExaminedNode) -> str:
    return f"Fix or update the exporter that writes it:\n  kubectl get {_kind(examined)} NODE -o yaml"


_ABOUT_TOPOLOGIES = (Finding.BAD_TOPOLOGY, Finding.ODD_AMOUNTS, Finding.ORPHAN)


def _without_topology(examined: ExaminedNode) -> bool:
    return examined.present and examined.node is None and Finding.BAD_TOPOLOGY not in examined.mistakes


def _without_fingerprint(examined: ExaminedNode) -> Iterable[str]:
    absent = examined.exporter.source is TopologySource.EXPORTER and not examined.fingerprinted
    return examined.mistakes.get(Finding.NO_FINGERPRINT) or ([""] if absent else [])


def _silent(examined: ExaminedNode) -> bool:
    """Return whether an agent does not report its machine, and no mistake explains that."""
    if examined.node is None or examined.exporter.source is not TopologySource.AGENT:
        return False
    return examined.node.known is not Known.MACHINE and examined.mistakes.keys().isdisjoint(_EXPLAINED)


_EXPLAINED = frozenset({Finding.BAD_REPORT, Finding.BAD_CONFIGURATION})


def _restore_agent(examined: ExaminedNode) -> str:
    """Return how to fix an agent that does not report the machine: before 1.33, mostly by a permission."""
    minor = examined.node.options.minor if examined.node else None
    return _READ_LOG if minor is None or minor >= _FINE_RIGHTS else _GRANT_PROXY


_FINE_RIGHTS = 33
"""The minor version from which a permission for a kubelet's configuration alone exists (KEP-2862)."""


def _unreleased(node: Node) -> Iterator[str]:
    """Return the options that its version does not have, with the feature gate that they need besides."""
    gate = FeatureGate.ALPHA_TOPOLOGY_OPTIONS
    needed = "" if node.options.on(gate) else f", and needs the feature gate {gate}, which is off"
    known = node.options.version <= PRE_RELEASE
    names = sorted(node.options.unreleased) if known else ()
    return (f"{name}: no kubelet up to the pre-release 1.{PRE_RELEASE} has it{needed}" for name in names)


def _doubtful(examined: ExaminedNode) -> Iterable[str]:
    """Return the uncertain resources of a topology in which no amount is odd."""
    if examined.node is None or Finding.ODD_AMOUNTS in examined.mistakes or not examined.node.uncertain:
        return []
    return [some(sorted(examined.node.uncertain))]


def _stale(examined: ExaminedNode) -> Iterable[str]:
    health = examined.exporter
    return [f"for {wording.ago(health.age)}"] if health.stale and health.age is not None else []


def _skewed(examined: ExaminedNode) -> Iterable[str]:
    seconds, measured = examined.skew
    if abs(seconds) < LEAST_SKEW_SECONDS:
        return []
    far = f"{wording.ago(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"
    return [f"its clock is {far}" if measured else f"its clock was at least {far} when the last pod started"]


def _version(node: Node) -> Iterable[str]:
    minor = node.options.minor
    return [f"1.{minor}"] if minor is not None and minor not in COMPARED else []


_UPGRADE = "helm upgrade numalign deploy/chart -n numalign-system --reset-then-reuse-values"
_INSTALL_AGENT = (
    "Push the agent's image (docs/how-to/agent.md), and run the agent on every node:\n"
    f"  {_UPGRADE} --set agent.enabled=true --set agent.image.repository=REGISTRY/numalign-agent"
)
_LOOK_FOR_AGENT = (
    "Other nodes have an agent. Check whether one runs here, and read its log:\n"
    "  kubectl get pods -A -o wide -l app.kubernetes.io/name=numalign,app.kubernetes.io/component=agent"
)
_READ_LOG = (
    "Read in its log what it could not read or write:\n"
    "  kubectl -n numalign-agent logs -l app.kubernetes.io/component=agent --prefix"
)
_GRANT_PROXY = (
    "Kubelets before 1.33 show their configuration only with permission to get nodes/proxy:\n"
    f"  {_UPGRADE} --set agent.nodeProxy=true"
)

_ROWS: Mapping[Finding, _FindingRow] = MappingProxyType(
    {
        Finding.NO_TOPOLOGY: _FindingRow(
            Severity.LACK,
            _where(_without_topology),
            (
                "No NUMA topology is published: pods are neither steered to nor kept away from the node, and"
                " predictions are guesses"
            ),
            _have_agent,
        ),
        Finding.BAD_TOPOLOGY: _FindingRow(
            Severity.LACK,
            _wrong(Finding.BAD_TOPOLOGY),
            "The published topology is invalid, so the node counts as one without a topology",
            _fix_exporter,
        ),
        Finding.ODD_AMOUNTS: _FindingRow(
            Severity.LACK,
            _wrong(Finding.ODD_AMOUNTS),
            "The published topology has invalid amounts or zones, so it is uncertain which zones have these"
            " resources, and no pod is refused for that",
            _fix_exporter,
        ),
        Finding.DOUBTFUL_DEVICES: _FindingRow(
            Severity.LACK,
            _doubtful,
            "It is unknown whether a device plugin serves resources in the topology, so no pod is refused for"
            " their zones",
            _have_agent,
        ),
        Finding.BAD_NODE: _FindingRow(
            Severity.LACK,
            _wrong(Finding.BAD_NODE),
            "The Node is invalid, so its labels, taints and totals are unknown",
            _do("Correct it:\n  kubectl get node NODE -o yaml"),
        ),
        Finding.WRONG_CLOCK: _FindingRow(
            Severity.LACK,
            _skewed,
            "The node's clock differs from that of the API server, so the times of its pods are wrong, which"
            " tell after a restart which pods are new",
            _do(
                "Set the clock, and check that time synchronization runs on the node:\n"
                "  kubectl debug node/NODE -it --image=busybox -- chroot /host timedatectl"
            ),
        ),
        Finding.STALE: _FindingRow(
            Severity.LACK,
            _stale,
            "The agent stopped publishing, so its report may be outdated",
            _do(
                "Check that it runs, and read its log:\n  kubectl get pods -A -o wide -l"
                " app.kubernetes.io/name=numalign,app.kubernetes.io/component=agent"
            ),
        ),
        Finding.BAD_REPORT: _FindingRow(
            Severity.LACK,
            _wrong(Finding.BAD_REPORT),
            "The agent's report cannot be read or contradicts the node, and is ignored",
            _do(
                "Run the same version of the agent and the other programs. If you do already, report a bug"
                f" with a snapshot:\n  {_UPGRADE}\n  kubectl numa snapshot -o cluster.json.gz"
            ),
        ),
        Finding.UNKNOWN_OPTION: _FindingRow(
            Severity.LACK,
            _on_node(lambda node: sorted(node.options.unknown)),
            "The kubelet's configuration has an unknown option, or an unknown value of one, which predictions"
            " leave out of account",
            _do("Update numalign, or correct the option in the kubelet's configuration."),
        ),
        Finding.UNRELEASED_OPTION: _FindingRow(
            Severity.LACK,
            _on_node(_unreleased),
            "The kubelet's version does not have the option, and such a kubelet would not start; predictions"
            " follow KEP-6007",
            _do("Remove the option from the kubelet's configuration, unless its build has it."),
        ),
        Finding.BAD_CONFIGURATION: _FindingRow(
            Severity.LACK,
            _wrong(Finding.BAD_CONFIGURATION),
            "The kubelet's configuration is invalid for this node, and is ignored",
            _do(
                "Compare it with what the kubelet uses:\n  kubectl get --raw /api/v1/nodes/NODE/proxy/configz"
            ),
        ),
        Finding.COUNTS_ONLY: _FindingRow(
            Severity.LACK,
            _knows(Known.COUNTS, TopologySource.EXPORTER),
            "Only amounts per NUMA zone are known, not the kubelet's options, CPU cores or unhealthy devices",
            _have_agent,
        ),
        Finding.NO_MACHINE: _FindingRow(
            Severity.LACK,
            _knows(Known.CONFIGURED, TopologySource.EXPORTER),
            (
                "The kubelet's options are known, but not the CPU cores, nor devices that are unhealthy or"
                " belong to several NUMA zones"
            ),
            _have_agent,
        ),
        Finding.SILENT_AGENT: _FindingRow(
            Severity.LACK,
            _where(_silent),
            "The agent does not report the machine",
            _restore_agent,
        ),
        Finding.NO_FINGERPRINT: _FindingRow(
            Severity.LACK,
            _without_fingerprint,
            "It is unknown which pods the exporter's amounts include, so new pods are counted late",
            _do(
                "Enable fingerprints in the exporter (--pods-fingerprint, by method all or"
                " with-exclusive-resources), or run the agent."
            ),
        ),
        Finding.TWO_WRITERS: _FindingRow(
            Severity.LACK,
            lambda examined: [some(examined.writers)] if len(examined.writers) > 1 else [],
            "Several programs write the topology, and overwrite each other",
            _do("Keep one; with agent.publish=if-absent or never the agent leaves the topology to others."),
        ),
        Finding.UNJUDGED_PODS: _FindingRow(
            Severity.LACK,
            lambda examined: [] if examined.node else examined.asking,
            "Pods that request alignment run on the node, and it is unknown whether they are aligned",
            _have_agent,
        ),
        Finding.NO_VERSION: _FindingRow(
            Severity.LACK,
            _on_node(lambda node: [""] if node.options.minor is None else []),
            "The kubelet's version is unknown; the newest version that numalign was compared with is assumed",
            _do("Write a snapshot that contains the Nodes:\n  kubectl numa snapshot -o cluster.json.gz"),
        ),
        Finding.VERSION: _FindingRow(
            Severity.NOTE,
            _on_node(_version),
            "numalign was not compared with this version of the kubelet, but with versions near it",
            _do("Update numalign once it is compared; docs/measurements/agreement.md lists the versions."),
        ),
        Finding.PRE_RELEASE: _FindingRow(
            Severity.NOTE,
            _on_node(lambda node: [f"1.{PRE_RELEASE}"] if node.options.minor == PRE_RELEASE else []),
            "numalign was compared with a pre-release of this version of the kubelet, which may have changed"
            " since",
            _do(
                "Update numalign once it is compared with the release. What differs from older versions:\n"
                "  kubectl numa versions"
            ),
        ),
        Finding.NOT_ALIGNED: _FindingRow(
            Severity.NOTE,
            _on_node(lambda node: [""] if node.policy is Policy.NONE else []),
            "The topology manager's policy is none: nothing is aligned, whatever pods request",
            _do(
                "To align pods, set topologyManagerPolicy in the kubelet's configuration to"
                " best-effort, restricted or single-numa-node, and restart the kubelet."
            ),
        ),
        Finding.SHARED_CPUS: _FindingRow(
            Severity.NOTE,
            _on_node(
                lambda node: [""] if node.cpu_manager is CpuManager.NONE and CPU not in node.uncertain else []
            ),
            "The CPU manager's policy is none: no container gets exclusive CPUs",
            _do(
                "To allocate exclusive CPUs, drain the node, set cpuManagerPolicy to static and"
                " reservedSystemCPUs, remove /var/lib/kubelet/cpu_manager_state and restart the kubelet."
            ),
        ),
        Finding.NO_SUCH_ZONE: _FindingRow(
            Severity.LACK,
            _on_node(_misplaced),
            "A device plugin reports NUMA zone -1: no pod with such a device can be admitted under this"
            " policy",
            _do(
                "Configure the plugin to report no zone, or enable NUMA for the machine, also for a virtual"
                " one, or use the Topology Manager policy best-effort."
            ),
        ),
        Finding.STALLED: _FindingRow(
            Severity.LACK,
            _on_node(_stalled),
            "The kubelet visits all sets of these zones for each pod that it aligns, which takes so long that"
            " it stalls (kubernetes#135581); numalign does not predict it",
            _do(
                "Update the kubelet to Kubernetes 1.36 or newer, whose hints for devices leave out zones"
                " without devices, and leave memoryManagerPolicy at None."
            ),
        ),
        Finding.ENDLESS: _FindingRow(
            Severity.LACK,
            _on_node(_endless),
            "Some requests for CPUs make the kubelet search without end, and it then admits no pod"
            " (kubernetes#140730)",
            _do(
                "Reserve whole cores: list all threads of each core in reservedSystemCPUs. Or remove"
                " distribute-cpus-across-numa, or update the kubelet to Kubernetes 1.38 once it is released."
            ),
        ),
        Finding.MANY_ZONES: _FindingRow(
            Severity.NOTE,
            _on_node(
                lambda node: (
                    [f"{len(node.every_zone)} zones"] if len(node.every_zone) > DEFAULT_MAX_ZONES else []
                )
            ),
            "A kubelet that aligns pods starts with so many zones only if an option allows it, and"
            " predictions take longer",
            _do(
                "Set max-allowable-numa-nodes in topologyManagerPolicyOptions, or configure fewer zones in"
                " the firmware."
            ),
        ),
        Finding.ORPHAN: _FindingRow(
            Severity.NOTE,
            _wrong(Finding.ORPHAN),
            "There is a topology but no Node: its exporter left it behind",
            lambda examined: f"Delete it:\n  kubectl delete {_kind(examined)} {_ALL_NODES}",
        ),
    }
)
