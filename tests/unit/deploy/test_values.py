"""What the values of the chart change in its objects, and which values are refused."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.options import Publish
from controller.settings import ControllerSettings
from kubectl_numa.commands import verify
from numalign.cache.ranking import Ranking
from numalign.kube.files import policy
from numalign.runtime.server_settings import ServingSettings
from numalign.scheduling import ranking
from scorer.settings import ReserveAt
from tests.unit.deploy.fields import AGENT, CONTROLLER, PROGRAMS, SCHEDULER, SCORER, WEBHOOK, field
from tests.unit.deploy.test_helm import AN_AUTHORITY, DEFAULTS, SETS, ZEROS, check
from tests.worlds.notation import table
from tools.generate.manifests import (
    AGENT_NAMESPACE,
    CHART,
    EVERY_PART,
    NAMESPACE,
    HelmError,
    Installation,
    made,
    of_test,
    run,
    template,
)

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

ON_HOSTS = (WEBHOOK, CONTROLLER, SCORER, SCHEDULER)
ALL = (*ON_HOSTS, AGENT)
TEST = "numalign-test"
EVERY_MAP = SETS["the map with everything"]
RECORDS = "ValidatingAdmissionPolicy records"
CALLER = "spec matchConditions 0 expression"
NETWORK = "NetworkPolicy controller"
IDS = ("runAsUser", "runAsGroup", "fsGroup")
NO_IDS = " ".join(f"podSecurityContext.{name}=null" for name in IDS)


def accounts(*names: str) -> str:
    """Return the expression that exempts accounts of the release's namespace."""
    listed = ",".join(f"'system:serviceaccount:{NAMESPACE}:{name}'" for name in names)
    return f"!(request.userInfo.username in [{listed}])"


