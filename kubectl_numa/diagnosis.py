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
from numalign.model.intent import PREFIX, Policy
from numalign.model.node import DEFAULT_MAX_ZONES, CpuManager, Known, Node
from numalign.model.options import COMPARED, PRE_RELEASE, FeatureGate
from numalign.model.resources import CPU

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


_NOTES = frozenset(
    {
        Finding.VERSION,
        Finding.PRE_RELEASE,
        Finding.NOT_ALIGNED,
        Finding.SHARED_CPUS,
        Finding.MANY_ZONES,
        Finding.ORPHAN,
    }
)


def _severity(finding: Finding) -> Severity:
    return Severity.NOTE if finding in _NOTES else Severity.LACK


class Skew(NamedTuple):
    """By how many seconds a node's clock is ahead of the API server's; negative if it is behind.

    If not `measured`, it was that far behind at least when the last pod started.
    """

    seconds: int
    measured: bool = True


NO_SKEW = Skew(0)


@dataclass(frozen=True, slots=True)
class Traces:
    """What objects show that the rules do not read, by node.

    `writers` are the programs that wrote its topology, `asking` the pods there that request alignment,
    `skews` what is known of its clock.
    """

    writers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asking: Mapping[str, Sequence[str]] = field(default_factory=dict)
    skews: Mapping[str, Skew] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExaminedNode:
    """All facts that findings about one node are based on.

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
        return {
            "finding": self.finding,
            "severity": _severity(self.finding),
            "detail": self.detail or None,
            "what": _ROWS[self.finding].what,
            "remedy": _for_nodes(self.remedy, [name]),
        }


@dataclass(frozen=True, slots=True)
class DiagnosedNode:
    """A node, and its findings."""

    name: str
    node: Node | None
    exporter: ExporterHealth
    found: tuple[FoundOnNode, ...]

    @property
    def lacking(self) -> bool:
        """Return whether something is missing."""
        return any(_severity(each.finding) is Severity.LACK for each in self.found)

    def to_json(self) -> dict[str, Any]:
        """Return the node for programs."""
        return {
            "name": self.name,
            "known": self.node.known if self.node else NOTHING,
            **self.exporter.to_json(),
            "findings": [each.to_json(self.name) for each in self.found],
        }


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Nodes with the same finding and remedy: their names, and those by detail.

    `what` is the consequence, in a sentence without a full stop.
    """

    finding: Finding
    severity: Severity
    what: str
    remedy: str
    names: Sequence[str]
    names_by_detail: Mapping[str, Sequence[str]]

    @property
    def fix(self) -> str:
        """Return the remedy; a command that takes one name is for the first of the nodes."""
        return _for_nodes(self.remedy, self.names)


