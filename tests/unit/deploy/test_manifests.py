"""What is installed: objects that Kubernetes knows, with no more rights and privileges than it takes."""

import json
import operator
import re
import tomllib
from functools import reduce
from pathlib import Path

import kubernetes_validate
import pytest

from controller.settings import ControllerSettings
from numalign.kube.decode import placement_records
from numalign.model.intent import DECISIVE, PINNED_AT, Policy
from numalign.runtime import health, server
from tools.generate.manifests import (
    AGENT_NAMESPACE,
    DEPLOY,
    GUARDS,
    MANIFESTS,
    NAMESPACE,
    PARTS,
    Installation,
    everything,
    installed,
    parsed,
    run,
)
from webhook.settings import WebhookSettings

EVERYTHING = Installation(everything())
DEPLOYMENTS = EVERYTHING.of_kind("Deployment")
OF_PODS = EVERYTHING.of_pods
FOLDERS = {".": MANIFESTS} | {part: MANIFESTS / part for part in (*GUARDS, *PARTS)}
GUARDING = installed(*GUARDS)

SHIPPED = installed(".")
DEPLOYMENT = SHIPPED["Deployment", "numalign-webhook"]
POD = SHIPPED.pod("numalign-webhook")
CONTAINER = SHIPPED.container("numalign-webhook")
WEBHOOK = SHIPPED.settings("numalign-webhook", WebhookSettings)
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


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_every_object_is_one_that_kubernetes_knows(kind: str, name: str, version: str) -> None:
    if (kind, name) in GUARDING and version == KUBERNETES[0]:
        # Where they are not known, their folder is not applied, and helm leaves them out.
        version = "1.30"
    kubernetes_validate.validate(EVERYTHING[kind, name], version, strict=True)


def test_every_object_stands_once_and_where_it_belongs() -> None:
    assert len(EVERYTHING) == len(everything())
    of_agents = installed("agent").keys()
    for (kind, name), each in EVERYTHING.items():
        home = AGENT_NAMESPACE if (kind, name) in of_agents else NAMESPACE
        assert each["metadata"].get("namespace") == (None if kind in CLUSTER_WIDE else home)


async def kustomized(kubectl: str, folder: Path) -> Installation:
    return Installation(parsed(await run(kubectl, "kustomize", folder)))


@pytest.mark.parametrize("folder", FOLDERS)
async def test_kustomize_makes_the_same_of_the_folder(kubectl: str, folder: str) -> None:
    assert await kustomized(kubectl, FOLDERS[folder]) == installed(folder)


async def test_whoever_pushed_the_image_elsewhere_changes_one_line(kubectl: str, tmp_path: Path) -> None:
    for file in MANIFESTS.glob("*.yaml"):
        text = file.read_text().replace("newName: numalign-", "newName: example.com/numalign-")
        (tmp_path / file.name).write_text(text)
    found = await kustomized(kubectl, tmp_path)
    images = {found.container(name)["image"] for name in found.of_kind("Deployment")}
    assert images == {f"example.com/numalign-webhook:{PROJECT['version']}"}


# ---- rights


def test_what_roles_cannot_say_of_the_controller_a_policy_says() -> None:
    spec = GUARDING["ValidatingAdmissionPolicy", "numalign-controller"]["spec"]
    [condition] = spec["matchConditions"]
    assert f"'system:serviceaccount:{NAMESPACE}:numalign-controller'" in condition["expression"]
    guarded = [
        resource for rule in spec["matchConstraints"]["resourceRules"] for resource in rule["resources"]
    ]
    rules = [
        rule for kind in ("ClusterRole", "Role") for rule in SHIPPED[kind, "numalign-controller"]["rules"]
    ]
    writing = [rule for rule in rules if {"create", "update", "patch", "delete"} & {*rule["verbs"]}]
    # Nothing here lets it write these; the policy would keep it to what it is to do to them.
    by_values = {"pods", "pods/eviction", "policyreports", "clusterpolicyreports"}
    # Events change nothing.
    assert {resource for rule in writing for resource in rule["resources"]} - {"events"} == {
        *guarded
    } - by_values


