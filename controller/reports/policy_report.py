"""
PolicyReports and ClusterPolicyReports as API servers take them.

The fields are those of wgpolicyk8s.io/v1alpha2, as kubernetes-sigs/wg-policy-prototypes defines it
(policy-report/crd/v1alpha2); no value is written that any definition of that version would refuse. A report
is an object like others, with a bound to its bytes: of too many results the worst are kept, and the last one
says how many were left out. Its summary counts all.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson

from numalign.kube.decode.parts import Part, inner
from numalign.model.errors import cut
from numalign.scheduling.running_pods import SEVEREST_FIRST, PodRule, RuleOutcome, RuleResult, RunningPod

GROUP, VERSION = "wgpolicyk8s.io", "v1alpha2"
API_VERSION = f"{GROUP}/{VERSION}"

NAME = "numalign"
"""Of each report, of the policy in it, and of who says so."""

OWNED = "app.kubernetes.io/managed-by"
"""The label of what is ours to change and to remove; its value is `NAME`."""

DIGEST = "numalign.io/report"
"""The annotation with what a report says, so that it is written only when that changes."""

MOST_BYTES = 2**20
"""Of the results of one report; an API server takes objects of 1.5 MiB at most."""

LONGEST_MESSAGE = 512
"""Characters of what is said of one pod."""

CATEGORY = "NUMA alignment"

_SEVERITIES: Mapping[str, str] = MappingProxyType(
    {
        PodRule.ALIGNED: "medium",
        PodRule.ENFORCE: "high",
        PodRule.WARN: "medium",
        PodRule.AUDIT: "low",
        PodRule.ADMITTED: "high",
    }
)
_OF_NODES = "medium"


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """One result: of a rule, about one object, with what else is known of it.

    `content` stands for what it says; a `message` may count nodes, and is not worth a write by itself.
    """

    rule: str
    outcome: RuleOutcome
    severity: str
    message: str
    resource: Mapping[str, str]
    content: str
    properties: Mapping[str, str]

    def written(self, seconds: int) -> dict[str, Any]:
        """The result as it stands in a report that was made at a time, in seconds since 1970."""
        message = {"message": cut(self.message, LONGEST_MESSAGE)} if self.message else {}
        return {
            "source": NAME,
            "policy": NAME,
            "category": CATEGORY,
            "rule": self.rule,
            "result": str(self.outcome),
            "severity": self.severity,
            **message,
            "timestamp": {"seconds": seconds, "nanos": 0},
            "resources": [dict(self.resource)],
            "properties": dict(self.properties),
        }


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """What is to be reported of one namespace; of the cluster as a whole, if that is empty.

    The `entries` are made each time that they are asked for, since there may be very many. The `digest`
    stands for what they say, whenever that is written.
    """

    namespace: str
    entries: Callable[[], Iterator[ReportEntry]]
    digest: str

    @classmethod
    def of(cls, namespace: str, entries: Callable[[], Iterator[ReportEntry]]) -> "PolicyReport | None":
        """The report of these; None if there is nothing to be said."""
        hashed, none = hashlib.blake2b(digest_size=16), True
        for entry in entries():
            none = False
            hashed.update(orjson.dumps([entry.rule, entry.outcome, entry.resource, entry.content]))
        return None if none else cls(namespace, entries, hashed.hexdigest())

    def written(self, *, now: float, owner: Mapping[str, str] | None) -> tuple[dict[str, Any], int]:
        """The object, and how many results were left out of it; `now` is in seconds since 1970.

        What has an `owner` goes with it.
        """
        entries = tuple(self.entries())
        results, left_out = _within_bounds(entries, int(now))
        counts = Counter(entry.outcome for entry in entries)
        metadata: dict[str, Any] = {
            "name": NAME,
            **({"namespace": self.namespace} if self.namespace else {}),
            "labels": {OWNED: NAME},
            "annotations": {},
            **({"ownerReferences": [dict(owner)]} if owner else {}),
        }
        scope = {"apiVersion": "v1", "kind": "Namespace", "name": self.namespace}
        namespaced = {"scope": scope} if self.namespace else {}
        body: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "PolicyReport" if self.namespace else "ClusterPolicyReport",
            "metadata": metadata,
            **namespaced,
            "summary": {str(outcome): counts[outcome] for outcome in RuleOutcome},
            "results": results,
        }
        metadata["annotations"][DIGEST] = f"{self.digest} {_content_digest(body)}"
        return body, left_out


def digest_of(stored: Part) -> str:
    """The digest of what a report says that is stored; empty where somebody has changed it."""
    report, content = (*stored["metadata"]["annotations"][DIGEST].text().split(" "), "", "")[:2]
    return report if content == _content_digest(stored.value) else ""


def _content_digest(body: object) -> str:
    fields = [inner(body, name) for name in ("scope", "summary", "results")]
    return hashlib.blake2b(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def _within_bounds(entries: Sequence[ReportEntry], seconds: int) -> tuple[list[dict[str, Any]], int]:
    """As many results as there is room for, the worst first, and how many more there are."""
    results: list[dict[str, Any]] = []
    room = MOST_BYTES
    for entry in sorted(entries, key=lambda entry: SEVEREST_FIRST.index(entry.outcome)):
        result = entry.written(seconds)
        room -= len(orjson.dumps(result)) + 1
        if room < 0:
            break
        results.append(result)
    left_out = len(entries) - len(results)
    return [*results, *([_left_out(left_out, seconds)] if left_out else [])], left_out


def _left_out(count: int, seconds: int) -> dict[str, Any]:
    """A result that says so; the summary does not count it."""
    return {
        "source": NAME,
        "policy": NAME,
        "category": CATEGORY,
        "rule": "left-out",
        "result": str(RuleOutcome.SKIP),
        "message": (
            f"{count:,} more results do not fit into this report; `kubectl numa check` lists all pods"
        ),
        "timestamp": {"seconds": seconds, "nanos": 0},
    }


def of_namespace(namespace: str, pods: Iterable[RunningPod]) -> PolicyReport | None:
    """The report of the pods of one namespace; None if nobody asks anything of them."""
    in_order = sorted(pods, key=lambda pod: pod.pod.name)
    return PolicyReport.of(namespace, lambda: (entry for pod in in_order for entry in _of_pod(pod)))


def _of_pod(pod: RunningPod) -> Iterator[ReportEntry]:
    info, owner = pod.pod, pod.pod.owner
    resource = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": info.namespace,
        "name": info.name,
        "uid": info.uid,
    }
    properties = {
        "node": info.node,
        "policy": pod.policy or "none",
        **({"owner": f"{owner.kind}/{owner.name}"} if owner else {}),
    }
    for result in pod.results:
        yield ReportEntry(
            result.rule,
            result.outcome,
            _SEVERITIES[result.rule],
            result.message,
            resource,
            _content(pod, result),
            properties,
        )


def _content(pod: RunningPod, result: RuleResult) -> str:
    """What of a result is worth a write if it changes: why admission decides, not how it counts nodes."""
    if result.rule is PodRule.ADMITTED and pod.decision:
        return pod.decision.state
    return result.message


def of_nodes(nodes: Mapping[str, RuleOutcome]) -> PolicyReport | None:
    """The report of the nodes, by what comes of their topologies: pass, fail (stale) or warn (missing)."""
    in_order = sorted(nodes.items())
    return PolicyReport.of("", lambda: (_of_node(name, outcome) for name, outcome in in_order))


_OF_TOPOLOGIES: Mapping[RuleOutcome, str] = MappingProxyType(
    {
        RuleOutcome.FAIL: "its agent stopped publishing",
        RuleOutcome.WARN: "it publishes no NUMA topology",
    }
)


def _of_node(name: str, outcome: RuleOutcome) -> ReportEntry:
    message = _OF_TOPOLOGIES.get(outcome, "")
    resource = {"apiVersion": "v1", "kind": "Node", "name": name}
    return ReportEntry("topology", outcome, _OF_NODES, message, resource, message, {})
