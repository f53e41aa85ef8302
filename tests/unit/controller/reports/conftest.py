"""Pods that run, and an API server that keeps reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from controller.reports.policy_report import GROUP, VERSION, PolicyReport, ReportEntry
from controller.reports.writer import ReportWriter
from numalign.kube.client import Patch, Query
from numalign.kube.decode.pod_request import PodRequest
from numalign.kube.errors import NotFound
from numalign.kube.pod_informer import Owner, Phase, PodInfo
from numalign.model.intent import IntentAnnotations
from numalign.scheduling.running_pods import RuleOutcome
from tests.worlds.log import RecordedLog

Json = dict[str, Any]

BASE = f"/apis/{GROUP}/{VERSION}"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/numalign-reports"
NOW = 1_800_000_000.0


def pod(name: str = "web-1", namespace: str = "team", *, owner: Owner | None = None) -> PodInfo:
    """A pod that runs on the node `n`."""
    return PodInfo(
        uid=f"uid-of-{name}",
        namespace=namespace,
        name=name,
        node="n",
        scheduler="",
        created=0,
        started=0,
        phase=Phase.RUNNING,
        acknowledged=True,
        leaving=False,
        reason="",
        message="",
        request=PodRequest(None, IntentAnnotations()),
        record=None,
        owner=owner,
    )


def entry(name: str, outcome: RuleOutcome = RuleOutcome.FAIL, message: str = "why") -> ReportEntry:
    """A result about a pod of this name."""
    resource = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": name, "uid": name}
    return ReportEntry("aligned", outcome, "medium", message, resource, message, {})


def report(*entries: ReportEntry, namespace: str = "team") -> PolicyReport:
    """A report of these."""
    made = PolicyReport.of(namespace, lambda: iter(entries))
    assert made is not None
    return made


@dataclass
class Reports:
    """An API server that stores reports by their paths, and where something may be wrong.

    `failing` has the verbs that raise something; `kinds` are served. `asked` are the calls in their order.
    """

    kinds: Sequence[str] = ("policyreports", "clusterpolicyreports")
    failing: dict[str, Exception] = field(default_factory=dict)
    stored: dict[str, Json] = field(default_factory=dict)
    role: Mapping[str, Any] | None = None
    asked: list[str] = field(default_factory=list)
    _made: int = 0

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """The kinds, the role, or a page of a single report."""
        assert most is None
        if path == BASE and self.kinds:
            return {"resources": [{"name": name} for name in self.kinds]}
        if path == ROLE:
            self._allowed("get role")
        if path == ROLE and self.role:
            return self.role
        plural = path.rpartition("/")[2]
        if plural not in self.kinds:
            raise NotFound(f"{what} is not there")
        self._allowed("list")
        ours = [
            each for path, each in sorted(self.stored.items()) if f"/{plural}/" in path and _labelled(each)
        ]
        at = int(dict(query).get("continue", "0"))
        after = str(at + 1) if at + 1 < len(ours) else ""
        return {"metadata": {"continue": after}, "items": ours[at : at + 1]}

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        """Apply a report."""
        assert (how, dict(query)) == (Patch.APPLY, {"fieldManager": "numalign-controller", "force": "true"})
        self._allowed("patch")
        if path.split("/")[-2] not in self.kinds:
            raise NotFound(f"{what} is not there")
        assert isinstance(body, dict)
        self._made += 1
        uid = self.stored.get(path, {"metadata": {"uid": f"made-{self._made}"}})["metadata"]["uid"]
        self.stored[path] = {**body, "metadata": {**body["metadata"], "uid": uid}}
        self.asked.append(f"patch {what}")
        return self.stored[path]

    async def delete(self, path: str, options: object, *, what: str) -> object:
        """Remove a report of this uid."""
        self._allowed("delete")
        assert isinstance(options, dict)
        if path not in self.stored:
            raise NotFound(f"{what} is not there")
        assert options["preconditions"] == {"uid": self.stored[path]["metadata"]["uid"]}
        del self.stored[path]
        self.asked.append(f"delete {what}")
        return {}

    def _allowed(self, verb: str) -> None:
        if verb in self.failing:
            raise self.failing[verb]


def _labelled(stored: Json) -> bool:
    return bool(stored["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") == "numalign")


class Site:
    """A writer, with a clock and a lead that tests set, and what it is to report."""

    def __init__(self, api: Reports | None = None) -> None:
        self.api = api or Reports()
        self.seconds = 0.0
        self.leads = True
        self.wanted: Mapping[str, PolicyReport] | None = {}
        self.told, self.registry = RecordedLog(), CollectorRegistry()
        self.writer = self.replica()

    def replica(self) -> ReportWriter:
        """One more replica of the controller, which knows nothing yet."""
        return ReportWriter(
            api=self.api,
            reports=self._reports,
            leading=lambda: self.leads,
            log=self.told.log,
            registry=CollectorRegistry() if hasattr(self, "writer") else self.registry,
            clock=lambda: self.seconds,
            wall=lambda: NOW + self.seconds,
        )

    def wants(self, *reports: PolicyReport) -> None:
        """What is to be reported from now on."""
        self.wanted = {each.namespace: each for each in reports}

    async def turns(self, seconds: float) -> None:
        """Let so much time pass, turn by turn."""
        end = self.seconds + seconds
        while self.seconds < end:
            self.seconds += 1
            await self.writer.turn()

    def count(self, result: str) -> float:
        """How many writes ended so."""
        return self.registry.get_sample_value("numalign_report_writes_total", {"result": result}) or 0

    async def _reports(self) -> Mapping[str, PolicyReport] | None:
        return self.wanted