def test_the_annotations_that_are_read_are_those_that_are_guarded() -> None:
    spec = GUARDING["ValidatingAdmissionPolicy", "numalign-records"]["spec"]
    [condition], [rule] = spec["matchConditions"], spec["matchConstraints"]["resourceRules"]
    [changed] = [entry["expression"] for entry in spec["variables"] if entry["name"] == "changed"]
    assert {*re.findall(r"'([^']+)'", changed)} == {*placement_records.KEYS, PINNED_AT}
    assert re.findall(r"'([^']+)'", condition["expression"]) == [
        f"system:serviceaccount:{NAMESPACE}:numalign-scorer"
    ]
    assert (rule["resources"], rule["operations"]) == (["pods", "pods/*", "bindings"], ["CREATE", "UPDATE"])


@pytest.mark.parametrize("name", GUARDING.of_kind("ValidatingAdmissionPolicy"))
def test_what_a_policy_forbids_is_denied(name: str) -> None:
    assert GUARDING["ValidatingAdmissionPolicy", name]["spec"]["failurePolicy"] == "Fail"
    binding = GUARDING["ValidatingAdmissionPolicyBinding", name]
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (name, ["Deny"])


def test_a_level_is_kept_where_the_webhook_enforces_it() -> None:
    """Which annotations decide, and by which words, is told twice."""
    spec = GUARDING["ValidatingAdmissionPolicy", "numalign-levels"]["spec"]
    expressions = {each["name"]: each["expression"] for each in spec["variables"]}
    assert {*re.findall(r"'([^']+/[^']+)'", expressions["weakened"])} == {*DECISIVE}
    assert re.findall(r"'([^']+)'", expressions["policies"]) == [*Policy]
    bound = GUARDING["ValidatingAdmissionPolicyBinding", "numalign-levels"]["spec"]["matchResources"]
    [enforcing] = [
        each
        for each in SHIPPED["ValidatingWebhookConfiguration", "zz-numalign"]["webhooks"]
        if each["name"] == "pods.enforce.numalign.io"
    ]
    levels = [level for level in Policy if level is not Policy.NONE]
    *where, last = bound["namespaceSelector"]["matchExpressions"]
    *there, enforces = enforcing["namespaceSelector"]["matchExpressions"]
    assert where == there
    assert (last["key"], last["values"]) == (enforces["key"], levels)


BINDINGS = [(kind, name) for kind, name in EVERYTHING if kind.endswith("RoleBinding")]


@pytest.mark.parametrize(("kind", "name"), BINDINGS)
def test_rights_are_bound_to_the_account_of_the_pods(kind: str, name: str) -> None:
    binding = EVERYTHING[kind, name]
    [subject] = binding["subjects"]
    accounts = {EVERYTHING.pod(each)["serviceAccountName"] for each in OF_PODS}
    account = subject["name"]
    assert account in accounts
    home = EVERYTHING["ServiceAccount", account]["metadata"]["namespace"]
    assert subject == {"kind": "ServiceAccount", "name": account, "namespace": home}
    if name in OF_PODS:
        role = kind.removesuffix("Binding")
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
        assert account == EVERYTHING.pod(name)["serviceAccountName"]


def test_every_role_is_bound_and_every_program_has_an_account_of_its_own() -> None:
    roles = {(f"{kind}Binding", name) for kind, name in EVERYTHING if kind in {"Role", "ClusterRole"}}
    assert roles <= {*BINDINGS}
    accounts = {EVERYTHING.pod(name)["serviceAccountName"] for name in OF_PODS}
    assert len(accounts) == len(OF_PODS)


