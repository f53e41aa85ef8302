"""The agent as it is installed: root for a socket's sake, and otherwise with as little as any program."""

import re

from agent.publish import Publish
from agent.settings import AgentSettings
from numalign.kube.decode import kubelet_reports
from numalign.model.intent import PLACEMENT_OBSERVED
from tools.generate.manifests import AGENT_NAMESPACE, MANIFESTS, Object, installed

SHIPPED, GUARDING = installed("agent"), installed("guard", "agent/guard")
NAME = "numalign-agent"
POD, CONTAINER = SHIPPED.pod(NAME), SHIPPED.container(NAME)
SPEC = SHIPPED["DaemonSet", NAME]["spec"]
VOLUMES = {volume["name"]: volume for volume in POD["volumes"]}
MOUNTS = CONTAINER["volumeMounts"]
ON_NODES = {name: volume["hostPath"] for name, volume in VOLUMES.items() if "hostPath" in volume}
ACCOUNT = f"system:serviceaccount:{AGENT_NAMESPACE}:{NAME}"
TOLD = SHIPPED.settings(NAME, AgentSettings)


def test_it_is_not_installed_with_the_webhook() -> None:
    """What runs as root on every node is there where somebody asked for it."""
    assert installed(".").keys().isdisjoint(SHIPPED.keys())


def test_it_is_root_and_may_do_nothing_that_root_may() -> None:
    assert POD["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert POD.keys().isdisjoint({"hostNetwork", "hostPID", "hostIPC", "initContainers"})


def test_of_the_node_it_sees_the_kubelets_folder_and_writes_nothing() -> None:
    assert {each["path"] for each in ON_NODES.values()} == {
        "/var/lib/kubelet",
        "/var/lib/kubelet/pod-resources",
    }
    # Never made: a folder of the wrong name would be an empty one.
    assert {each["type"] for each in ON_NODES.values()} == {"Directory"}
    mounted = [mount for mount in MOUNTS if mount["name"] in ON_NODES]
    assert len(mounted) == len(ON_NODES)
    assert all(mount["readOnly"] for mount in mounted)
    [state] = [mount for mount in mounted if mount["name"] == "kubelet"]
    # A volume that the kubelet unmounts must not be held by us.
    assert state["mountPropagation"] == "HostToContainer"
    assert str(TOLD.kubelet_state) == state["mountPath"]


def test_keys_and_what_pods_have_mounted_are_covered() -> None:
    covered = {mount["mountPath"] for mount in MOUNTS if mount["name"] == "nothing"}
    assert covered == {
        str(TOLD.kubelet_state / name) for name in ("pki", "plugins", "plugins_registry", "pods")
    }
    assert all(mount["readOnly"] for mount in MOUNTS if mount["name"] == "nothing")
    assert VOLUMES["nothing"]["emptyDir"]["medium"] == "Memory"


def test_the_socket_is_looked_for_in_the_folder_that_is_mounted() -> None:
    """The folder: after a restart of the kubelet the socket is another file."""
    [mount] = [mount for mount in MOUNTS if mount["name"] == "pod-resources"]
    socket = TOLD.podresources_socket
    assert (str(socket.parent), socket.name) == (mount["mountPath"], "kubelet.sock")


def test_its_token_is_bound_to_the_pod_and_short_lived() -> None:
    assert POD["automountServiceAccountToken"] is False
    assert SHIPPED["ServiceAccount", NAME]["automountServiceAccountToken"] is False
    [mount] = [mount for mount in MOUNTS if mount["name"] == "token"]
    # Where every client looks for it.
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    token, authority, namespace = VOLUMES["token"]["projected"]["sources"]
    assert token == {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    assert [item["path"] for item in authority["configMap"]["items"]] == ["ca.crt"]
    assert [item["path"] for item in namespace["downwardAPI"]["items"]] == ["namespace"]


def test_it_is_told_its_node_and_where_that_is() -> None:
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in CONTAINER["env"]}
    assert fields == {"NODE_NAME": "spec.nodeName", "HOST_IP": "status.hostIP"}
    assert (TOLD.node_name, TOLD.node_address) == ("$(NODE_NAME)", "$(HOST_IP)")


def test_it_gives_way_to_other_exporters_and_leaves_pods_alone() -> None:
    assert (TOLD.publish, TOLD.annotate_pods) == (Publish.IF_ABSENT, False)


def test_what_the_kernel_tells_is_read_where_every_container_has_it() -> None:
    assert str(TOLD.sysfs) == "/sys"
    assert not any(mount["mountPath"].startswith("/sys") for mount in MOUNTS)


def test_it_is_on_every_node_and_a_tenth_is_replaced_at_a_time() -> None:
    assert POD["tolerations"] == [{"operator": "Exists"}]
    assert POD["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert POD["priorityClassName"] == "system-node-critical"
    assert SPEC["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    [scope] = SHIPPED["ResourceQuota", NAME]["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [POD["priorityClassName"]]


def test_it_takes_no_cpu_of_its_own_from_pods_that_are_aligned() -> None:
    """No limit of CPUs, so no exclusive ones: it is not guaranteed."""
    assert CONTAINER["resources"] == {
        "requests": {"cpu": "10m", "memory": "48Mi"},
        "limits": {"memory": "128Mi"},
    }


def test_nobody_calls_it_and_it_calls_api_servers_and_its_kubelet() -> None:
    spec = SHIPPED["NetworkPolicy", NAME]["spec"]
    [metrics] = CONTAINER["ports"]
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": metrics["containerPort"]}]}]
    out = {(port["protocol"], port["port"]) for rule in spec["egress"] for port in rule["ports"]}
    kubelet = ("TCP", TOLD.kubelet_port)
    assert out == {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 6443), kubelet}


def test_only_its_own_namespace_lets_folders_of_nodes_in() -> None:
    labels = SHIPPED["Namespace", AGENT_NAMESPACE]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "privileged" not in (MANIFESTS / "namespace.yaml").read_text()


# ---- who may say what


def policy(name: str) -> Object:
    spec: Object = GUARDING["ValidatingAdmissionPolicy", name]["spec"]
    return spec


def test_whoever_is_an_agent_is_the_account_of_its_pods() -> None:
    assert POD["serviceAccountName"] == NAME
    for name in (NAME, "numalign-topologies"):
        [condition] = policy(name)["matchConditions"]
        assert f"'{ACCOUNT}'" in condition["expression"]


def test_what_agents_write_is_what_only_they_may_write() -> None:
    keys = {kubelet_reports.MACHINE, kubelet_reports.PLACEMENTS, kubelet_reports.OBSERVED_AT}
    [said] = [each for each in policy("numalign-topologies")["variables"] if each["name"] == "said"]
    assert {*re.findall(r"'([^']+)'", said["expression"])} == keys
    [own] = [each for each in policy(NAME)["variables"] if each["name"] == "mayAnnotate"]
    assert {*re.findall(r"'(numalign.io/[^']+)'", own["expression"])} == {*keys, PLACEMENT_OBSERVED}


def test_all_that_its_role_lets_it_write_is_judged() -> None:
    """With the patch of pods, which comes with agent.annotatePods."""
    judged = {
        each for rule in policy(NAME)["matchConstraints"]["resourceRules"] for each in rule["resources"]
    }
    written = {
        resource
        for rule in SHIPPED["ClusterRole", NAME]["rules"]
        if {"create", "update", "patch", "delete"} & {*rule["verbs"]}
        for resource in rule["resources"]
    }
    assert judged == {*written, "pods", "pods/*"}
