"""
PolicyReports and ClusterPolicyReports as API servers accept them.

The fields are those of wgpolicyk8s.io/v1alpha2, as kubernetes-sigs/wg-policy-prototypes defines it
(policy-report/crd/v1alpha2); no value is written that any definition of that version rejects. The size of an
object is limited: if there are too many results, the worst are kept, and the last one says how many were left
out. The summary counts all.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any

import orjson

from numalign.kube.decode.parts import Part, inner
from numalign.model.errors import cut
from numalign.scheduling.running_pods import SEVEREST_FIRST, PodRule, RuleOutcome, RunningPod

GROUP, VERSION = "wgpolicyk8s.io", "v1alpha2"
API_VERSION = f"{GROUP}/{VERSION}"

NAME = "numalign"
"""Name of each report, of the policy in it, and of the source."""

OWNED = "app.kubernetes.io/managed-by"
"""Label of the objects that numalign may change and delete; its value is `NAME`."""

DIGEST = "numalign.io/report"
"""Annotation with the digest of a report, so that it is written only when its content changes."""

MOST_BYTES = 2**20
"""Most bytes of the results of one report; an API server accepts objects of 1.5 MiB at most."""

LONGEST_MESSAGE = 512
"""Most characters of a message about one pod."""

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


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """
    One result: of a rule, about one object, with its properties.

    `content` identifies what it says; a `message` may count nodes, and is not worth a write by itself.
    """

    rule: str
    outcome: RuleOutcome
    severity: str
    message: str
    resource: Mapping[str, str]
    content: str
    properties: Mapping[str, str]

    def written(self, seconds: int) -> dict[str, Any]:
        """Return the result as part of a report that was made at a time, in seconds since 1970."""
        return {
            **_result(self.rule, str(self.outcome), seconds),
            "severity": self.severity,
            **({"message": cut(self.message, LONGEST_MESSAGE)} if self.message else {}),
            "resources": [dict(self.resource)],
            "properties": dict(self.properties),
        }


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """
    The report of one namespace; of the nodes, if that is "".

    `entries` creates the entries again on each call, because there may be very many. The `digest` identifies
    what they say, whenever they are written.
    """

    namespace: str
    entries: Callable[[], Iterator[ReportEntry]]
    digest: str

    @classmethod
    def of(cls, namespace: str, entries: Callable[[], Iterator[ReportEntry]]) -> "PolicyReport | None":
        """Return the report with these entries; None if there are none."""
        hashed, none = hashlib.blake2b(digest_size=16), True
        for entry in entries():
            none = False
            hashed.update(orjson.dumps([entry.rule, entry.outcome, entry.resource, entry.content]))
        return None if none else cls(namespace, entries, hashed.hexdigest())

    def written(self, *, now: float, owner: Mapping[str, str] | None) -> tuple[dict[str, Any], int]:
        """
        Return the object, and how many results were left out; `now` is in seconds since 1970.

        With an `owner`, the object is deleted together with it.
        """
        entries = tuple(self.entries())
        # As many results as fit, the worst first.
        results: list[dict[str, Any]] = []
        room = MOST_BYTES
        for entry in sorted(entries, key=lambda entry: SEVEREST_FIRST.index(entry.outcome)):
            result = entry.written(int(now))
            room -= len(orjson.dumps(result)) + 1
            if room < 0:
                break
            results.append(result)
        left_out = len(entries) - len(results)
        if left_out:
            # The summary does not count this one.
            text = (
                f"{left_out:,} more results do not fit into this report; `kubectl numa check` lists all pods"
            )
            results.append({**_result("left-out", str(RuleOutcome.SKIP), int(now)), "message": text})
        counts = Counter(entry.outcome for entry in entries)
        metadata: dict[str, Any] = {"name": NAME, "labels": {OWNED: NAME}}
        if owner:
            metadata["ownerReferences"] = [dict(owner)]
        body: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": "PolicyReport" if self.namespace else "ClusterPolicyReport",
            "metadata": metadata,
            "summary": {str(outcome): counts[outcome] for outcome in RuleOutcome},
            "results": results,
        }
        if self.namespace:
            metadata["namespace"] = self.namespace
            body["scope"] = {"apiVersion": "v1", "kind": "Namespace", "name": self.namespace}
        metadata["annotations"] = {DIGEST: f"{self.digest} {_content_digest(body)}"}
        return body, left_out


def digest_of(stored: Part) -> str:
    """Return the digest of a stored report; "" if somebody has changed the report."""
    report, content = (*stored["metadata"]["annotations"][DIGEST].text().split(" "), "", "")[:2]
    return report if content == _content_digest(stored.value) else ""


def _content_digest(body: object) -> str:
    fields = [inner(body, name) for name in ("scope", "summary", "results")]
    return hashlib.blake2b(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()


def _result(rule: str, outcome: str, seconds: int) -> dict[str, Any]:
    time = {"seconds": seconds, "nanos": 0}
    words = {"source": NAME, "policy": NAME, "category": CATEGORY, "rule": rule, "result": outcome}
    return {**words, "timestamp": time}


def of_namespace(namespace: str, pods: Iterable[RunningPod]) -> PolicyReport | None:
    """Return the report of the pods of one namespace; None if no rule applies to them."""
    in_order = sorted(pods, key=lambda pod: pod.pod.name)
    return PolicyReport.of(namespace, lambda: chain.from_iterable(map(_of_pod, in_order)))


def _of_pod(pod: RunningPod) -> Iterator[ReportEntry]:
    info, owner = pod.pod, pod.pod.owner
    names = {"namespace": info.namespace, "name": info.name, "uid": info.uid}
    resource = {"apiVersion": "v1", "kind": "Pod", **names}
    properties = {"node": info.node, "policy": pod.policy or "none"}
    if owner:
        properties["owner"] = f"{owner.kind}/{owner.name}"
    for result in pod.results:
        content, severity = result.message, _SEVERITIES[result.rule]
        if result.rule is PodRule.ADMITTED and pod.decision:
            # Why admission decides is worth a write, but not how it counts nodes.
            content = " ".join(filter(None, (pod.decision.state, pod.decision.unpinned)))
        yield ReportEntry(
            result.rule, result.outcome, severity, result.message, resource, content, properties
        )


def of_nodes(nodes: Mapping[str, RuleOutcome]) -> PolicyReport | None:
    """Return the report of the nodes, by topology: pass, fail (stale) or warn (missing)."""

    def entries() -> Iterator[ReportEntry]:
        for name, outcome in sorted(nodes.items()):
            message = _OF_TOPOLOGIES.get(outcome, "")
            resource = {"apiVersion": "v1", "kind": "Node", "name": name}
            yield ReportEntry("topology", outcome, "medium", message, resource, message, {})

    return PolicyReport.of("", entries)


_OF_TOPOLOGIES: Mapping[RuleOutcome, str] = MappingProxyType(
    {
        RuleOutcome.FAIL: "its agent stopped publishing",
        RuleOutcome.WARN: "it publishes no NUMA topology",
    }
)