# ---- the pod


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_is_as_restricted_as_pod_security_can_ask_and_stands_where_it_should(name: str) -> None:
    pod, container = EVERYTHING.pod(name), EVERYTHING.container(name)
    # No other pod of the namespace gets a token by default.
    assert EVERYTHING["ServiceAccount", pod["serviceAccountName"]]["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is True
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
    # Replicas are spread where they can be, and clouds that count critical pods are told of ours.
    spread = pod["topologySpreadConstraints"]
    keys = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert [entry["topologyKey"] for entry in spread] == keys
    assert {entry["whenUnsatisfiable"] for entry in spread} == {"ScheduleAnyway"}
    own = DEPLOYMENTS[name]["spec"]["template"]["metadata"]["labels"]
    assert all(entry["labelSelector"]["matchLabels"] == own for entry in spread)
    [scope] = SHIPPED["ResourceQuota", "numalign-critical-pods"]["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [pod["priorityClassName"]]


@pytest.mark.parametrize("name", ["numalign-webhook", "numalign-controller", "numalign-scorer"])
def test_what_is_written_in_passing_stays_in_memory_and_every_program_is_of_the_same_image(name: str) -> None:
    [volume], container = EVERYTHING.pod(name)["volumes"], EVERYTHING.container(name)
    [mount] = container["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": "/tmp"}  # noqa: S108 the container's own
    assert volume["emptyDir"]["medium"] == "Memory"
    assert volume["emptyDir"]["sizeLimit"]
    assert container["image"] == f"numalign-webhook:{PROJECT['version']}"
    if name != "numalign-webhook":
        assert container["command"] == [f"/opt/numalign/bin/{name}"]


def test_its_size_is_told_and_bounded() -> None:
    assert CONTAINER["resources"] == {
        "requests": {"cpu": "100m", "memory": "256Mi"},
        "limits": {"memory": "512Mi"},
    }


def test_every_argument_is_a_setting_that_the_program_takes() -> None:
    assert WEBHOOK.tls_secret == "numalign-webhook-tls"  # noqa: S105 its name
    assert WEBHOOK.service == SHIPPED["Service", "numalign-webhook"]["metadata"]["name"]
    opened = [port["containerPort"] for port in CONTAINER["ports"]]
    assert [WEBHOOK.port, WEBHOOK.metrics_port] == opened
    # It is given the time to end that it takes.
    assert POD["terminationGracePeriodSeconds"] > WEBHOOK.drain_seconds + server.GRACE_SECONDS


def test_the_controller_makes_what_the_webhook_serves() -> None:
    controller = SHIPPED.settings("numalign-controller", ControllerSettings)
    assert (controller.tls_secret, controller.names_in("x")) == (WEBHOOK.tls_secret, WEBHOOK.names_in("x"))
    assert controller.webhook_configuration == "zz-numalign"
    [port] = SHIPPED.container("numalign-controller")["ports"]
    assert (port["name"], port["containerPort"]) == ("metrics", controller.metrics_port)


@pytest.mark.parametrize(
    "name", ["numalign-webhook", "numalign-controller", "numalign-scorer", "numalign-agent"]
)
@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", health.HEALTH), ("readinessProbe", health.READINESS), ("livenessProbe", health.HEALTH)],
)
def test_probes_ask_what_is_always_answered(name: str, probe: str, path: str) -> None:
    """A replica that waits is alive."""
    asked = EVERYTHING.container(name)[probe]["httpGet"]
    assert asked == {"path": path, "port": "metrics", "scheme": "HTTP"}


def test_the_service_leads_to_the_pods() -> None:
    spec = SHIPPED["Service", "numalign-webhook"]["spec"]
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"].items() <= labels.items()
    [port], [open_port, _] = spec["ports"], CONTAINER["ports"]
    assert (port["port"], port["targetPort"]) == (443, open_port["name"])


# ---- two of them, always


SELECTING = {
    "Deployment": ("spec", "selector", "matchLabels"),
    "DaemonSet": ("spec", "selector", "matchLabels"),
    "PodDisruptionBudget": ("spec", "selector", "matchLabels"),
    "NetworkPolicy": ("spec", "podSelector", "matchLabels"),
    "Service": ("spec", "selector"),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in EVERYTHING if kind in SELECTING])
def test_whatever_speaks_of_pods_means_those_of_its_name(kind: str, name: str) -> None:
    labels = OF_PODS[name]["spec"]["template"]["metadata"]["labels"]
    assert reduce(operator.getitem, SELECTING[kind], EVERYTHING[kind, name]) == labels


def test_no_two_programs_mean_the_same_pods() -> None:
    labels = [each["spec"]["selector"]["matchLabels"] for each in OF_PODS.values()]
    assert all(mine == theirs or not mine.items() <= theirs.items() for mine in labels for theirs in labels)
    assert len({tuple(each.items()) for each in labels}) == len(OF_PODS)


@pytest.mark.parametrize("name", ["numalign-webhook", "numalign-controller"])
def test_one_replica_may_go_and_one_stays(name: str) -> None:
    spec = DEPLOYMENTS[name]["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert SHIPPED["PodDisruptionBudget", name]["spec"]["minAvailable"] == 1


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
