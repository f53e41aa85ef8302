"""What is installed: objects that Kubernetes knows, with no more rights and privileges than it takes."""

import asyncio
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from controller.settings import ControllerSettings
from numalign.kube.decode import placement_records
from numalign.runtime import health, server, settings
from tests.deploy.render import (
    DEPLOY,
    GUARDS,
    MANIFESTS,
    NAMESPACE,
    PARTS,
    Object,
    everything,
    identities,
    objects,
    parsed,
)
from webhook.settings import WebhookSettings

EVERYTHING = identities(everything())
DEPLOYMENTS = {name: each for (kind, name), each in EVERYTHING.items() if kind == "Deployment"}
FOLDERS = {".": MANIFESTS} | {part: MANIFESTS / part for part in (*GUARDS, *PARTS)}

SHIPPED = identities(objects())
DEPLOYMENT = SHIPPED["Deployment", "numalign-webhook"]
POD = DEPLOYMENT["spec"]["template"]["spec"]
[CONTAINER] = POD["containers"]
PROJECT = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]

# The oldest that the chart admits, and the newest whose schemas there are.
KUBERNETES = ("1.28", "1.37")
CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}
GUARDING = identities([each for folder in GUARDS for each in objects(MANIFESTS / folder)])


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_every_object_is_one_that_kubernetes_knows(kind: str, name: str, version: str) -> None:
    if (kind, name) in GUARDING and version == KUBERNETES[0]:
        # Where they are not known, their folder is not applied, and helm leaves them out.
        version = "1.30"
    kubernetes_validate.validate(EVERYTHING[kind, name], version, strict=True)


