"""The plain manifests: objects that Kubernetes knows, with no more rights and privileges than needed."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from agent.options import Publish
from numalign.kube import lease
from numalign.kube.decode import kubelet_reports, placements
from numalign.model.intent import DECISIVE, PINNED_AT, PLACEMENT_OBSERVED, Policy
from numalign.runtime import server
from scorer.settings import ReserveAt, ScorerSettings
from tests.unit.deploy.fields import PROGRAMS, field, walk
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

EVERYTHING = Installation(everything())
DEPLOYMENTS = EVERYTHING.of_kind("Deployment")
OF_PODS = EVERYTHING.of_pods
FOLDERS = {".": MANIFESTS} | {part: MANIFESTS / part for part in (*GUARDS, *PARTS)}
GUARDING = installed(*GUARDS)
SHIPPED = installed(".")
AGENT = "numalign-agent"

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
CONFINED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_kubernetes_knows_the_object(kind: str, name: str, version: str) -> None:
    if (kind, name) in GUARDING and version == KUBERNETES[0]:
        # Helm leaves them out where they are unknown.
        version = "1.30"
    kubernetes_validate.validate(EVERYTHING[kind, name], version, strict=True)


def test_objects_are_unique_and_in_their_namespace() -> None:
    assert len(EVERYTHING) == len(everything())
    of_agents = installed("agent").keys()
    for (kind, name), each in EVERYTHING.items():
        home = AGENT_NAMESPACE if (kind, name) in of_agents else NAMESPACE
        assert each["metadata"].get("namespace") == (None if kind in CLUSTER_WIDE else home)


@pytest.mark.parametrize("part", ["agent", "scorer", "scheduler"])
def test_part_is_not_installed_by_default(part: str) -> None:
    """An agent is root on every node, and a scorer may bind pods."""
    assert SHIPPED.keys().isdisjoint(installed(part).keys())
    # Whoever uninstalled the webhook would delete every topology that exporters wrote.
    assert "CustomResourceDefinition" not in {kind for kind, _ in SHIPPED}


def test_definition_of_topologies_is_valid() -> None:
    [definition] = parsed((DEPLOY / "crd" / "noderesourcetopologies.yaml").read_text())
    assert definition["metadata"]["name"] == "noderesourcetopologies.topology.node.k8s.io"
    kubernetes_validate.validate(json.loads(json.dumps(definition)), KUBERNETES[-1], strict=True)


@pytest.mark.parametrize("folder", FOLDERS)
async def test_kustomize_makes_the_same_objects(kubectl: str, folder: str) -> None:
    assert Installation(parsed(await run(kubectl, "kustomize", FOLDERS[folder]))) == installed(folder)


async def test_one_line_changes_the_image(kubectl: str, tmp_path: Path) -> None:
    for file in MANIFESTS.glob("*.yaml"):
        text = file.read_text().replace("newName: numalign-", "newName: example.com/numalign-")
        (tmp_path / file.name).write_text(text)
    found = Installation(parsed(await run(kubectl, "kustomize", tmp_path)))
    images = {found.container(name)["image"].rpartition(":")[0] for name in found.of_kind("Deployment")}
    assert images == {"example.com/numalign-webhook"}


# ---- fields on which programs, kubelets and schedulers rely

LABELS = {
    name: {"app.kubernetes.io/name": "numalign", "app.kubernetes.io/component": name}
    for name in ("scheduler", "scorer")
}
NEVER = 2**31 - 1
"""What Kubernetes takes for no deadline (pkg/controller/deployment/util of k8s.io/kubernetes)."""
ROOT_FOLDER, SOCKETS = "/var/lib/kubelet", "/var/lib/kubelet/pod-resources"
ONE_OF_TWO_MAY_GO = {
    "spec replicas": 2, "spec strategy rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}
}  # fmt: skip
FIELDS: list[tuple[str, Mapping[str, Any]]] = [
    # the object, and its fields
    ("Deployment webhook", ONE_OF_TWO_MAY_GO),
    ("Deployment controller", ONE_OF_TWO_MAY_GO),
    *((f"PodDisruptionBudget {name}", {"spec minAvailable": 1}) for name in
        ("webhook", "controller", "scheduler")),
    ("Deployment scheduler", {"spec replicas": 2}),
    # One is ready: to keep one available would be to keep the old leader forever.
    ("Deployment scorer", {
        "spec replicas": 2, "spec strategy rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"},
        "spec progressDeadlineSeconds": NEVER,
    }),
    ("PodDisruptionBudget scorer", {"": None}),
    ("container webhook", {"resources limits": {"memory": "512Mi"}}),
    ("ResourceQuota critical-pods",
     {"spec scopeSelector matchExpressions 0 values": ["system-cluster-critical"]}),
    ("Namespace system", {"metadata labels pod-security.kubernetes.io/enforce": "restricted"}),
    ("Service webhook", {"spec ports 0 port": 443, "spec ports 0 targetPort": "https"}),
    ("Service scorer", {"spec ports 0 port": 80, "spec ports 0 targetPort": "http"}),
    ("settings webhook", {"tls_secret": "numalign-webhook-tls", "service": "numalign-webhook", "port": 8443}),
    ("settings controller",
     {"tls_secret": "numalign-webhook-tls", "webhook_configuration": "zz-numalign"}),
    ("settings scorer", {"reserve_at": ReserveAt.BIND, "insecure_http": True, "port": 8443}),
    # What calls the scorer can have pods bound to nodes of its choice.
    ("NetworkPolicy scorer", {"spec ingress": [
        {"from": [{"podSelector": {"matchLabels": LABELS["scheduler"]}}],
         "ports": [{"protocol": "TCP", "port": 8443}]},
        {"ports": [{"protocol": "TCP", "port": 8080}]},
    ]}),
    ("NetworkPolicy webhook", {
        "spec policyTypes": ["Ingress", "Egress"], "spec ingress * ports 0 port": [8443, 8080],
        "spec ingress * from": [None, None],
    }),
    ("NetworkPolicy agent", {"spec ingress": [{"ports": [{"protocol": "TCP", "port": 8080}]}]}),
    ("container scheduler",
     {"volumeMounts 0 mountPath": "/etc/numalign", "args 0": "--config=/etc/numalign/scheduler.yaml"}),
    # A scheduler that ignored a refused bind would bind the pod itself.
    ("extender", {
        "urlPrefix": f"http://numalign-scorer.{NAMESPACE}.svc", "enableHTTPS": None, "bindVerb": "bind",
        "ignorable": False, "nodeCacheCapable": True,
    }),
    # Root for the socket, without its rights, on every node. A folder of a wrong name must not be made as an
    # empty one. The token is short-lived.
    ("pod agent", {
        "securityContext": {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "initContainers": None,
        "volumes name=kubelet hostPath": {"path": ROOT_FOLDER, "type": "Directory"},
        "volumes name=pod-resources hostPath": {"path": SOCKETS, "type": "Directory"},
        "volumes name=nothing emptyDir medium": "Memory",
        "automountServiceAccountToken": False,
        "volumes name=token projected sources 0":
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        "volumes name=token projected sources 1 configMap items * path": ["ca.crt"],
        "volumes name=token projected sources 2 downwardAPI items * path": ["namespace"],
        "tolerations": [{"operator": "Exists"}], "nodeSelector": {"kubernetes.io/os": "linux"},
        "priorityClassName": "system-node-critical",
    }),
    # A volume that the kubelet unmounts must not be held, and the token is where every client looks for it.
    # Without a limit of CPUs, a pod is not guaranteed and takes no exclusive ones.
    ("container agent", {
        "securityContext": CONFINED,
        "volumeMounts name=kubelet readOnly": True,
        "volumeMounts name=kubelet mountPropagation": "HostToContainer",
        "volumeMounts name=pod-resources readOnly": True,
        "volumeMounts name=token mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "env name=NODE_NAME valueFrom fieldRef fieldPath": "spec.nodeName",
        "env name=HOST_IP valueFrom fieldRef fieldPath": "status.hostIP",
        "resources limits": {"memory": "128Mi"},
    }),
    ("ServiceAccount agent", {"automountServiceAccountToken": False}),
    ("settings agent", {
        "node_name": "$(NODE_NAME)", "node_address": "$(HOST_IP)", "publish": Publish.IF_ABSENT,
        "annotate_pods": False,
    }),
    ("DaemonSet agent", {
        "spec updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    }),
    ("ResourceQuota agent", {"spec scopeSelector matchExpressions 0 values": ["system-node-critical"]}),
    ("Namespace agent", {"metadata labels pod-security.kubernetes.io/enforce": "privileged"}),
]  # fmt: skip


@pytest.mark.parametrize(("of", "fields"), FIELDS, ids=[of for of, _ in FIELDS])
def test_field_has_its_value(of: str, fields: Mapping[str, Any]) -> None:
    assert {path: field(EVERYTHING, of, path) for path in fields} == fields


def test_mounted_paths_are_those_of_the_agents_settings() -> None:
    state = field(EVERYTHING, "settings agent", "kubelet_state")
    socket = field(EVERYTHING, "settings agent", "podresources_socket")
    mounts = field(EVERYTHING, "container agent", "volumeMounts")
    assert str(state) == walk(mounts, "name=kubelet mountPath")
    # The folder: after a restart of the kubelet the socket is another file.
    assert (str(socket.parent), socket.name) == (walk(mounts, "name=pod-resources mountPath"), "kubelet.sock")
    covered = [mount for mount in mounts if mount["name"] == "nothing"]
    assert {mount["mountPath"] for mount in covered} == {
        str(state / name) for name in ("pki", "plugins", "plugins_registry", "pods")
    }
    assert all(mount["readOnly"] for mount in covered)
    assert not any(mount["mountPath"].startswith("/sys") for mount in mounts)


@pytest.mark.parametrize("name", ["webhook", "scorer"])
def test_program_has_time_to_drain(name: str) -> None:
    grace = field(EVERYTHING, f"pod {name}", "terminationGracePeriodSeconds")
    assert grace > field(EVERYTHING, f"settings {name}", "drain_seconds") + server.GRACE_SECONDS


@pytest.mark.parametrize("name", ["webhook", "controller", "scorer", "agent"])
def test_port_of_metrics_is_open(name: str) -> None:
    port = field(EVERYTHING, f"container {name}", "ports name=metrics containerPort")
    assert port == field(EVERYTHING, f"settings {name}", "metrics_port")


def test_readiness_moves_before_the_lease_does() -> None:
    probe = EVERYTHING.container("numalign-scorer")["readinessProbe"]
    unready = probe["periodSeconds"] * probe["failureThreshold"]
    assert unready < lease.LEASE_DURATION_SECONDS - lease.RENEW_DEADLINE_SECONDS


def test_scheduler_waits_longer_than_a_bind() -> None:
    configuration = EVERYTHING.scheduler_configuration()
    timeout = configuration["extenders"][0]["httpTimeout"]
    waits = EVERYTHING.settings("numalign-scorer", ScorerSettings).bind_wait_seconds
    assert float(timeout.removesuffix("s")) >= waits + 1
    assert [profile["schedulerName"] for profile in configuration["profiles"]] == ["numalign-scheduler"]
    assert configuration["leaderElection"] == {
        "leaderElect": True,
        "resourceNamespace": NAMESPACE,
        "resourceName": "numalign-scheduler",
    }


API_SERVER = {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443)}


@pytest.mark.parametrize(
    ("name", "more"), [("webhook", set()), ("scorer", set()), ("scheduler", {8443}), ("agent", {10250})]
)
def test_program_may_call_the_api_server_and_its_peers(name: str, more: set[int]) -> None:
    egress = EVERYTHING["NetworkPolicy", f"numalign-{name}"]["spec"]["egress"]
    out = {(port["protocol"], port["port"]) for rule in egress for port in rule["ports"]}
    assert out == API_SERVER | {("TCP", port) for port in more}
    if name == "scheduler":
        [peer] = [rule["to"] for rule in egress if "to" in rule]
        assert peer == [{"podSelector": {"matchLabels": LABELS["scorer"]}}]


def test_policy_limits_what_the_controller_may_write() -> None:
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


def test_annotations_that_are_read_are_guarded() -> None:
    spec = GUARDING["ValidatingAdmissionPolicy", "numalign-records"]["spec"]
    [condition], [rule] = spec["matchConditions"], spec["matchConstraints"]["resourceRules"]
    [changed] = [entry["expression"] for entry in spec["variables"] if entry["name"] == "changed"]
    assert {*re.findall(r"'([^']+)'", changed)} == {*placements.KEYS, PINNED_AT}
    assert re.findall(r"'([^']+)'", condition["expression"]) == [
        f"system:serviceaccount:{NAMESPACE}:numalign-scorer"
    ]
    assert (rule["resources"], rule["operations"]) == (["pods", "pods/*", "bindings"], ["CREATE", "UPDATE"])


def test_agents_write_what_only_they_may_write() -> None:
    policies = {
        name: GUARDING["ValidatingAdmissionPolicy", name]["spec"] for name in (AGENT, "numalign-topologies")
    }
    for each in policies.values():
        [condition] = each["matchConditions"]
        assert f"'system:serviceaccount:{AGENT_NAMESPACE}:{AGENT}'" in condition["expression"]
    keys = {kubelet_reports.MACHINE, kubelet_reports.PLACEMENTS, kubelet_reports.OBSERVED_AT}
    published = walk(policies["numalign-topologies"], "variables name=said expression")
    assert {*re.findall(r"'([^']+)'", published)} == keys
    own = walk(policies[AGENT], "variables name=mayAnnotate expression")
    assert {*re.findall(r"'(numalign.io/[^']+)'", own)} == {*keys, PLACEMENT_OBSERVED}
    judged = {
        each for rule in policies[AGENT]["matchConstraints"]["resourceRules"] for each in rule["resources"]
    }
    written = {
        resource
        for rule in EVERYTHING["ClusterRole", AGENT]["rules"]
        if {"create", "update", "patch", "delete"} & {*rule["verbs"]}
        for resource in rule["resources"]
    }
    # With the patch of pods, which comes with agent.annotatePods.
    assert judged == {*written, "pods", "pods/*"}


@pytest.mark.parametrize("name", GUARDING.of_kind("ValidatingAdmissionPolicy"))
def test_policy_denies_and_fails_closed(name: str) -> None:
    assert GUARDING["ValidatingAdmissionPolicy", name]["spec"]["failurePolicy"] == "Fail"
    binding = GUARDING["ValidatingAdmissionPolicyBinding", name]
    assert (binding["spec"]["policyName"], binding["spec"]["validationActions"]) == (name, ["Deny"])


def test_policy_of_levels_matches_the_webhook() -> None:
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
    *webhooks, enforces = enforcing["namespaceSelector"]["matchExpressions"]
    assert where == webhooks
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


def test_roles_are_bound_and_accounts_are_not_shared() -> None:
    roles = {(f"{kind}Binding", name) for kind, name in EVERYTHING if kind in {"Role", "ClusterRole"}}
    assert roles <= {*BINDINGS}
    accounts = {EVERYTHING.pod(name)["serviceAccountName"] for name in OF_PODS}
    assert len(accounts) == len(OF_PODS)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_pod_is_restricted_and_spread(name: str) -> None:
    pod, container = EVERYTHING.pod(name), EVERYTHING.container(name)
    # No other pod of the namespace gets a token by default.
    assert EVERYTHING["ServiceAccount", pod["serviceAccountName"]]["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is True
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == CONFINED
    assert pod.keys().isdisjoint({"hostNetwork", "hostPID", "hostIPC"})
    assert {"emptyDir", "configMap", "name"} >= {key for volume in pod["volumes"] for key in volume}
    # Replicas are spread where they can be, and clouds that count critical pods are told of ours.
    spread = pod["topologySpreadConstraints"]
    keys = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert [entry["topologyKey"] for entry in spread] == keys
    assert {entry["whenUnsatisfiable"] for entry in spread} == {"ScheduleAnyway"}
    own = DEPLOYMENTS[name]["spec"]["template"]["metadata"]["labels"]
    assert all(entry["labelSelector"]["matchLabels"] == own for entry in spread)
    assert pod["priorityClassName"] == "system-cluster-critical"


@pytest.mark.parametrize("name", ["numalign-webhook", "numalign-controller", "numalign-scorer"])
def test_program_writes_only_to_memory(name: str) -> None:
    [volume], container = EVERYTHING.pod(name)["volumes"], EVERYTHING.container(name)
    [mount] = container["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": "/tmp"}  # noqa: S108 the container's own
    assert volume["emptyDir"]["medium"] == "Memory"
    assert volume["emptyDir"]["sizeLimit"]
    assert container["image"].startswith("numalign-webhook:")


@pytest.mark.parametrize("name", PROGRAMS)
def test_probes_use_the_port_of_metrics(name: str) -> None:
    paths = {"startup": server.HEALTH, "readiness": server.READINESS, "liveness": server.HEALTH}
    for probe, path in paths.items():
        request = EVERYTHING.container(name)[f"{probe}Probe"]["httpGet"]
        assert request == {"path": path, "port": "metrics", "scheme": "HTTP"}


SELECTING = {
    "Deployment": "spec selector matchLabels",
    "DaemonSet": "spec selector matchLabels",
    "PodDisruptionBudget": "spec selector matchLabels",
    "NetworkPolicy": "spec podSelector matchLabels",
    "Service": "spec selector",
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, name in EVERYTHING if kind in SELECTING])
def test_object_selects_the_pods_of_its_name(kind: str, name: str) -> None:
    labels = OF_PODS[name]["spec"]["template"]["metadata"]["labels"]
    assert walk(EVERYTHING[kind, name], SELECTING[kind]) == labels


def test_no_two_programs_select_the_same_pods() -> None:
    labels = [each["spec"]["selector"]["matchLabels"] for each in OF_PODS.values()]
    assert all(mine == theirs or not mine.items() <= theirs.items() for mine in labels for theirs in labels)
    assert len({tuple(each.items()) for each in labels}) == len(OF_PODS)
