"""An API server that stores policy reports, and a replica that writes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from controller.reports.policy_report import GROUP, VERSION, PolicyReport, ReportEntry
from controller.reports.writer import ReportWriter
from numalign.kube.client import Patch, Query
from numalign.kube.errors import NotFound
from numalign.scheduling.running_pods import RuleOutcome
from tests.unit.controller.conftest import Replica
from tests.worlds.clock import Clock

Json = dict[str, Any]

BASE = f"/apis/{GROUP}/{VERSION}"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/numalign-reports"
NOW = 1_800_000_000.0
OURS = "app.kubernetes.io/managed-by"


def entry(name: str, outcome: RuleOutcome = RuleOutcome.FAIL, message: str = "why") -> ReportEntry:
    """A result about a pod of this name."""
    resource = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": name, "uid": name}
    return ReportEntry("aligned", outcome, "medium", message, resource, message, {})


def report(*entries: ReportEntry, namespace: str = "team") -> PolicyReport:
    made = PolicyReport.of(namespace, lambda: iter(entries))
    assert made is not None
    return made


@dataclass
class Reports:
    """An API server with reports by path; calls of the verbs in `failing` raise, and `kinds` are served."""

    kinds: Sequence[str] = ("policyreports", "clusterpolicyreports")
    failing: dict[str, Exception] = field(default_factory=dict)
    stored: dict[str, Json] = field(default_factory=dict)
    role: Mapping[str, Any] | None = None
    writes: list[str] = field(default_factory=list)

    async def get(self, path: str, query: Query = (), *, what: str, most: int | None = None) -> object:
        """The kinds, the role, or a page of a single report."""
        assert most is None
        if path == BASE and self.kinds:
            return {"resources": [{"name": name} for name in self.kinds]}
        if path == ROLE:
            self._check("get role")
            if self.role:
                return self.role
        plural = path.rpartition("/")[2]
        if plural not in self.kinds:
            raise NotFound(f"{what} is not there")
        self._check("list")
        reports = [each for path, each in sorted(self.stored.items()) if f"/{plural}/" in path]
        ours = [each for each in reports if each["metadata"].get("labels", {}).get(OURS) == "numalign"]
        at = int(dict(query).get("continue", "0"))
        after = str(at + 1) if at + 1 < len(ours) else ""
        return {"metadata": {"continue": after}, "items": ours[at : at + 1]}

    async def patch(self, path: str, body: object, query: Query = (), *, how: Patch, what: str) -> object:
        assert (how, dict(query)) == (Patch.APPLY, {"fieldManager": "numalign-controller", "force": "true"})
        self._check("patch")
        if path.split("/")[-2] not in self.kinds:
            raise NotFound(f"{what} is not there")
        assert isinstance(body, dict)
        self.writes.append(f"patch {what}")
        uid = self.stored.get(path, {"metadata": {"uid": f"made-{len(self.writes)}"}})["metadata"]["uid"]
        self.stored[path] = {**body, "metadata": {**body["metadata"], "uid": uid}}
        return self.stored[path]

    async def delete(self, path: str, options: object, *, what: str) -> object:
        self._check("delete")
        assert isinstance(options, dict)
        if path not in self.stored:
            raise NotFound(f"{what} is not there")
        assert options["preconditions"] == {"uid": self.stored[path]["metadata"]["uid"]}
        del self.stored[path]
        self.writes.append(f"delete {what}")
        return {}

    def _check(self, verb: str) -> None:
        if verb in self.failing:
            raise self.failing[verb]


@dataclass
class ReportReplica(Replica):
    """A writer of the `wanted` reports, whose loop runs second by second."""

    clock: Clock = field(default_factory=lambda: Clock(0))
    api: Any = field(default_factory=Reports)
    wanted: Mapping[str, PolicyReport] | None = field(default_factory=dict)

    def writer(self, registry: CollectorRegistry | None = None) -> ReportWriter:
        """A writer that knows nothing yet."""

        async def wanted() -> Mapping[str, PolicyReport] | None:
            return self.wanted

        return ReportWriter(
            api=self.api, reports=wanted, wall=lambda: NOW + self.clock.seconds, **self.parts(registry)
        )

    def want(self, *reports: PolicyReport) -> None:
        self.wanted = {each.namespace: each for each in reports}

    def writes(self, result: str) -> float:
        return self.count("report_writes_total", result=result)
