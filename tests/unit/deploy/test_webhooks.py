"""When API servers ask: each pod at most once, and none of which nobody asks anything."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import pytest

from numalign.decision import taints
from numalign.kube.decode import templates
from numalign.model import intent
from tests.unit.deploy.selectors import CONDITIONS, NAME, Object, Request, called, selects
from tests.worlds.notation import table
from tools.generate.manifests import AGENT_NAMESPACE, NAMESPACE, installed
from webhook.handlers import _ENDPOINTS

SHIPPED = installed(".")
EVERY_MUTATING = SHIPPED["MutatingWebhookConfiguration", "zz-numalign"]
VALIDATING = SHIPPED["ValidatingWebhookConfiguration", "zz-numalign"]
WORKLOADS, JOBS = "workloads.validate.numalign.io", "jobs.mutate.numalign.io"
MUTATING, OF_JOBS = (
    EVERY_MUTATING | {"webhooks": [e for e in EVERY_MUTATING["webhooks"] if (e["name"] == JOBS) is jobs]}
    for jobs in (False, True)
)
OF_PODS = VALIDATING | {"webhooks": [e for e in VALIDATING["webhooks"] if e["name"] != WORKLOADS]}
OF_WORKLOADS = VALIDATING | {"webhooks": [e for e in VALIDATING["webhooks"] if e["name"] == WORKLOADS]}
EVERY_ENTRY = SHIPPED.entries

EXCLUDED = ("kube-system", "kube-node-lease", NAMESPACE, AGENT_NAMESPACE)
LABELS = (intent.ENFORCE, intent.DEFAULT, intent.WARN, intent.AUDIT, intent.EXCLUSIVE_CPUS)
"""Those for which every pod of a namespace is looked at."""
OURS = (intent.POLICY, intent.VOLCANO_POLICY, intent.RESOURCES, "numalign.io/polcy")


@dataclass(frozen=True, slots=True)
class Case:
    """A pod that is created in a namespace."""

    namespace: Mapping[str, str]
    request: Request

    @property
    def is_ours(self) -> bool:
        """Whether numalign may look at all."""
        return (
            self.namespace[NAME] not in EXCLUDED
            and self.namespace.get(intent.ADMISSION) != "disabled"
            and "system:nodes" not in self.request.groups
        )

    @property
    def is_annotated(self) -> bool:
        """Whether the pod says anything to numalign."""
        return not self.request.object["metadata"].get("annotations", {}).keys().isdisjoint(OURS)

    @property
    def is_tolerating(self) -> bool:
        """Whether the pod says by a toleration which nodes it is for."""
        return any(each.get("key") in taints.KEYS for each in self.request.object["spec"]["tolerations"])

    def called(self, configuration: Object) -> list[str]:
        """The names of the configuration's webhooks that would be called."""
        return called(configuration, namespace=self.namespace, request=self.request)


def every_case() -> Iterator[Case]:
    """Each way in which namespaces and pods can differ for a webhook, with each other way: all there is."""
    labelled = [set(some) for count in range(len(LABELS) + 1) for some in combinations(LABELS, count)]
    admissions = [{}, {intent.ADMISSION: "disabled"}, {intent.ADMISSION: "enabled"}]
    foreign = {"annotations": {"volcano.sh/queue": "x", "example.com/numalign.io": "x"}}
    metadata = [{}, {"annotations": {}}, foreign, *({"annotations": {key: "x"}} for key in OURS)]
    ours = {"key": taints.KEYS[0], "value": "dedicated"}
    tolerations = [[], [{"operator": "Exists"}, {"key": "x"}], [ours]]
    users = [("system:authenticated",), ("system:nodes", "system:authenticated")]
    for labels, admission, name in product(labelled, admissions, ("team", *EXCLUDED)):
        namespace = dict.fromkeys(labels, "restricted") | admission | {NAME: name}
        for meta, groups, tolerated in product(metadata, users, tolerations):
            spec = {"tolerations": tolerated}
            yield Case(namespace, Request({"metadata": meta, "spec": spec}, groups=groups))


CASES = tuple(every_case())


def test_pod_is_mutated_at_most_once() -> None:
    def wanted(case: Case) -> bool:
        return case.is_ours and (case.is_annotated or intent.DEFAULT in case.namespace)

    assert [case for case in CASES if len(case.called(MUTATING)) != wanted(case)] == []


def test_pod_is_validated_at_most_once() -> None:
    def wanted(case: Case) -> bool:
        speaks = case.is_annotated or case.is_tolerating
        return case.is_ours and (speaks or not case.namespace.keys().isdisjoint(LABELS))

    assert [case for case in CASES if len(case.called(OF_PODS)) != wanted(case)] == []


def test_only_enforcing_namespaces_fail_closed() -> None:
    closed = {entry["name"] for entry in EVERY_ENTRY if entry["failurePolicy"] != "Ignore"}

    def sent(case: Case) -> set[str]:
        return {*case.called(MUTATING), *case.called(VALIDATING)}

    def wanted(case: Case) -> bool:
        return case.is_ours and intent.ENFORCE in case.namespace

    assert [case for case in CASES if bool(sent(case) & closed) != wanted(case)] == []


TEAM = {NAME: "team"}
DEPLOYMENT: dict[str, Any] = {"metadata": {"labels": {"a": "1"}}, "spec": {"template": {}, "replicas": 1}}
ANNOTATED = DEPLOYMENT | {"metadata": {"annotations": {intent.POLICY: "restricted", "x": "y"}}}
POD_TEMPLATE: dict[str, Any] = {"metadata": {}, "template": {}}
OF = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