def diagnose(cluster: Cluster, traces: Traces, *, seen: float) -> tuple[DiagnosedNode, ...]:
    """Return the findings about every node, by name, at the time `seen`, in seconds since 1970.

    Names that have only a topology or a configuration count as nodes too.
    """
    nodes = {node.name: node for node in cluster.nodes}
    present = {*nodes, *cluster.unknown}
    mistakes = _mistakes(cluster.problems, present, nodes.keys())
    # An agent looks at the clock of its node.
    skews = {name: traces.skews.get(name, NO_SKEW) for name in nodes}
    health = {name: exporters.of_node(cluster, name, now=seen + skews[name].seconds) for name in nodes}
    agents = any(each.source is TopologySource.AGENT for each in health.values())
    examined = (
        ExaminedNode(
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
        for name in sorted(present | mistakes.keys())
    )
    return tuple(DiagnosedNode(each.name, each.node, each.exporter, (*_found(each),)) for each in examined)


def is_of_node(problem: Problem) -> bool:
    """Return whether a problem is about a node, and so among its findings."""
    return problem.kind in {*_TOPOLOGIES, kubelet_config.KIND, "Node"}


def groups(nodes: Iterable[DiagnosedNode]) -> list[FindingGroup]:
    """Return the same findings grouped: what is missing first, and of that what most nodes lack."""
    same = defaultdict[tuple[Finding, str], dict[str, list[str]]](dict)
    for node in nodes:
        for finding, detail, remedy in node.found:
            same[finding, remedy].setdefault(detail, []).append(node.name)
    found: list[FindingGroup] = []
    for (finding, remedy), details in same.items():
        names, what = sorted({*chain.from_iterable(details.values())}), _ROWS[finding].what
        found.append(FindingGroup(finding, _severity(finding), what, remedy, names, details))
    found.sort(key=lambda each: (each.severity is Severity.NOTE, -len(each.names), _PLACES[each.finding]))
    return found


_PLACES = {finding: place for place, finding in enumerate(Finding)}


def _mistakes(
    problems: Iterable[Problem], present: AbstractSet[str], known: AbstractSet[str]
) -> Mapping[str, Mapping[Finding, Sequence[str]]]:
    """Return, by node name, the mistakes in its objects, by the finding that they lead to."""
    by_name = defaultdict[str, dict[Finding, list[str]]](dict)
    for problem in filter(is_of_node, problems):
        for mistake in problem.mistakes:
            if PREFIX in mistake.where:
                finding = Finding.BAD_REPORT
            elif problem.kind in _TOPOLOGIES and problem.name in known:
                odd = mistake.where != nrt.ATTRIBUTES
                finding = Finding.ODD_AMOUNTS if odd else Finding.NO_FINGERPRINT
            elif problem.kind in _TOPOLOGIES:
                finding = Finding.BAD_TOPOLOGY if problem.name in present else Finding.ORPHAN
            else:
                configured = problem.kind == kubelet_config.KIND
                finding = Finding.BAD_CONFIGURATION if configured else Finding.BAD_NODE
            by_name[problem.name].setdefault(finding, []).append(f"{problem.kind}: {mistake}")
    return by_name


_Found = tuple[Finding, str]
"""A finding, and its detail, "" if there is nothing to add."""


def _found(examined: ExaminedNode) -> Iterator[FoundOnNode]:
    """Yield all findings about a node, in the order of reporting."""
    found = [(finding, detail) for finding, details in examined.mistakes.items() for detail in details]
    found += _of_publishers(examined)
    if examined.node:
        found += [
            *_of_knowledge(examined, examined.node),
            *_of_version(examined.node),
            *_of_managers(examined.node),
        ]
    for finding, detail in sorted(found, key=lambda each: _PLACES[each[0]]):
        remedy = _ROWS[finding].remedy
        yield FoundOnNode(finding, detail, remedy if isinstance(remedy, str) else remedy(examined))


def _of_publishers(examined: ExaminedNode) -> Iterator[_Found]:
    """Yield what is wrong with the clock of a node, and with what publishes its topology."""
    health = examined.exporter
    seconds, measured = examined.skew
    if abs(seconds) >= LEAST_SKEW_SECONDS:
        far = f"{wording.ago(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"
        last_pod = f"its clock was at least {far} when the last pod started"
        yield Finding.WRONG_CLOCK, f"its clock is {far}" if measured else last_pod
    if health.stale and health.age is not None:
        yield Finding.STALE, f"for {wording.ago(health.age)}"
    known_to_lack = Finding.NO_FINGERPRINT in examined.mistakes
    if health.source is TopologySource.EXPORTER and not (examined.fingerprinted or known_to_lack):
        yield Finding.NO_FINGERPRINT, ""
    if len(examined.writers) > 1:
        yield Finding.TWO_WRITERS, some(examined.writers)
    if examined.node is None:
        if examined.present and Finding.BAD_TOPOLOGY not in examined.mistakes:
            yield Finding.NO_TOPOLOGY, ""
        yield from ((Finding.UNJUDGED_PODS, pod) for pod in examined.asking)


def _of_knowledge(examined: ExaminedNode, node: Node) -> Iterator[_Found]:
    """Yield what is not known about a node with a topology, unless a mistake already explains it."""
    source, mistakes = examined.exporter.source, examined.mistakes.keys()
    if node.uncertain and Finding.ODD_AMOUNTS not in mistakes:
        yield Finding.DOUBTFUL_DEVICES, some(sorted(node.uncertain))
    if source is TopologySource.EXPORTER and node.known is Known.COUNTS:
        yield Finding.COUNTS_ONLY, ""
    if source is TopologySource.EXPORTER and node.known is Known.CONFIGURED:
        yield Finding.NO_MACHINE, ""
    explained = mistakes & {Finding.BAD_REPORT, Finding.BAD_CONFIGURATION}
    if source is TopologySource.AGENT and node.known is not Known.MACHINE and not explained:
        yield Finding.SILENT_AGENT, ""


def _of_version(node: Node) -> Iterator[_Found]:
    """Yield options that the kubelet's version does not have, and a version that was not compared."""
    options = node.options
    yield from ((Finding.UNKNOWN_OPTION, option) for option in sorted(options.unknown))
    if options.version <= PRE_RELEASE:
        gate = FeatureGate.ALPHA_TOPOLOGY_OPTIONS
        needed = "" if options.on(gate) else f", and needs the feature gate {gate}, which is off"
        for option in sorted(options.unreleased):
            lacking = f"{option}: no kubelet up to the pre-release 1.{PRE_RELEASE} has it{needed}"
            yield Finding.UNRELEASED_OPTION, lacking
    if options.minor is None:
        yield Finding.NO_VERSION, ""
    elif options.minor not in COMPARED:
        yield Finding.VERSION, f"1.{options.minor}"
    if options.minor == PRE_RELEASE:
        yield Finding.PRE_RELEASE, f"1.{PRE_RELEASE}"


def _of_managers(node: Node) -> Iterator[_Found]:
    """Yield what the kubelet's managers do not align on a node, and what makes them stall."""
    if node.policy is Policy.NONE:
        yield Finding.NOT_ALIGNED, ""
    if node.cpu_manager is CpuManager.NONE and CPU not in node.uncertain:
        yield Finding.SHARED_CPUS, ""
    if node.policy.at_least(Policy.RESTRICTED):
        misplaced = sorted(without_zones(node, node.devices))
        yield from ((Finding.NO_SUCH_ZONE, device) for device in misplaced)
    if node.policy is not Policy.NONE and len(node.zones) > work_limit.MOST_ZONES:
        yield Finding.STALLED, f"{len(node.zones)} zones"
    if zones := ", ".join(map(str, cpu_manager.endless(node))):
        yield Finding.ENDLESS, f"parts of cores are reserved in zones {zones}"
    if len(node.every_zone) > DEFAULT_MAX_ZONES:
        yield Finding.MANY_ZONES, f"{len(node.every_zone)} zones"


class _FindingRow(NamedTuple):
    """The consequence of a finding, and what to do."""

    what: str
    remedy: str | Callable[[ExaminedNode], str]


def _for_nodes(remedy: str, names: Sequence[str]) -> str:
    return remedy.replace(_ALL_NODES, shlex.join(names)).replace(_ANY_NODE, shlex.join(names[:1]))


def _have_agent(examined: ExaminedNode) -> str:
    return _LOOK_FOR_AGENT if examined.agents else _INSTALL_AGENT


def _restore_agent(examined: ExaminedNode) -> str:
    """Return how to fix an agent that does not report the machine: before 1.33, mostly by a permission."""
    minor = examined.node.options.minor if examined.node else None
    return _READ_LOG if minor is None or minor >= _FINE_RIGHTS else _GRANT_PROXY


_FINE_RIGHTS = 33
"""The minor version from which a permission for a kubelet's configuration alone exists (KEP-2862)."""


def _fix_exporter(examined: ExaminedNode) -> str:
    return f"Fix or update the exporter that writes it:\n  kubectl get {_kind(examined)} NODE -o yaml"


def _kind(examined: ExaminedNode) -> str:
    """Return the kind of the first topology with a mistake, as kubectl takes it."""
    about_topologies = (Finding.BAD_TOPOLOGY, Finding.ODD_AMOUNTS, Finding.ORPHAN)
    wrong = chain.from_iterable(examined.mistakes.get(finding, ()) for finding in about_topologies)
    return next(wrong, nrt.KIND).partition(":")[0].lower()


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
            "No NUMA topology is published: pods are neither steered to nor kept away from the node, and"
            " predictions are guesses",
            _have_agent,
        ),
        Finding.BAD_TOPOLOGY: _FindingRow(
            "The published topology is invalid, so the node counts as one without a topology", _fix_exporter
        ),
        Finding.ODD_AMOUNTS: _FindingRow(
            "The published topology has invalid amounts or zones, so it is uncertain which zones have these"
            " resources, and no pod is refused for that",
            _fix_exporter,
        ),
        Finding.DOUBTFUL_DEVICES: _FindingRow(
            "It is unknown whether a device plugin serves resources in the topology, so no pod is refused for"
            " their zones",
            _have_agent,
        ),
        Finding.BAD_NODE: _FindingRow(
            "The Node is invalid, so its labels, taints and totals are unknown",
            "Correct it:\n  kubectl get node NODE -o yaml",
        ),
        Finding.WRONG_CLOCK: _FindingRow(
            "The node's clock differs from that of the API server, so the times of its pods are wrong, which"
            " tell after a restart which pods are new",
            "Set the clock, and check that time synchronization runs on the node:\n"
            "  kubectl debug node/NODE -it --image=busybox -- chroot /host timedatectl",
        ),
        Finding.STALE: _FindingRow(
            "The agent stopped publishing, so its report may be outdated",
            "Check that it runs, and read its log:\n  kubectl get pods -A -o wide -l"
            " app.kubernetes.io/name=numalign,app.kubernetes.io/component=agent",
        ),
        Finding.BAD_REPORT: _FindingRow(
            "The agent's report cannot be read or contradicts the node, and is ignored",
            "Run the same version of the agent and the other programs. If you do already, report a bug"
            f" with a snapshot:\n  {_UPGRADE}\n  kubectl numa snapshot -o cluster.json.gz",
        ),
        Finding.UNKNOWN_OPTION: _FindingRow(
            "The kubelet's configuration has an unknown option, or an unknown value of one, which predictions"
            " leave out of account",
            "Update numalign, or correct the option in the kubelet's configuration.",
        ),
        Finding.UNRELEASED_OPTION: _FindingRow(
            "The kubelet's version does not have the option, and such a kubelet would not start; predictions"
            " follow KEP-6007",
            "Remove the option from the kubelet's configuration, unless its build has it.",
        ),
        Finding.BAD_CONFIGURATION: _FindingRow(
            "The kubelet's configuration is invalid for this node, and is ignored",
            "Compare it with what the kubelet uses:\n  kubectl get --raw /api/v1/nodes/NODE/proxy/configz",
        ),
        Finding.COUNTS_ONLY: _FindingRow(
            "Only amounts per NUMA zone are known, not the kubelet's options, CPU cores or unhealthy devices",
            _have_agent,
        ),
        Finding.NO_MACHINE: _FindingRow(
            "The kubelet's options are known, but not the CPU cores, nor devices that are unhealthy or"
            " belong to several NUMA zones",
            _have_agent,
        ),
        Finding.SILENT_AGENT: _FindingRow("The agent does not report the machine", _restore_agent),
        Finding.NO_FINGERPRINT: _FindingRow(
            "It is unknown which pods the exporter's amounts include, so new pods are counted late",
            "Enable fingerprints in the exporter (--pods-fingerprint, by method all or"
            " with-exclusive-resources), or run the agent.",
        ),
        Finding.TWO_WRITERS: _FindingRow(
            "Several programs write the topology, and overwrite each other",
            "Keep one; with agent.publish=if-absent or never the agent leaves the topology to others.",
        ),
        Finding.UNJUDGED_PODS: _FindingRow(
            "Pods that request alignment run on the node, and it is unknown whether they are aligned",
            _have_agent,
        ),
        Finding.NO_VERSION: _FindingRow(
            "The kubelet's version is unknown; the newest version that numalign was compared with is assumed",
            "Write a snapshot that contains the Nodes:\n  kubectl numa snapshot -o cluster.json.gz",
        ),
        Finding.VERSION: _FindingRow(
            "numalign was not compared with this version of the kubelet, but with versions near it",
            "Update numalign once it is compared; docs/measurements/agreement.md lists the versions.",
        ),
        Finding.PRE_RELEASE: _FindingRow(
            "numalign was compared with a pre-release of this version of the kubelet, which may have changed"
            " since",
            "Update numalign once it is compared with the release. What differs from older versions:\n"
            "  kubectl numa versions",
        ),
        Finding.NOT_ALIGNED: _FindingRow(
            "The topology manager's policy is none: nothing is aligned, whatever pods request",
            "To align pods, set topologyManagerPolicy in the kubelet's configuration to"
            " best-effort, restricted or single-numa-node, and restart the kubelet.",
        ),
        Finding.SHARED_CPUS: _FindingRow(
            "The CPU manager's policy is none: no container gets exclusive CPUs",
            "To allocate exclusive CPUs, drain the node, set cpuManagerPolicy to static and"
            " reservedSystemCPUs, remove /var/lib/kubelet/cpu_manager_state and restart the kubelet.",
        ),
        Finding.NO_SUCH_ZONE: _FindingRow(
            "A device plugin reports NUMA zone -1: no pod with such a device can be admitted under this"
            " policy",
            "Configure the plugin to report no zone, or enable NUMA for the machine, also for a virtual"
            " one, or use the Topology Manager policy best-effort.",
        ),
        Finding.STALLED: _FindingRow(
            "The kubelet visits all sets of these zones for each pod that it aligns, which takes so long that"
            " it stalls (kubernetes#135581); numalign does not predict it",
            "Update the kubelet to Kubernetes 1.36 or newer, whose hints for devices leave out zones"
            " without devices, and leave memoryManagerPolicy at None.",
        ),
        Finding.ENDLESS: _FindingRow(
            "Some requests for CPUs make the kubelet search without end, and it then admits no pod"
            " (kubernetes#140730)",
            "Reserve whole cores: list all threads of each core in reservedSystemCPUs. Or remove"
            " distribute-cpus-across-numa, or update the kubelet to Kubernetes 1.38 once it is released.",
        ),
        Finding.MANY_ZONES: _FindingRow(
            "A kubelet that aligns pods starts with so many zones only if an option allows it, and"
            " predictions take longer",
            "Set max-allowable-numa-nodes in topologyManagerPolicyOptions, or configure fewer zones in"
            " the firmware.",
        ),
        Finding.ORPHAN: _FindingRow(
            "There is a topology but no Node: its exporter left it behind",
            lambda examined: f"Delete it:\n  kubectl delete {_kind(examined)} {_ALL_NODES}",
        ),
    }
)