TLS = "scorer.tls.secretName=pair"
JUDGING = {"unknown_nodes": "may-fit", "policy_match": "equal"}
QUOTA = "ResourceQuota critical-pods"
BINDING_0, BINDING_1 = (f"ValidatingAdmissionPolicyBinding levels-{at}" for at in (0, 1))
FIELDS: list[tuple[str, str, Mapping[str, Mapping[str, Any]]]] = [
    # what is set, the values, and fields of objects with these values; without a path, whether there is one
    ("nothing", "", {
        "HorizontalPodAutoscaler webhook": {"": None}, "FlowSchema numalign": {"": None},
        QUOTA: {"spec scopeSelector matchExpressions 0 values": ["system-cluster-critical"]},
    }),
    ("certificate", "tls.days=30 tls.extraNames={127.0.0.1}", {
        "settings controller": {"tls_days": 30, "names": ("127.0.0.1",)},
        "settings webhook": {"names": ("127.0.0.1",)},
    }),
    ("own certificate", f"tls.source=secret tls.secretName=mine tls.caBundle={AN_AUTHORITY}", {
        "pod webhook": {"volumes name=tls secret secretName": "mine"},
        "entries": {"0 clientConfig caBundle": AN_AUTHORITY},
    }),
    ("cert-manager", "tls.source=cert-manager", {
        "Certificate webhook": {
            "spec dnsNames": [f"numalign-webhook.{NAMESPACE}.svc"],
            "spec issuerRef name": "numalign-authority",
        },
        "ValidatingWebhookConfiguration zz-numalign": {
            "metadata annotations": {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/numalign-webhook"},
        },
    }),
    ("issuer", "tls.source=cert-manager tls.issuerRef.name=ca",
     {"Certificate webhook": {"spec issuerRef name": "ca"}}),
    ("level of a default", DEFAULTS, {BINDING_0: {
        "spec matchResources namespaceSelector matchLabels": {"team": "a"},
        "spec matchResources namespaceSelector matchExpressions -1":
            {"key": "numalign.io/enforce", "operator": "DoesNotExist"},
    }}),
    ("level after an earlier none",
     ("policy.defaults[0].enforce=none policy.defaults[0].namespaceSelector.matchLabels.team=a"
      " policy.defaults[1].enforce=restricted"), {BINDING_1: {"": None}}),
    ("writers of records",
     ("scorer.enabled=true scorer.records.writers={system:serviceaccount:kai-scheduler:binder,"
      "exporter@example.com}"), {RECORDS: {CALLER: accounts(SCORER)[:-2]
        + ",'system:serviceaccount:kai-scheduler:binder','exporter@example.com'])"}}),
    ("gates", "gates.enabled=true gates.patienceSeconds=0 gates.pinPatienceSeconds=90", {
        "settings controller": {"gates": True, "gate_patience_seconds": 0, "pin_patience_seconds": 90},
        "settings webhook": {"gates": True}, RECORDS: {CALLER: accounts(CONTROLLER)},
    }),
    ("gates and scorer write records", "gates.enabled=true scorer.enabled=true",
     {RECORDS: {CALLER: accounts(SCORER, CONTROLLER)}}),
    ("healing writes none",
     ("scorer.enabled=true heal.enabled=true heal.keepRefused=0 heal.perMinute=2 heal.ownerSeconds=60"
      " heal.nodeSeconds=30"), {
        "settings controller": {"heal": True, "gates": False, "keep_refused": 0, "heal_per_minute": 2,
                                "heal_owner_seconds": 60, "heal_node_seconds": 30},
        RECORDS: {CALLER: accounts(SCORER)},
    }),
    ("reports", "policyReports.enabled=true ownerEvents.enabled=true", {
        "settings controller":
            {"policy_reports": True, "owner_events": True, "watches_pods": True, "acts_on_pods": False},
        "ClusterRole reports": {"kind": "ClusterRole"},
    }),
    ("no reports", "ownerEvents.enabled=true", {"ClusterRole reports": {"": None}}),
    ("map for port-forward", "map.enabled=true", {
        "settings controller":
            {"map": True, "map_port": 8081, "map_bind": "127.0.0.1", "acts_on_pods": False},
        "Service map": {"": None}, NETWORK: {"spec ingress * ports 0 port": [8080]},
        "ClusterRole map-viewer": {"rules": [{
            "apiGroups": ["topology.node.k8s.io"], "resources": ["noderesourcetopologies"], "verbs": ["list"]
        }]},
    }),
    ("map", EVERY_MAP, {
        "settings controller":
            {"map_bind": "*", "map_port": 9000, "map_audience": "numalign-map", "map_review_seconds": 30},
        "container controller": {"ports name=map containerPort": 9000},
        "Service map": {"spec ports 0 targetPort": "map"},
        "Ingress map": {"spec rules 0 http paths 0 backend service":
            {"name": "numalign-map", "port": {"name": "https"}}},
        NETWORK: {"spec ingress 1": {"ports": [{"protocol": "TCP", "port": 9000}],
                                     "from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}},
    }),
    ("judging",
     ("scorer.enabled=true heal.enabled=true unknownNodes=may-fit policyMatch=equal"
      " controller.extraArgs.policy-reload-seconds=5"), {
        "settings controller": {**JUDGING, "policy_reload_seconds": 5},
        "settings webhook": JUDGING, "settings scorer": JUDGING,
    }),
    ("policy without pods", "policy.defaults[0].heal=failed",
     {"container controller": {"resources limits memory": "512Mi"}}),
    ("policy with pods", "policy.defaults[0].heal=failed heal.enabled=true",
     {"container controller": {"resources limits memory": "768Mi"}}),
    ("no budget for one", f"{EVERY_PART} webhook.replicas=1 controller.replicas=1 scheduler.replicas=1",
     {f"PodDisruptionBudget {name}": {"": None} for name in ("webhook", "controller", "scheduler")}),
    ("autoscaling", "webhook.autoscaling.enabled=true webhook.autoscaling.maxReplicas=9 webhook.replicas=7", {
        "HorizontalPodAutoscaler webhook": {
            "spec minReplicas": 2, "spec maxReplicas": 9, "spec scaleTargetRef name": WEBHOOK,
            "spec metrics * resource target": [{"type": "Utilization", "averageUtilization": 80}],
        },
        "Deployment webhook": {"spec replicas": None},
        "PodDisruptionBudget webhook": {"spec minAvailable": 1},
    }),
    ("no budget of an autoscaler", "webhook.autoscaling.enabled=true webhook.autoscaling.minReplicas=1",
     {"PodDisruptionBudget webhook": {"": None}}),
    ("priority of requests", f"{EVERY_PART} priorityAndFairness.enabled=true", {
        # After exempt and system ones, before those that all service accounts share.
        "FlowSchema numalign": {"spec rules 0 subjects * serviceAccount name": [*ALL],
                                "spec matchingPrecedence": 1000},
        "PriorityLevelConfiguration numalign": {"spec limited nominalConcurrencyShares": 10},
    }),
    ("quota of a class", "priorityClassName=high scorer.priorityClassName=system-node-critical",
     {QUOTA: {"spec scopeSelector matchExpressions 0 values": ["system-node-critical"]}}),
    ("no quota", "priorityClassName=high", {QUOTA: {"": None}}),
    ("reserving while ranking", f"{EVERY_PART} scorer.reserveAt=prioritize",
     {"settings scorer": {"reserve_at": ReserveAt.PRIORITIZE}, "extender": {"bindVerb": None}}),
    ("TLS of the scorer", f"{EVERY_PART} {TLS}", {
        "extender": {
            "urlPrefix": f"https://numalign-scorer.{NAMESPACE}.svc", "enableHTTPS": True,
            "tlsConfig": {"caFile": "/run/numalign/scorer/ca.crt"},
        },
        "container scheduler": {"volumeMounts name=authority mountPath": "/run/numalign/scorer"},
        # The key of the scorer stays where it is.
        "pod scheduler": {"volumes name=authority secret":
            {"secretName": "pair", "defaultMode": 0o440, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        "Service scorer": {"spec ports 0 port": 443, "spec ports 0 targetPort": "https"},
        "container scorer":
            {"readinessProbe httpGet scheme": "HTTP", "readinessProbe httpGet port": "metrics"},
    }),
    ("callers and address of the scorer",
     ("scorer.enabled=true scorer.callers[0].ipBlock.cidr=10.0.0.11/32 scorer.service.clusterIP=10.96.0.53"
      " scorer.callers[1].namespaceSelector.matchLabels.a=b"), {
        "NetworkPolicy scorer": {
            "spec ingress 0 from 1": {"ipBlock": {"cidr": "10.0.0.11/32"}},
            "spec ingress 0 from 2": {"namespaceSelector": {"matchLabels": {"a": "b"}}},
            "spec ingress 1 from": None,
        },
        "Service scorer": {"spec clusterIP": "10.96.0.53"},
    }),
    ("flags of kube-scheduler",
     f"{EVERY_PART} scheduler.extraArgs.v=4 scheduler.extraArgs.kube-api-qps=1000000",
     {"container scheduler": {"args -1": "--v=4", "args -2": "--kube-api-qps=1000000"}}),
    *((f"image of the scheduler by {value}", f"{EVERY_PART} scheduler.image.{value}",
       {"container scheduler": {"image": image}}) for value, image in (
        (f"digest=sha256:{ZEROS} scheduler.image.tag=v1.37.0",
         f"registry.k8s.io/kube-scheduler@sha256:{ZEROS}"),
        ("repository=example.com/a", "example.com/a:v1.34.4"),
    )),
    ("images", f"agent.enabled=true agent.image.digest=sha256:{ZEROS} image.tag=v9", {
        "container agent": {"image": f"numalign-agent@sha256:{ZEROS}"},
        "container webhook": {"image": "numalign-webhook:v9"},
    }),
    ("settings of the agent",
     ("agent.enabled=true metricsPort=9090 agent.publish=never agent.annotatePods=true "
      "agent.kubeletPort=1250 agent.extraArgs.resync-seconds=9 serviceMonitor.enabled=true"), {
        "settings agent": {"publish": Publish.NEVER, "annotate_pods": True, "kubelet_port": 1250,
                           "resync_seconds": 9, "metrics_port": 9090},
        "PodMonitor agent": {"spec podMetricsEndpoints * port": ["metrics"]},
        "container agent": {"ports name=metrics containerPort": 9090},
    }),
    ("folder of the agent", "agent.enabled=true agent.checkpoints=false agent.kubeletFolder=/srv/kubelet",
     {"pod agent": {"volumes name=pod-resources hostPath path": "/srv/kubelet/pod-resources"}}),
    ("namespace of the agent", "agent.enabled=true agent.namespace=elsewhere",
     {"Namespace elsewhere": {"metadata labels pod-security.kubernetes.io/enforce": "privileged"}}),
    ("annotations of accounts",
     (f"{EVERY_PART} serviceAccount.annotations.a=shared serviceAccount.annotations.b=shared "
      "scorer.serviceAccount.annotations.b=own"),
     {"ServiceAccount scorer": {"metadata annotations": {"a": "shared", "b": "own"}}}),
]  # fmt: skip


@pytest.mark.parametrize(("values", "objects"), table(FIELDS))
async def test_values_set_fields(helm: Path, values: str, objects: Mapping[str, Mapping[str, Any]]) -> None:
    found = await made(helm, values)
    assert {
        of: {path: field(found, of, path) for path in fields} for of, fields in objects.items()
    } == objects
    check(found)


async def test_least_level_of_earlier_defaults_is_enforced(helm: Path) -> None:
    """The first one that selects a namespace counts there."""
    levels = ["single-numa-node", "restricted", "single-numa-node"]
    found = await made(
        helm, " ".join(f"policy.defaults[{at}].enforce={each}" for at, each in enumerate(levels))
    )
    names = [
        field(found, f"ValidatingAdmissionPolicyBinding levels-{at}", "spec policyName") for at in range(3)
    ]
    path = "spec variables name=level expression"
    enforced = [
        field(found, f"ValidatingAdmissionPolicy {name.removeprefix('numalign-')}", path) for name in names
    ]
    assert enforced == ["'single-numa-node'", "'restricted'", "'restricted'"]


async def test_exempt_namespaces_have_no_level(helm: Path) -> None:
    found = await made(
        helm, "policy.exemptions.namespaces[0]=playground policy.defaults[0].enforce=restricted"
    )
    exempt = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["playground"]}
    for binding in ("levels", "levels-0"):
        path = "spec matchResources namespaceSelector matchExpressions"
        assert exempt in field(found, f"ValidatingAdmissionPolicyBinding {binding}", path)


@pytest.mark.parametrize("writer", ["a'b", 'a"b', "a b", "a\\\\b", ""])
async def test_writer_of_records_must_be_a_user_name(helm: Path, writer: str) -> None:
    with pytest.raises(HelmError, match="writers"):
        await template(
            helm, "--set=scorer.enabled=true", f"--set-json=scorer.records.writers={json.dumps([writer])}"
        )


@pytest.mark.parametrize("annotates", [True, False])
async def test_annotating_agents_may_write_records(helm: Path, *, annotates: bool) -> None:
    values = f"scorer.enabled=true agent.enabled=true agent.annotatePods={json.dumps(annotates)}"
    account = f"'system:serviceaccount:{AGENT_NAMESPACE}:numalign-agent'"
    assert (account in field(await made(helm, values), RECORDS, CALLER)) is annotates


HEALED = [
    ("", "none"),
    ("policy.defaults[0].heal=failed policy.defaults[1].warn=restricted", "failed"),
    ("policy.defaults[0].heal=running policy.defaults[1].heal=failed", "running"),
]


@pytest.mark.parametrize(("values", "most"), HEALED)
async def test_controller_heals_what_some_default_allows(helm: Path, values: str, most: str) -> None:
    path = "spec variables name=heal expression"
    healed = field(await made(helm, values), "ValidatingAdmissionPolicy controller", path)
    assert healed.endswith(f".orValue('{most}')")


SENT = [
    ("policy.defaults[0].gate=enabled policy.defaults[1].default=restricted", True),
    # A pod without annotations is not placed by any other program either.
    ("policy.defaults[0].gate=enabled", False),
    ("policy.exemptions.users[0]=root", False),
]


@pytest.mark.parametrize(("value", "all_pods"), SENT)
async def test_defaults_send_pods_without_annotations(helm: Path, value: str, *, all_pods: bool) -> None:
    entries = (await made(helm, value)).entries
    names = {condition["name"] for entry in entries for condition in entry.get("matchConditions", ())}
    assert ("annotated" not in names) == all_pods


@pytest.mark.parametrize("name", [WEBHOOK, CONTROLLER])
async def test_policy_is_mounted_as_the_program_reads_it(helm: Path, name: str) -> None:
    values = "policy.defaults[0].warn=restricted policy.exemptions.users[0]=root"
    found = await made(helm, f"heal.enabled=true {values}")
    cluster_policy = policy.parse(found["ConfigMap", "numalign-policy"]["data"]["policy.yaml"].encode())
    assert cluster_policy.exemptions.users == ("root",)
    assert [default.rules.warn for default in cluster_policy.defaults] == ["restricted"]
    container = found.container(name)
    assert "--policy=/etc/numalign/policy.yaml" in container["args"]
    assert {"name": "policy", "mountPath": "/etc/numalign", "readOnly": True} in container["volumeMounts"]
    assert {"name": "policy", "configMap": {"name": "numalign-policy"}} in found.pod(name)["volumes"]


RANKING = (
    "scorer.ranking.strategies={LeastNUMANodes} scorer.ranking.rankings[0].nodeSelector.matchLabels.pool=gpu"
    r" scorer.ranking.rankings[0].weights.nvidia\.com/gpu=5"
)


async def test_ranking_is_mounted_as_the_scorer_reads_it(helm: Path) -> None:
    found = await made(helm, f"scorer.enabled=true policy.exemptions.users[0]=root {RANKING}")
    text = found["ConfigMap", "numalign-ranking"]["data"]["ranking.yaml"]
    default = Ranking(ranking.parse_strategies("MostAllocated"), {})
    [choice] = ranking.parse_rankings(text.encode(), default=default).choices
    assert choice.ranking.weights == {"nvidia.com/gpu": 5}
    sources = field(found, "pod scorer", "volumes name=configuration projected sources * configMap name")
    assert sources == ["numalign-policy", "numalign-ranking"]
    folder = field(found, "container scorer", "volumeMounts name=configuration mountPath")
    assert str(field(found, "settings scorer", "ranking")) == f"{folder}/ranking.yaml"
    assert str(field(found, "settings scorer", "policy")) == f"{folder}/policy.yaml"


@pytest.mark.parametrize(
    ("name", "value"), [(SCORER, RANKING.split(maxsplit=1)[0]), (SCHEDULER, "scheduler.weight=7")]
)
async def test_changed_configuration_restarts_the_program(helm: Path, name: str, value: str) -> None:
    before, after = (
        found["Deployment", name]["spec"]["template"]["metadata"]["annotations"]
        for found in (await made(helm, EVERY_PART), await made(helm, f"{EVERY_PART} {value}"))
    )
    assert before != after


@pytest.mark.parametrize(
    ("values", "name", "volume", "setting"),
    [
        (f"tls.source=secret tls.caBundle={AN_AUTHORITY}", "webhook", "tls", "tls_cert"),
        (f"{EVERY_PART} scorer.tls.secretName=pair", "scorer", "tls", "tls_cert"),
        (EVERY_MAP, "controller", "map-tls", "map_tls_cert"),
    ],
)
async def test_certificate_is_mounted_where_it_is_read(
    helm: Path, values: str, name: str, volume: str, setting: str
) -> None:
    found = await made(helm, values)
    folder = field(found, f"container {name}", f"volumeMounts name={volume} mountPath")
    assert str(field(found, f"settings {name}", setting)) == f"{folder}/tls.crt"


async def test_agent_with_a_configuration_file_queries_no_kubelet(helm: Path) -> None:
    def rights(found: Installation) -> set[tuple[str, str]]:
        rules = found["ClusterRole", AGENT]["rules"]
        return {
            (verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]
        }

    found = await made(helm, "agent.enabled=true agent.kubeletConfig=/etc/kubelet.yaml")
    mounted = field(found, "container agent", "volumeMounts name=kubelet-config mountPath")
    assert str(field(found, "settings agent", "kubelet_config")) == mounted
    assert not {right for right in rights(found) if right[1].startswith("nodes/")}
    assert ("list", "pods") in rights(found)
    assert ("get", "nodes/pods") in rights(await made(helm, "agent.enabled=true"))


async def test_agent_without_checkpoints_sees_only_sockets(helm: Path) -> None:
    found = await made(helm, "agent.enabled=true agent.checkpoints=false agent.kubeletFolder=/srv/kubelet")
    folders = [volume["hostPath"]["path"] for volume in found.pod(AGENT)["volumes"] if "hostPath" in volume]
    assert folders == ["/srv/kubelet/pod-resources"]
    assert not any("--kubelet-state" in argument for argument in found.container(AGENT)["args"])


async def test_map_adds_reviews_to_the_rights_of_the_controller(helm: Path) -> None:
    without, found = (
        [rule for kind in ("ClusterRole", "Role") for rule in found[kind, CONTROLLER]["rules"]]
        for found in (await made(helm), await made(helm, "map.enabled=true"))
    )
    assert all(rule in found for rule in without)
    assert [(rule["resources"], rule["verbs"]) for rule in found if rule not in without] == [
        (["deviceclasses"], ["list", "watch"]),
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]


@pytest.mark.parametrize("name", [WEBHOOK, SCORER, CONTROLLER])
async def test_traces_may_leave_to_their_receiver(helm: Path, name: str) -> None:
    values = "tracing.endpoint=https://collector.monitoring:4318/otlp scorer.enabled=true"
    peer = "tracing.to[0].namespaceSelector.matchLabels.a=b"
    found, plain = await made(helm, f"{values} {peer}"), await made(helm, "scorer.enabled=true")
    loaded = found.settings(name, PROGRAMS[name])
    assert isinstance(loaded, ServingSettings)
    assert (loaded.otlp_endpoint, loaded.trace_ratio) == ("https://collector.monitoring:4318/otlp", 0.01)
    out, before = (each["NetworkPolicy", name]["spec"]["egress"] for each in (found, plain))
    to = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
    assert [rule for rule in out if rule not in before] == [
        {"ports": [{"protocol": "TCP", "port": 4318}], "to": to}
    ]
    assert not any("otlp" in flag for flag in plain.container(name)["args"])


@pytest.mark.parametrize("name", [WEBHOOK, SCORER])
async def test_metrics_are_scraped_where_they_are_served(helm: Path, name: str) -> None:
    found = await made(
        helm,
        "scorer.enabled=true serviceMonitor.enabled=true metricsPort=9090"
        " networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=prometheus",
    )
    calls, metrics = found["NetworkPolicy", name]["spec"]["ingress"]
    peer = {"namespaceSelector": {"matchLabels": {"a": "prometheus"}}}
    assert metrics == {"ports": [{"protocol": "TCP", "port": 9090}], "from": [peer]}
    assert peer not in calls.get("from", [])
    assert calls["ports"] != metrics["ports"]
    monitor, service, container = (
        found["ServiceMonitor", name],
        found["Service", name],
        found.container(name),
    )
    [endpoint], [_, port] = monitor["spec"]["endpoints"], service["spec"]["ports"]
    assert (endpoint["port"], port["port"]) == (port["name"], 9090)
    ports = {opened["name"]: opened["containerPort"] for opened in container["ports"]}
    assert ports[port["targetPort"]] == 9090
    assert "--metrics-port=9090" in container["args"]
    assert endpoint.keys() == {"port", "path", "interval"}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


# ---- names and labels

# Named by what looks for them: the programs, API servers and users of the scheduler.
FIXED = {"zz-numalign", "numalign-reports", "noderesourcetopologies.topology.node.k8s.io", AGENT_NAMESPACE}

# Made by programs, by people and by Kubernetes itself.
FOREIGN_OBJECTS = {
    *(("Secret", name) for name in ("numalign-webhook-tls", "a", "g")),
    *(("ClusterRole", f"system:{name}-scheduler") for name in ("kube", "volume")),
    ("ConfigMap", "kube-root-ca.crt"),
}


async def everything(helm: Path, values: str = "") -> Installation:
    """Render all that the chart can make, with further values."""
    found = await made(helm, f"{EVERY_MAP} {SETS['monitoring']} {values}")
    check(found)
    return found


def references(found: Installation) -> Iterator[tuple[str, str]]:
    """Yield kind and name of every object to which another one refers."""
    for each in found.values():
        spec = each.get("spec", {})
        if "roleRef" in each:
            yield each["roleRef"]["kind"], each["roleRef"]["name"]
            yield from ((subject["kind"], subject["name"]) for subject in each["subjects"])
        if "policyName" in spec:
            yield "ValidatingAdmissionPolicy", spec["policyName"]
        for entry in each.get("webhooks", ()):
            yield "Service", entry["clientConfig"]["service"]["name"]
        for rule in spec.get("rules", ()):
            backends = (path["backend"] for path in rule.get("http", {}).get("paths", ()))
            yield from (("Service", backend["service"]["name"]) for backend in backends)
            subjects = (subject["serviceAccount"] for subject in rule.get("subjects", ()))
            yield from (("ServiceAccount", account["name"]) for account in subjects)
        pod = spec if each["kind"] == "Pod" else spec.get("template", {}).get("spec", {})
        if pod:
            yield "ServiceAccount", pod["serviceAccountName"]
        for volume in pod.get("volumes", ()):
            for source in (volume, *volume.get("projected", {}).get("sources", ())):
                if "configMap" in source:
                    yield "ConfigMap", source["configMap"]["name"]


async def test_full_name_is_the_prefix_of_every_name(helm: Path) -> None:
    usual = await everything(helm, "priorityAndFairness.enabled=true")
    found = await everything(helm, "fullnameOverride=numa priorityAndFairness.enabled=true")
    names = {name for _, name in found} - FIXED
    assert {name for name in names if not re.match(r"numa(-|$)", name)} == set()
    assert len(found) == len(usual)
    assert {*references(found)} - FOREIGN_OBJECTS <= found.keys()
    assert len({*references(found)}) == len({*references(usual)})
    assert ("Service", found.settings("numa-controller", ControllerSettings).service) in found
    [extender] = yaml.safe_load(found["ConfigMap", "numa-scheduler"]["data"]["scheduler.yaml"])["extenders"]
    assert extender["urlPrefix"] == f"http://numa-scorer.{NAMESPACE}.svc"


async def test_name_override_is_the_label_of_pods(helm: Path) -> None:
    found = await made(helm, f"{EVERY_PART} nameOverride=numa")
    assert {*references(found)} - FOREIGN_OBJECTS <= found.keys()
    for each in found.of_pods.values():
        assert each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "numa"


async def test_namespace_override_is_that_of_every_object(helm: Path) -> None:
    found = await everything(helm, "namespaceOverride=elsewhere")
    namespaces = {each["metadata"].get("namespace") for each in found.values()}
    assert namespaces == {None, "elsewhere", AGENT_NAMESPACE, "default"}
    assert NAMESPACE not in json.dumps([*found.values()])


async def test_common_labels_are_on_every_object_and_pod(helm: Path) -> None:
    values = r"commonLabels.team=platform commonAnnotations.example\.com/owner=me"
    found = await everything(helm, f"{values} agent.enabled=true")
    pods = [each["spec"]["template"]["metadata"] for each in found.of_pods.values()]
    for metadata in [each["metadata"] for each in found.values()] + pods:
        if metadata.get("name") != "noderesourcetopologies.topology.node.k8s.io":
            assert metadata["labels"]["team"] == "platform", metadata
            assert metadata["annotations"]["example.com/owner"] == "me", metadata
    # No upgrade may change how pods are selected.
    assert not any("team" in str(each["spec"]["selector"]) for each in found.of_pods.values())


async def test_platform_can_assign_user_and_group(helm: Path) -> None:
    """OpenShift rejects pods that name others than the namespace's."""
    found = await made(helm, f"scorer.enabled=true scheduler.enabled=true {NO_IDS}")
    check(found)
    text = json.dumps([*found.values()])
    assert [name for name in IDS if f'"{name}"' in text] == []
    for name in ON_HOSTS:
        context = found.pod(name)["securityContext"]
        assert context == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("name", ALL)
async def test_program_can_use_an_existing_account(helm: Path, name: str) -> None:
    program = name.removeprefix("numalign-")
    values = f"{SETS['gates']} {EVERY_PART} agent.annotatePods=true priorityAndFairness.enabled=true"
    found = await made(
        helm, f"{values} {program}.serviceAccount.create=false {program}.serviceAccount.name=ours"
    )
    check(found)
    assert {*found.of_kind("ServiceAccount")} == {*ALL, TEST} - {name}
    assert found.pod(name)["serviceAccountName"] == "ours"
    home = AGENT_NAMESPACE if name == AGENT else NAMESPACE
    assert f"system:serviceaccount:{home}:{name}" not in json.dumps([*found.values()])
    bindings = found.of_kind("RoleBinding", "ClusterRoleBinding").values()
    bound = [subject["name"] for each in bindings for subject in each["subjects"]]
    assert name not in bound
    assert "ours" in bound


SHARED = (
    "nodeSelector.a=b tolerations[0].operator=Exists priorityClassName=high affinity.nodeAffinity.x=1 "
    "topologySpreadConstraints[0].topologyKey=rack topologySpreadConstraints[0].maxSkew=1 "
    "topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule podLabels.a=b podAnnotations.a=b "
    "securityContext.privileged=false"
)
OWN = (
    "nodeSelector.c=d tolerations[0].key=x priorityClassName=own affinity.podAffinity.y=1 podLabels.a=own "
    "podAnnotations.a=own extraEnv[0].name=HTTPS_PROXY extraEnv[0].value=http://proxy "
    "resources.requests.cpu=3 podSecurityContext.runAsUser=7 podSecurityContext.runAsGroup=null "
    "securityContext.readOnlyRootFilesystem=null"
)


async def test_shared_placement_applies_to_all_but_the_agent(helm: Path) -> None:
    found = await made(helm, f"{EVERY_PART} {SHARED}")
    for name in ON_HOSTS:
        pod = found.pod(name)
        assert (pod["nodeSelector"], pod["priorityClassName"]) == ({"a": "b"}, "high")
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["affinity"] == {"nodeAffinity": {"x": 1}}
        [constraint] = pod["topologySpreadConstraints"]
        selected = found.of_pods[name]["spec"]["selector"]["matchLabels"]
        assert (constraint["topologyKey"], constraint["labelSelector"]) == ("rack", {"matchLabels": selected})
    agent = found.pod(AGENT)
    assert agent["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert agent["priorityClassName"] == "system-node-critical"
    assert agent.keys().isdisjoint({"affinity", "topologySpreadConstraints"})
    for name in ALL:
        metadata = found.of_pods[name]["spec"]["template"]["metadata"]
        assert (metadata["labels"]["a"], metadata["annotations"]["a"]) == ("b", "b")


@pytest.mark.parametrize("name", ALL)
async def test_values_of_a_program_override_shared_ones(helm: Path, name: str) -> None:
    program = name.removeprefix("numalign-")
    own = " ".join(f"{program}.{value}" for value in OWN.split())
    found = await made(helm, f"{EVERY_PART} {SHARED} {own}")
    pod, container = found.pod(name), found.container(name)
    assert pod["nodeSelector"]["c"] == "d"
    assert (pod["tolerations"], pod["priorityClassName"]) == ([{"key": "x"}], "own")
    assert pod["affinity"] == {"podAffinity": {"y": 1}}
    assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in container["env"]
    assert container["resources"]["requests"]["cpu"] == 3
    metadata = found.of_pods[name]["spec"]["template"]["metadata"]
    assert (metadata["labels"]["a"], metadata["annotations"]["a"]) == ("own", "own")
    context = pod["securityContext"]
    assert (context["runAsUser"], "runAsGroup" in context) == (7, False)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
    }
    for other in {*ALL} - {name}:
        assert "podAffinity" not in str(found.pod(other))
        assert found.pod(other)["securityContext"]["runAsUser"] == (0 if other == AGENT else 65532)


async def test_pull_secrets_include_those_of_the_parent_chart(helm: Path) -> None:
    found = await made(
        helm,
        f"{EVERY_PART} imagePullSecrets[0].name=a global.imagePullSecrets[0].name=b "
        "global.imagePullSecrets[1].name=a global.storageClass=fast",
    )
    for name in ALL:
        assert found.pod(name)["imagePullSecrets"] == [{"name": "b"}, {"name": "a"}]


async def test_helm_test_is_one_pod_that_is_deleted(helm: Path) -> None:
    found = await made(helm)
    hooks = {kind: each for (kind, _), each in found.items() if of_test(each)}
    assert {*hooks} == {
        *("ServiceAccount", "Role", "RoleBinding", "Pod", "NetworkPolicy"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    for each in hooks.values():
        policies = each["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
        assert {*policies} == {"before-hook-creation", "hook-succeeded", "hook-failed"}
    pod = hooks["Pod"]["spec"]
    [container] = pod["containers"]
    assert container["command"] == ["/opt/numalign/bin/kubectl-numa"]
    name, *flags = container["args"]
    context = verify.verify.make_context(name, flags)
    assert (context.params["namespace"], context.params["timeout"]) == ("default", 60)
    assert pod["activeDeadlineSeconds"] > context.params["timeout"]


async def test_helm_test_may_only_create_pods_as_a_dry_run(helm: Path) -> None:
    found = await made(helm, "test.namespace=team")
    role, binding = found["Role", TEST], found["RoleBinding", TEST]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    assert {each["metadata"]["namespace"] for each in (role, binding)} == {"team"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": TEST, "namespace": NAMESPACE}]
    spec = found["ValidatingAdmissionPolicy", TEST]["spec"]
    [condition], [validation] = spec["matchConditions"], spec["validations"]
    assert f"'system:serviceaccount:{NAMESPACE}:{TEST}'" in condition["expression"]
    assert validation["expression"] == "request.?dryRun.orValue(false)"


OLD = [
    # what was set, and its new name
    ("replicas=3", "webhook.replicas"),
    ("image.pullSecrets[0].name=a", "imagePullSecrets"),
    ("resources.limits.cpu=1", "webhook.resources"),
    ("settings.unknown-nodes=may-fit", "unknownNodes"),
    ("controller.settings.log-level=debug", "controller.extraArgs"),
    ("scorer.settings.promise-seconds=1", "scorer.extraArgs.reservation-seconds"),
    ("agent.seLinuxOptions.type=spc_t", "agent.podSecurityContext.seLinuxOptions"),
    ("settings.tls-days=null settings.unknown-nodes=may-fit", "unknownNodes"),
]


@pytest.mark.parametrize(("old", "new"), OLD)
async def test_old_name_is_refused_with_the_new_one(helm: Path, old: str, new: str) -> None:
    with pytest.raises(HelmError, match=rf"is now called {re.escape(new)}\n"):
        await made(helm, old)


@pytest.mark.parametrize("old", ["replicas", "settings", "settings.tls-days", "scorer.promise"])
async def test_old_name_can_be_set_to_null(helm: Path, old: str) -> None:
    assert await made(helm, f"{old}=null") == await made(helm)


async def test_reused_values_of_an_old_chart_are_refused(helm: Path, tmp_path: Path) -> None:
    """With --reuse-values helm renders the new templates with the old chart's values, and nothing else."""
    chart = Path(shutil.copytree(CHART, tmp_path / "numalign"))
    (chart / "values.yaml").write_text("replicas: 2\nsettings: {}\nscorer: {enabled: false, promise: bind}\n")
    with pytest.raises(HelmError) as refused:
        await run(helm, "template", chart)
    assert "scorer.promise is now called scorer.reserveAt\n" in str(refused.value)
    assert "run helm upgrade with --reset-then-reuse-values in place of --reuse-values" in str(refused.value)


MANAGED = "the chart sets --{0} itself; {1}"
CONDITION, RANKED = "webhooks.matchConditions[0]", "scorer.ranking.rankings[0]"
NO_LABELS = "policy.defaults[0].warn=none policy.defaults[0].namespaceSelector"
# Each is refused at its place: one for each definition of the schema.
MISPLACED = [
    *(
        "webhook.extraArgs.injection=force",
        "webhook.extraArgs.audit-log=/var/log/audit",
        "webhook.replicas=0",
    ),
    *("webhook.port=https", "webhook.resources.limits.memory=much", "workloads=refuse", "image.tag=latest"),
    *("image.digest=sha256:0", "tls.secretName=a..b", "policy.defaults[0].warn=strict", "map.audience=aä"),
    *("policy.workloads[0].templates[0]=spec..x", "gates.pinPatienceSeconds=0", "priorityClassName=High"),
    *(f"fullnameOverride={'a' * 41}", "namespaceOverride=a.b", "scheduler.weight=0", "tracing.ratio=2"),
    *("scheduler.percentageOfNodesToScore=101", "scorer.ranking.weights.cpu=0", "agent.hiddenFolders[0]=.."),
    *("scorer.callers[0].ipBlock.cidr=10.0.0.1", "scorer.service.clusterIP=None", "agent.kubeletConfig=a"),
    *("agent.kubeletFolder=var/lib/kubelet", "agent.extraEnv[0].name=NODE_NAME", "tracing.endpoint=http://a"),
    *("networkPolicy.apiServerPorts[0]=0", "podSecurityContext.runAsUser=root"),
    *("priorityAndFairness.concurrencyShares=0", r"podLabels.app\.kubernetes\.io/name=a"),
    *(rf"{labels}.helm\.sh/chart=a" for labels in ("serviceMonitor.labels", "commonLabels")),
    r"podAnnotations.kubectl\.kubernetes\.io/default-container=a",
    r"webhooks.annotations.cert-manager\.io/inject-ca-from=a/b",
]


async def test_all_invalid_values_are_refused_at_their_places(helm: Path) -> None:
    with pytest.raises(HelmError) as refused:
        await made(helm, " ".join(MISPLACED))
    steps = (re.split(r"(?<!\\)\.", value.partition("=")[0].replace("[0]", ".0")) for value in MISPLACED)
    places = ["/".join(step.replace("\\.", ".").replace("/", "~1") for step in path) for path in steps]
    assert [place for place in places if f"at '/{place}'" not in str(refused.value)] == []


REFUSED = [
    # the values, and what helm says of them
    ("replica=2", "'replica'"),
    ("webhook.port=443", "at '/webhook/port'"),
    ("tls.source=secret", "at '/tls/caBundle'"),
    (f"tls.caBundle={AN_AUTHORITY}", "at '/tls/caBundle'"),
    ("tls.issuerRef.name=ca", "at '/tls/issuerRef'"),
    ("tls.source=cert-manager tls.extraNames={a.b}", "at '/tls/extraNames'"),
    ("policy.defaults[0].namespaceSelector.matchLabels.a=b", "at '/policy/defaults/0'"),
    (f"{NO_LABELS}.matchLabels.a_=b", "at '/policy/defaults/0/namespaceSelector/matchLabels'"),
    (f"{NO_LABELS}.matchExpressions[0].key=a {NO_LABELS}.matchExpressions[0].operator=In",
     "at '/policy/defaults/0/namespaceSelector/matchExpressions/0'"),
    ("workloadRules[0].apiGroups={a}", "at '/workloadRules/0'"),
    ("workloadRules[0].apiGroups={*,apps} workloadRules[0].apiVersions={v1} workloadRules[0].resources={a}",
     "at '/workloadRules/0/apiGroups'"),
    ("workloadRules[0].apiGroups={a} workloadRules[0].apiVersions={v1} workloadRules[0].resources={a/b}",
     "at '/workloadRules/0/resources/0'"),
    ("webhooks.excludedNamespaces={a.b}", "/excludedNamespaces/0'"),
    *((f"{CONDITION}.name={name} {CONDITION}.expression=true", "/0/name'") for name in (
        "not-from-a-kubelet", "annotated", "annotated-or-tolerating", "changed", "not-of-another"
    )),
    ("map.enabled=true map.service.enabled=true", "at '/map/tls/secretName'"),
    ("map.plainHttp=true map.tls.secretName=a", "at '/map/tls/secretName'"),
    ("map.plainHttp=true map.ingress.enabled=true", "at '/map/ingress/host'"),
    ("scheduler.enabled=true", "at '/scorer/enabled'"),
    ("scheduler.extraArgs.--v=4", "at '/scheduler/extraArgs'"),
    (f"{RANKED}.nodeSelector.matchLabels.a=b {RANKED}.strategies={{Fastest}}",
     "at '/scorer/ranking/rankings/0/strategies/0'"),
    (f"{RANKED}.nodeSelector.matchLabels=null {RANKED}.weights.cpu=1",
     "at '/scorer/ranking/rankings/0/nodeSelector'"),
    (f"{RANKED}.nodeSelector.matchLabels.a=b", "at '/scorer/ranking/rankings/0'"),
    ("scorer.callers[0].podSelectors.a=b", "at '/scorer/callers/0'"),
    ("scorer.callers[0].ipBlock.cidr=10.0.0.1/32 scorer.callers[0].podSelector.matchLabels.a=b",
     "at '/scorer/callers/0'"),
    ("scorer.serviceAccount.create=false", "at '/scorer/serviceAccount/name'"),
    ("agent.kubeletFolder=/var/lib/../..", "at '/agent/kubeletFolder'"),
    ("podSecurityContext.privileged=true", "'privileged'"),
    ("securityContext.readonly=true", "'readonly'"),
    ("tolerations[0].opreator=Exists", "at '/tolerations/0'"),
    ("topologySpreadConstraints[0].maxSkew=1", "at '/topologySpreadConstraints/0'"),
    ("webhook.autoscaling.enabled=true webhook.autoscaling.targetCPUUtilizationPercentage=0",
     "at '/webhook/autoscaling"),
    # Several mistakes are reported at once by the checks of flags and names.
    ("webhook.extraArgs.port=1 agent.extraArgs.sysfs=/sys", MANAGED.format("port", "set webhook.port")),
    ("webhook.extraArgs.port=1 agent.extraArgs.sysfs=/sys", MANAGED.format("sysfs", "it cannot be changed")),
    ("scorer.extraArgs.unknown-nodes=may-fit", MANAGED.format("unknown-nodes", "set unknownNodes")),
    ("scheduler.extraArgs.config=x", "the chart sets --config itself"),
    ("replicas=3 scorer.promise=bind", "replicas is now called webhook.replicas"),
    ("replicas=3 scorer.promise=bind", "scorer.promise is now called scorer.reserveAt"),
    ("serviceMonitor.tlsConfig.insecureSkipVerify=true", "serviceMonitor.tlsConfig is gone: delete it"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "complaint"), REFUSED)
async def test_invalid_values_are_refused(helm: Path, values: str, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        await made(helm, values)


async def test_priority_of_requests_needs_kubernetes_1_29(helm: Path) -> None:
    with pytest.raises(HelmError, match=r"priorityAndFairness.enabled needs Kubernetes 1.29 or newer"):
        await made(helm, "priorityAndFairness.enabled=true", "--kube-version=1.28.9")