def test_a_misspelled_field_would_be_found() -> None:
    broken = DEPLOYMENT | {"spec": DEPLOYMENT["spec"] | {"replicsa": 2}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replicsa"):
        kubernetes_validate.validate(broken, KUBERNETES[-1], strict=True)


def test_every_object_stands_once_and_where_it_belongs() -> None:
    assert len(EVERYTHING) == len(everything())
    for (kind, _), each in EVERYTHING.items():
        wanted = None if kind in CLUSTER_WIDE else NAMESPACE
        assert each["metadata"].get("namespace") == wanted


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
async def test_kustomize_makes_the_same_of_the_folder(kubectl: str, folder: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        kubectl, "kustomize", str(folder), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    assert identities(parsed(said.decode())) == identities(objects(folder))


async def test_whoever_pushed_the_image_elsewhere_changes_one_line(kubectl: str, tmp_path: Path) -> None:
    for file in MANIFESTS.glob("*.yaml"):
        text = file.read_text()
        (tmp_path / file.name).write_text(
            text.replace("newName: numalign-webhook", "newName: example.com/numalign-webhook")
        )
    process = await asyncio.create_subprocess_exec(
        kubectl, "kustomize", str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    images = {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in parsed(said.decode())
        if each["kind"] == "Deployment"
    }
    assert images == {f"example.com/numalign-webhook:{PROJECT['version']}"}


# ---- rights

Right = tuple[str, str, str, str]
"""Group, resource, verb, name (empty for any)."""


def rights(role: Object) -> Iterator[Right]:
    for rule in role["rules"]:
        yield from product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames", [""])
        )


READS = [
    *(("", "nodes", verb, "") for verb in ("list", "watch")),
    *(("topology.node.k8s.io", "noderesourcetopologies", verb, "") for verb in ("list", "watch")),
]


def test_the_webhook_reads_and_writes_nothing() -> None:
    """It answers whoever calls: what it holds is what whoever takes it over gets."""
    cluster_wide = Counter(rights(SHIPPED["ClusterRole", "numalign-webhook"]))
    assert cluster_wide == Counter(
        [
            *READS,
            *(("resource.k8s.io", "deviceclasses", verb, "") for verb in ("list", "watch")),
            *(("", kind, verb, "") for kind in ("namespaces", "pods") for verb in ("list", "watch")),
        ]
    )
    assert Counter(rights(SHIPPED["Role", "numalign-webhook"])) == Counter(
        [
            ("", "secrets", "get", "numalign-webhook-tls"),
            *(("", "configmaps", verb, "numalign-shapes") for verb in ("list", "watch")),
        ]
    )


def test_the_controller_writes_labels_bundles_shapes_its_secret_and_its_lease_and_nothing_else() -> None:
    registration = "admissionregistration.k8s.io"
    configurations = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    assert Counter(rights(SHIPPED["ClusterRole", "numalign-controller"])) == Counter(
        [
            *READS,
            ("", "nodes", "patch", ""),
            *(
                (registration, kind, verb, "zz-numalign")
                for kind in configurations
                for verb in ("get", "patch")
            ),
        ]
    )
    assert Counter(rights(SHIPPED["Role", "numalign-controller"])) == Counter(
        [
            ("", "secrets", "create", ""),
            *(("", "secrets", verb, "numalign-webhook-tls") for verb in ("get", "update")),
            ("", "configmaps", "create", ""),
            *(("", "configmaps", verb, "numalign-shapes") for verb in ("get", "update")),
            ("coordination.k8s.io", "leases", "create", ""),
            *(("coordination.k8s.io", "leases", verb, "numalign-controller") for verb in ("get", "update")),
        ]
    )


def test_what_roles_cannot_say_of_the_controller_a_policy_says() -> None:
    spec = GUARDING["ValidatingAdmissionPolicy", "numalign-controller"]["spec"]
    [condition] = spec["matchConditions"]
    assert f"'system:serviceaccount:{NAMESPACE}:numalign-controller'" in condition["expression"]
    guarded = {
        resource for rule in spec["matchConstraints"]["resourceRules"] for resource in rule["resources"]
    }
    writing = {"create", "update", "patch", "delete"}
    roles = [SHIPPED[kind, "numalign-controller"] for kind in ("ClusterRole", "Role")]
    assert {resource for role in roles for _, resource, verb, _ in rights(role) if verb in writing} == guarded


def test_the_annotations_that_are_read_are_those_that_are_guarded() -> None:
    spec = GUARDING["ValidatingAdmissionPolicy", "numalign-records"]["spec"]
    [condition], [rule] = spec["matchConditions"], spec["matchConstraints"]["resourceRules"]
    [changed] = [each["expression"] for each in spec["variables"] if each["name"] == "changed"]
    assert {*re.findall(r"'([^']+)'", changed)} == placement_records.KEYS
    assert re.findall(r"'([^']+)'", condition["expression"]) == [
        f"system:serviceaccount:{NAMESPACE}:numalign-scorer"
    ]
    assert (rule["resources"], rule["operations"]) == (["pods", "pods/*", "bindings"], ["CREATE", "UPDATE"])


@pytest.mark.parametrize("name", ["numalign-controller", "numalign-records"])
def test_what_a_policy_forbids_is_denied(name: str) -> None:
    assert GUARDING["ValidatingAdmissionPolicy", name]["spec"]["failurePolicy"] == "Fail"
    binding = GUARDING["ValidatingAdmissionPolicyBinding", name]
    assert binding["spec"] == {"policyName": name, "validationActions": ["Deny"]}


OUR_ROLES = [(kind, name) for kind, name in EVERYTHING if kind in {"Role", "ClusterRole"}]


@pytest.mark.parametrize(("role", "name"), OUR_ROLES)
def test_rights_are_bound_to_the_account_of_the_pods(role: str, name: str) -> None:
    binding = EVERYTHING[f"{role}Binding", name]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
    account = DEPLOYMENTS[name]["spec"]["template"]["spec"]["serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]


@pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_no_other_pod_of_the_namespace_gets_a_token_by_default(deployment: Object) -> None:
    pod = deployment["spec"]["template"]["spec"]
    assert EVERYTHING["ServiceAccount", pod["serviceAccountName"]]["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is True


def test_every_program_has_an_account_of_its_own() -> None:
    accounts = [each["spec"]["template"]["spec"]["serviceAccountName"] for each in DEPLOYMENTS.values()]
    assert len(set(accounts)) == len(accounts)


# ---- the pod


@pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_the_pod_is_as_restricted_as_pod_security_can_ask(deployment: Object) -> None:
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod.keys().isdisjoint({"hostNetwork", "hostPID", "hostIPC"})
    assert {"emptyDir", "configMap", "name"} >= {key for volume in pod["volumes"] for key in volume}
    labels = SHIPPED["Namespace", NAMESPACE]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", ["numalign-webhook", "numalign-controller", "numalign-scorer"])
def test_what_is_written_in_passing_stays_in_memory_and_is_bounded(name: str) -> None:
    pod = DEPLOYMENTS[name]["spec"]["template"]["spec"]
    [volume], [container] = pod["volumes"], pod["containers"]
    [mount] = container["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": "/tmp"}  # noqa: S108 the container's own
    assert volume["emptyDir"]["medium"] == "Memory"
    assert volume["emptyDir"]["sizeLimit"]


def test_the_image_is_pinned_to_the_version_of_the_program() -> None:
    assert CONTAINER["image"] == f"numalign-webhook:{PROJECT['version']}"


def test_its_size_is_told_and_bounded() -> None:
    assert CONTAINER["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"memory": "512Mi"},
    }


def test_every_argument_is_a_setting_that_the_program_takes() -> None:
    loaded = settings.load(WebhookSettings, argv=CONTAINER["args"], environ={})
    assert loaded.settings.tls_secret == "numalign-webhook-tls"  # noqa: S105 its name
    assert loaded.settings.service == SHIPPED["Service", "numalign-webhook"]["metadata"]["name"]
    opened = [port["containerPort"] for port in CONTAINER["ports"]]
    assert [loaded.settings.port, loaded.settings.metrics_port] == opened


def test_the_controller_makes_what_the_webhook_serves() -> None:
    [container] = DEPLOYMENTS["numalign-controller"]["spec"]["template"]["spec"]["containers"]
    loaded = settings.load(ControllerSettings, argv=container["args"], environ={}).settings
    webhook = settings.load(WebhookSettings, argv=CONTAINER["args"], environ={}).settings
    assert (loaded.tls_secret, loaded.names_in("x")) == (webhook.tls_secret, webhook.names_in("x"))
    assert loaded.webhook_configuration == "zz-numalign"
    assert container["image"] == CONTAINER["image"]
    assert container["command"] == ["/opt/numalign/bin/numalign-controller"]
    [port] = container["ports"]
    assert (port["name"], port["containerPort"]) == ("metrics", loaded.metrics_port)


def test_it_is_given_the_time_to_end_that_it_takes() -> None:
    loaded = settings.load(WebhookSettings, argv=CONTAINER["args"], environ={}).settings
    assert POD["terminationGracePeriodSeconds"] > loaded.drain_seconds + server.GRACE_SECONDS


@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", health.HEALTH), ("readinessProbe", health.READINESS), ("livenessProbe", health.HEALTH)],
)
def test_probes_ask_what_is_always_answered(probe: str, path: str) -> None:
    asked = CONTAINER[probe]["httpGet"]
    assert asked == {"path": path, "port": "metrics", "scheme": "HTTP"}


def test_the_service_leads_to_the_pods() -> None:
    spec = SHIPPED["Service", "numalign-webhook"]["spec"]
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"].items() <= labels.items()
    [port], [open_port, _] = spec["ports"], CONTAINER["ports"]
    assert (port["port"], port["targetPort"]) == (443, open_port["name"])


# ---- two of them, always


def selector_of(each: Object, *path: str) -> Any:  # noqa: ANN401 whatever stands there
    for step in path:
        each = each[step]
    return each


SELECTING = {
    "Deployment": ("spec", "selector", "matchLabels"),
    "PodDisruptionBudget": ("spec", "selector", "matchLabels"),
    "NetworkPolicy": ("spec", "podSelector", "matchLabels"),
    "Service": ("spec", "selector"),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in EVERYTHING if kind in SELECTING])
def test_whatever_speaks_of_pods_means_those_of_its_name(kind: str, name: str) -> None:
    labels = DEPLOYMENTS[name]["spec"]["template"]["metadata"]["labels"]
    assert selector_of(EVERYTHING[kind, name], *SELECTING[kind]) == labels


def test_no_two_deployments_mean_the_same_pods() -> None:
    labels = [each["spec"]["selector"]["matchLabels"] for each in DEPLOYMENTS.values()]
    assert all(mine == theirs or not mine.items() <= theirs.items() for mine in labels for theirs in labels)
    assert len({tuple(each.items()) for each in labels}) == len(DEPLOYMENTS)


@pytest.mark.parametrize("name", ["numalign-webhook", "numalign-controller"])
def test_one_replica_may_go_and_one_stays(name: str) -> None:
    spec = DEPLOYMENTS[name]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert SHIPPED["PodDisruptionBudget", name]["spec"]["minAvailable"] == 1


@pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_replicas_are_spread_where_they_can_be(deployment: Object) -> None:
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    keys = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert [each["topologyKey"] for each in spread] == keys
    assert {each["whenUnsatisfiable"] for each in spread} == {"ScheduleAnyway"}
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert all(each["labelSelector"]["matchLabels"] == labels for each in spread)


@pytest.mark.parametrize("deployment", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_clouds_that_count_critical_pods_are_told_of_ours(deployment: Object) -> None:
    [scope] = SHIPPED["ResourceQuota", "numalign-critical-pods"]["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [deployment["spec"]["template"]["spec"]["priorityClassName"]]


def test_the_network_lets_in_calls_and_watchers_and_lets_out_only_questions_to_the_api_server() -> None:
    spec = SHIPPED["NetworkPolicy", "numalign-webhook"]["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": port["containerPort"]}]} for port in CONTAINER["ports"]
    ]
    let_out = {(port["protocol"], port["port"]) for rule in spec["egress"] for port in rule["ports"]}
    assert let_out == {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443)}


# ---- the definition that exporters bring too


def test_the_definition_of_topologies_is_not_installed_with_the_webhook() -> None:
    """Whoever uninstalled the webhook would delete every topology that exporters wrote."""
    assert "CustomResourceDefinition" not in {kind for kind, _ in SHIPPED}


def test_the_definition_of_topologies_stands_by_itself() -> None:
    [definition] = parsed((DEPLOY / "crd" / "noderesourcetopologies.yaml").read_text())
    assert definition["metadata"]["name"] == "noderesourcetopologies.topology.node.k8s.io"
    kubernetes_validate.validate(json.loads(json.dumps(definition)), KUBERNETES[-1], strict=True)
