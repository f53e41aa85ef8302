"""When API servers ask: each pod at most once, and none of which nobody asks anything."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any

import pytest

from numalign.decision import taints
from numalign.kube.decode import templates
from numalign.model import intent
from tests.worlds.notation import table
from tools.generate.manifests import AGENT_NAMESPACE, NAMESPACE, installed
from webhook.handlers import _ENDPOINTS

Object = Mapping[str, Any]
NAME = "kubernetes.io/metadata.name"
VOLCANO = intent.VOLCANO_POLICY


@dataclass(frozen=True, slots=True)
class Request:
    """What is known of a request when webhooks are chosen for it."""

    object: Object
    old: Object = field(default_factory=dict)
    operation: str = "CREATE"
    groups: Sequence[str] = ("system:authenticated",)


def called(configuration: Object, *, namespace: Mapping[str, str], request: Request) -> list[str]:
    """Return the names of a configuration's webhooks that an API server would call."""
    return [
        entry["name"]
        for entry in configuration["webhooks"]
        if selects(entry["namespaceSelector"], namespace)
        and all(
            CONDITIONS[" ".join(each["expression"].split())](request) for each in entry["matchConditions"]
        )
    ]


OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def selects(selector: Object, labels: Mapping[str, str]) -> bool:
    """Evaluate a metav1.LabelSelector, as far as ours go."""
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        OPERATORS[each["operator"]](labels.get(each["key"]), each.get("values", ()))
        for each in selector.get("matchExpressions", ())
    )


def ours(made: Object) -> dict[str, str]:
    """Return the annotations that are for us."""
    annotations = made["metadata"].get("annotations", {}).items()
    return {key: value for key, value in annotations if key.startswith("numalign.io/") or key == VOLCANO}


def annotated(request: Request) -> bool:
    return bool(ours(request.object))


def annotated_or_tolerating(request: Request) -> bool:
    tolerations = request.object["spec"].get("tolerations", [])
    return annotated(request) or any(each.get("key") in taints.KEYS for each in tolerations)


def changed(request: Request) -> bool:
    is_new = request.operation == "CREATE" or "spec" not in request.object
    old = request.old.get("metadata", {}).get("annotations", {})
    anew = any(old.get(key) != value for key, value in ours(request.object).items())
    return is_new or request.object["spec"] != request.old["spec"] or anew


def independent(request: Request) -> bool:
    owners = request.object["metadata"].get("ownerReferences", [])
    known = (each for each in owners if each["apiVersion"].startswith(("apps/", "batch/")))
    return not any(each.get("controller") for each in known)


CONDITIONS: Mapping[str, Callable[[Request], bool]] = {
    "!('system:nodes' in request.userInfo.groups)": lambda request: "system:nodes" not in request.groups,
    "has(object.metadata.annotations) && object.metadata.annotations.exists(key,"
    " key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy')": annotated,
    "(has(object.metadata.annotations) && object.metadata.annotations.exists(key,"
    " key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy')) ||"
    " (has(object.spec.tolerations) && object.spec.tolerations.exists(toleration, has(toleration.key) &&"
    f" toleration.key in {[*taints.KEYS]}))": annotated_or_tolerating,
    "request.operation == 'CREATE' || !has(object.spec) || object.spec != oldObject.spec ||"
    " (has(object.metadata.annotations) && object.metadata.annotations.exists(key,"
    " (key.startsWith('numalign.io/') || key == 'volcano.sh/numa-topology-policy') &&"
    " !(has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations &&"
    " oldObject.metadata.annotations[key] == object.metadata.annotations[key])))": changed,
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(owner,"
    " has(owner.controller) && owner.controller &&"
    " (owner.apiVersion.startsWith('apps/') || owner.apiVersion.startsWith('batch/')))": independent,
}
"""Conditions are CEL, for which there is no interpreter here: each of ours, with what means the same."""

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