NEW_SPEC = Request(DEPLOYMENT | {"spec": {"template": {"x": 1}}}, DEPLOYMENT, "UPDATE")
UNLABELLED = Request(DEPLOYMENT | {"metadata": {}}, DEPLOYMENT, "UPDATE")
NEW_TEMPLATE = Request(POD_TEMPLATE | {"template": {"x": 1}}, POD_TEMPLATE, "UPDATE")


def owned(**owner: object) -> Request:
    return Request({"metadata": {"ownerReferences": [OF | owner]}, "spec": {}})


REQUESTS = [
    # what happens                  to the namespace   the request, and is it sent
    ("created",                     TEAM,              Request(DEPLOYMENT), True),
    ("another template",            TEAM,              NEW_SPEC, True),
    ("another label",               TEAM,              UNLABELLED, False),
    ("annotated for us",            TEAM,              Request(ANNOTATED, DEPLOYMENT, "UPDATE"), True),
    ("annotated before",            TEAM,              Request(ANNOTATED, ANNOTATED, "UPDATE"), False),
    ("a template without a spec",   TEAM,              NEW_TEMPLATE, True),
    ("made by a Deployment",        TEAM,              owned(controller=True), False),
    ("owned but not controlled",    TEAM,              owned(), True),
    ("made by what is not known",   TEAM, owned(apiVersion="tekton.dev/v1", controller=True), True),
    ("in our own namespace",        {NAME: NAMESPACE}, Request(DEPLOYMENT), False),
    ("disabled",                    TEAM | {intent.ADMISSION: "disabled"}, Request(DEPLOYMENT), False),
]  # fmt: skip


@pytest.mark.parametrize(("namespace", "request_", "sent"), table(REQUESTS))
def test_workload_is_sent_if_its_pods_change(
    namespace: Mapping[str, str], request_: Request, *, sent: bool
) -> None:
    assert called(OF_WORKLOADS, namespace=namespace, request=request_) == [WORKLOADS] * sent


LABELLED = TEAM | {intent.JOB_AFFINITY: "enabled"}
OF_JOBS_IN = [
    (TEAM, False),
    (LABELLED, True),
    (LABELLED | {intent.ADMISSION: "disabled"}, False),
    (LABELLED | {NAME: NAMESPACE}, False),
]


def test_jobs_are_mutated_only_in_labelled_namespaces() -> None:
    [entry] = OF_JOBS["webhooks"]

    assert [selects(entry["namespaceSelector"], where) for where, _ in OF_JOBS_IN] == [
        x for _, x in OF_JOBS_IN
    ]
    assert [(rule["apiGroups"], rule["resources"]) for rule in entry["rules"]] == [(["batch"], ["jobs"])]


def test_kinds_that_run_pods_are_sent() -> None:
    [entry] = OF_WORKLOADS["webhooks"]
    sent = {(rule["apiGroups"][0], each) for rule in entry["rules"] for each in rule["resources"]}
    # A PodTemplate runs nothing: workloadRules can add it.
    known = templates.TEMPLATES.keys() - {templates.POD, ("", "PodTemplate")}
    running = {(group, f"{kind.lower()}s") for group, kind in known}
    builtin = {"", "apps", "batch"}
    assert running <= sent
    assert {each for each in sent - running if each[0] in builtin} == set()


def test_owners_that_are_skipped_are_known_kinds() -> None:
    """The condition goes by group; every kind of these groups that controls pods must be known."""
    known = {kind for group, kind in templates.TEMPLATES if group in {"apps", "batch"}}
    assert known == {"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "CronJob", "Job"}


def test_paths_are_served_by_the_webhook() -> None:
    paths = {entry["clientConfig"]["service"]["path"] for entry in EVERY_ENTRY}
    assert paths == {f"/{name}" for name in _ENDPOINTS}


def test_entries_call_the_installed_service() -> None:
    service = SHIPPED["Service", "numalign-webhook"]
    [port] = service["spec"]["ports"]
    wanted = (service["metadata"]["name"], service["metadata"]["namespace"], port["port"])
    called_services = (entry["clientConfig"]["service"] for entry in EVERY_ENTRY)
    assert {(each["name"], each["namespace"], each["port"]) for each in called_services} == {wanted}


def test_no_manifest_has_a_ca_bundle() -> None:
    """What stands in no manifest is taken away by no apply, no upgrade and no rollback."""
    assert [entry["name"] for entry in EVERY_ENTRY if "caBundle" in entry["clientConfig"]] == []


def test_timeouts_are_short_without_side_effects() -> None:
    assert {entry["timeoutSeconds"] for entry in MUTATING["webhooks"]} == {2}
    assert {entry["timeoutSeconds"] for entry in VALIDATING["webhooks"]} == {3}
    assert {entry["reinvocationPolicy"] for entry in MUTATING["webhooks"]} == {"IfNeeded"}
    for entry in EVERY_ENTRY:
        assert (entry["sideEffects"], entry["matchPolicy"]) == ("None", "Equivalent")
        assert entry["admissionReviewVersions"] == ["v1"]
        # Pods are sent when they are created, and workloads when they change.
        wanted = ("CREATE", "UPDATE") if entry["name"] == WORKLOADS else ("CREATE",)
        assert {tuple(rule["operations"]) for rule in entry["rules"]} == {wanted}
        assert {rule["scope"] for rule in entry["rules"]} == {
            "*" if entry["name"] == WORKLOADS else "Namespaced"
        }


def test_names_are_unique_and_have_a_domain() -> None:
    names = [entry["name"] for entry in EVERY_ENTRY]
    assert (len({*names}), [name for name in names if name.count(".") < 2]) == (len(names), [])


def test_every_evaluated_condition_is_shipped() -> None:
    shipped = {
        " ".join(c["expression"].split()) for entry in EVERY_ENTRY for c in entry.get("matchConditions", ())
    }
    assert shipped == CONDITIONS.keys()
