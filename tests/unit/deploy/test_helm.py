"""What helm makes of the chart: the plain manifests, and whatever the values, what Kubernetes takes."""

import json
import re
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from agent.publish import Publish
from agent.settings import AgentSettings
from controller.settings import ControllerSettings
from numalign.cache.ranking import Ranking
from numalign.kube.files import policy
from numalign.runtime.process_settings import ProcessSettings
from numalign.runtime.server_settings import ServingSettings
from numalign.scheduling import ranking
from scorer import ranking_file
from scorer.settings import ReserveAt, ScorerSettings
from tests.worlds.notation import table
from tools.generate.manifests import (
    AGENT_GUARD,
    AGENT_NAMESPACE,
    CHART,
    COMMAND,
    DEPLOY,
    EVERY_PART,
    NAMESPACE,
    PARTS,
    SCORER_GUARD,
    TOPOLOGIES,
    HelmError,
    Installation,
    installed,
    made,
    manifests,
    parsed,
    run,
    template,
    written,
)
from webhook.settings import WebhookSettings

# To build helm takes minutes, once.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

NEWEST = "1.37"

# Kinds of other projects, whose schemas are not Kubernetes' own.
FOREIGN = ("cert-manager.io/v1", "monitoring.coreos.com/v1")

AN_AUTHORITY = "LS0tLS1CRUdJTg=="
ZEROS = "0" * 64
TESTED = "default"
"""Where `helm test` creates its pods, as a dry run."""
WEBHOOK, CONTROLLER, SCORER, SCHEDULER, AGENT = (
    f"numalign-{name}" for name in ("webhook", "controller", "scorer", "scheduler", "agent")
)
DEFINITION = ("CustomResourceDefinition", "noderesourcetopologies.topology.node.k8s.io")
PROGRAMS: dict[str, type[ProcessSettings]] = {
    WEBHOOK: WebhookSettings,
    CONTROLLER: ControllerSettings,
    SCORER: ScorerSettings,
    AGENT: AgentSettings,
}

_KNOWN: set[str] = set()


def check(installation: Installation, version: str = NEWEST) -> None:
    """Raises `ValidationError` for an object that a version of Kubernetes does not know."""
    for document in installation.values():
        text = version + json.dumps(document)
        if document["apiVersion"] not in FOREIGN and text not in _KNOWN:
            kubernetes_validate.validate(document, version, strict=True)
            _KNOWN.add(text)


async def test_helm_finds_nothing_to_complain_of(helm: Path) -> None:
    assert "0 chart(s) failed" in await run(helm, "lint", "--strict", CHART)


async def test_the_plain_manifests_are_what_the_chart_makes(helm: Path) -> None:
    wanted, there = await manifests(helm), written()
    assert there.keys() == wanted.keys(), f"run {COMMAND}"
    for name in wanted:
        same = parsed(there[name]) == parsed(wanted[name])
        assert same, f"{name} is not what the chart makes: run {COMMAND}"
    assert there == wanted, f"only comments differ: run {COMMAND}"


SETS = {
    "as it is": "",
    "one replica": "webhook.replicas=1 controller.replicas=1",
    "a controller that only labels": "tls.source=cert-manager controller.extraArgs.log-level=debug",
    "a controller that only remembers": "labelNodes=false tls.source=cert-manager",
    "cert-manager": "tls.source=cert-manager",
    "an issuer that is there": "tls.source=cert-manager tls.issuerRef.name=ca",
    "own files": f"tls.source=secret tls.caBundle={AN_AUTHORITY}",
    "least rights": "labelNodes=false countPods=false",
    "kubelet options": "kubeletConfigs.enabled=true",
    "policy": "policy.defaults[0].warn=best-effort policy.exemptions.users[0]=root",
    "exemptions alone": "policy.exemptions.namespaces[0]=batch",
    "foreign workloads": "workloadKinds.ray=false workloadKinds.kubeflow=false",
    "every workload": (
        "workloadRules[0].apiGroups={*} workloadRules[0].apiVersions={*} workloadRules[0].resources={*}"
    ),
    "workloads of the core group": (
        "workloadRules[0].apiGroups[0]= workloadRules[0].apiVersions={v1} "
        "workloadRules[0].resources={podtemplates}"
    ),
    "no workloads": "workloads=off",
    "host network": "webhook.hostNetwork=true webhook.port=10250",
    "everything on": (
        f"serviceMonitor.enabled=true image.digest=sha256:{ZEROS} imagePullSecrets[0].name=a "
        "priorityClassName=system-node-critical webhook.extraArgs.log-level=debug drainSeconds=60 "
        "webhook.extraArgs.max-bytes-in-flight=268435456 nodeSelector.a=b podLabels.a=b podAnnotations.a=b "
        "tolerations[0].operator=Exists webhook.service.annotations.a=b serviceAccount.annotations.a=b "
        "tls.clientCA=callers webhook.extraArgs.max-connections=64 webhook.extraArgs.max-body-bytes=8388608 "
        "webhooks.annotations.a=b webhooks.matchConditions[0].name=a "
        "webhooks.matchConditions[0].expression=true webhooks.excludedNamespaces={a,b}"
    ),
    "monitoring": (
        f"{EVERY_PART} serviceMonitor.enabled=true prometheusRule.enabled=true prometheusRule.labels.a=b "
        "prometheusRule.alertLabels.team=a dashboard.enabled=true dashboard.annotations.a=b "
        "webhook.extraArgs.audit-log=- tracing.endpoint=http://collector.monitoring:4318 tracing.ratio=1"
    ),
    "gates": "gates.enabled=true policy.defaults[0].gate=enabled policy.defaults[0].default=restricted",
    "healing": "heal.enabled=true policy.defaults[0].heal=failed unknownNodes=may-fit",
    "reports and owners": "policyReports.enabled=true ownerEvents.enabled=true",
    "the map": "map.enabled=true",
    "the map with everything": (
        "map.enabled=true map.port=9000 map.tls.secretName=a map.audience=numalign-map "
        "map.service.enabled=true map.service.annotations.a=b map.ingress.enabled=true map.ingress.host=b.c "
        "map.ingress.className=d map.ingress.annotations.e=f map.ingress.tlsSecretName=g "
        "map.from[0].podSelector.matchLabels.a=b gates.enabled=true heal.enabled=true "
        "policy.defaults[0].warn=best-effort controller.extraArgs.map-review-seconds=30"
    ),
    "a map behind what ends TLS": (
        "map.enabled=true map.plainHttp=true map.ingress.enabled=true map.ingress.host=b"
    ),
    "the scorer": "scorer.enabled=true",
    "the scorer and a scheduler": f"{EVERY_PART}",
    "one of each": f"{EVERY_PART} scorer.replicas=1 scheduler.replicas=1",
    "a scorer that does not bind": f"{EVERY_PART} scorer.reserveAt=prioritize",
    "a scorer with everything": (
        f"{EVERY_PART} scorer.tls.secretName=a scorer.tls.clientCA=b scorer.service.clusterIP=10.96.0.53 "
        "scorer.service.annotations.a=b scorer.callers[0].ipBlock.cidr=10.0.0.11/32 "
        "scorer.callers[0].ipBlock.except={10.0.0.12/32} scorer.callers[1].podSelector.matchLabels.a=b "
        "scorer.ranking.strategies={MostAllocated} scorer.ranking.rankings[0].weights.cpu=3 "
        "scorer.ranking.rankings[0].nodeSelector.matchLabels.a=b policy.exemptions.users[0]=root "
        "scorer.extraArgs.strategies=MostAllocated scorer.extraArgs.weights=cpu=2 "
        "scorer.extraArgs.topology-lag-seconds=1000000 unknownNodes=may-fit "
        "kubeletConfigs.enabled=true serviceMonitor.enabled=true imagePullSecrets[0].name=a "
        "podLabels.a=b podAnnotations.a=b nodeSelector.a=b tolerations[0].operator=Exists "
        f"scheduler.image.digest=sha256:{ZEROS} scheduler.percentageOfNodesToScore=0"
    ),
    "a scorer that listens on IPv6": "scorer.enabled=true scorer.service.clusterIP=fd00::53",
    "the agent": "agent.enabled=true",
    "an agent with everything": (
        "agent.enabled=true agent.publish=always agent.annotatePods=true agent.nodeProxy=true "
        "agent.kubeletConfig=/etc/kubernetes/kubelet.yaml agent.kubeletFolder=/srv/kubelet "
        "agent.kubeletPort=1 agent.hiddenFolders={pods} agent.podSecurityContext.seLinuxOptions.type=spc_t "
        "agent.nodeSelector.a=b agent.affinity.nodeAffinity=null "
        "agent.extraArgs.resync-seconds=30 agent.extraArgs.log-level=debug "
        "scorer.enabled=true serviceMonitor.enabled=true serviceMonitor.labels.a=b podLabels.a=b "
        "podAnnotations.a=b imagePullSecrets[0].name=a serviceAccount.annotations.a=b"
    ),
    "an agent with little": (
        "agent.enabled=true agent.checkpoints=false agent.priorityClassName= agent.tolerations=null "
        "agent.namespace=numalign-system networkPolicy.enabled=false"
    ),
    "an agent that sees all of the folder": "agent.enabled=true agent.hiddenFolders=null",
    "everything off": "networkPolicy.enabled=false priorityClassName= labelNodes=false",
}


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
async def test_every_set_of_values_makes_objects_that_kubernetes_knows(helm: Path, values: str) -> None:
    installation = await made(helm, values)
    check(installation)
    for name in installation.of_pods.keys() & PROGRAMS.keys():
        installation.settings(name, PROGRAMS[name])
    # No role without a right, and the webhook writes nothing.
    roles = {**installation.of_kind("Role"), **installation.of_kind("ClusterRole")}
    assert [name for name, role in roles.items() if not role["rules"]] == []
    ours = [installation.get((kind, WEBHOOK), {}) for kind in ("Role", "ClusterRole")]
    verbs = {verb for role in ours for rule in role.get("rules", ()) for verb in rule["verbs"]}
    assert verbs <= {"get", "list", "watch"}


async def test_guards_come_where_they_are_known_and_wanted(helm: Path) -> None:
    async def guards(values: str, *arguments: str) -> set[str]:
        return {*(await made(helm, values, *arguments)).of_kind("ValidatingAdmissionPolicy")}

    always = {CONTROLLER, "numalign-levels", "numalign-shapes", "numalign-topologies", "numalign-test"}
    assert await guards("", "--kube-version=1.30.0-eks-1") == await guards("") == always
    assert await guards("scorer.enabled=true") == {*always, "numalign-records"}
    assert await guards("gates.enabled=true") == {*always, "numalign-records"}
    for value in ("scorer.enabled=true", "gates.enabled=true"):
        assert await guards(f"{value} scorer.records.guarded=false") == always
    assert await guards("agent.enabled=true") == {*always, AGENT}
    assert await guards("scorer.enabled=true agent.enabled=true", "--kube-version=1.29.9") == set()


DEFAULTS = (
    "policy.defaults[0].enforce=restricted policy.defaults[0].namespaceSelector.matchLabels.team=a"
    " policy.defaults[1].enforce=none policy.defaults[2].warn=restricted"
)


async def levels(helm: Path, values: str) -> dict[str, Any]:
    """The selectors of the namespaces whose levels are kept, by the names of the bindings."""
    found = await made(helm, values)
    return {
        name: each["spec"]["matchResources"]["namespaceSelector"]
        for name, each in found.of_kind("ValidatingAdmissionPolicyBinding").items()
        if each["spec"]["policyName"].startswith("numalign-levels")
    }


async def test_levels_of_the_policy_are_kept_too(helm: Path) -> None:
    bound = await levels(helm, DEFAULTS)

    assert bound.keys() == {"numalign-levels", "numalign-levels-0"}
    assert bound["numalign-levels-0"]["matchLabels"] == {"team": "a"}
    unlabelled = {"key": "numalign.io/enforce", "operator": "DoesNotExist"}
    assert bound["numalign-levels-0"]["matchExpressions"][-1] == unlabelled


async def test_of_several_defaults_the_least_level_so_far_is_kept(helm: Path) -> None:
    """The first one that selects a namespace counts there."""
    levels = ["single-numa-node", "restricted", "single-numa-node"]
    found = await made(
        helm, " ".join(f"policy.defaults[{at}].enforce={each}" for at, each in enumerate(levels))
    )
    bindings, policies = (found.of_kind(f"ValidatingAdmissionPolicy{kind}") for kind in ("Binding", ""))
    bound = [bindings[f"numalign-levels-{at}"]["spec"]["policyName"] for at in range(3)]
    variables = [
        {each["name"]: each["expression"] for each in policies[name]["spec"]["variables"]} for name in bound
    ]

    assert [each["level"] for each in variables] == ["'single-numa-node'", "'restricted'", "'restricted'"]


async def test_no_level_is_kept_that_an_earlier_default_may_have_set_aside(helm: Path) -> None:
    values = "policy.defaults[0].enforce=none policy.defaults[0].namespaceSelector.matchLabels.team=a"
    bound = await levels(helm, f"{values} policy.defaults[1].enforce=restricted")

    assert bound.keys() == {"numalign-levels"}


async def test_no_level_is_kept_in_namespaces_that_the_policy_exempts(helm: Path) -> None:
    exempt = "policy.exemptions.namespaces[0]=playground policy.defaults[0].enforce=restricted"
    left_out = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["playground"]}
    bound = await levels(helm, exempt)

    assert [left_out in each["matchExpressions"] for each in bound.values()] == [True, True]


@pytest.mark.parametrize(
    ("values", "version", "changes"),
    [
        ("", "1.30.0", {}),
        ("", "1.29.9", {"changes.enforce.numalign.io": "Fail"}),
        (
            DEFAULTS,
            "1.28.0-eks-1",
            {"changes.enforce.numalign.io": "Fail", "changes.validate.numalign.io": "Ignore"},
        ),
    ],
)
async def test_without_such_policies_the_webhook_judges_changes(
    helm: Path, values: str, version: str, changes: dict[str, str]
) -> None:
    found = await made(helm, values, f"--kube-version={version}")
    called = {
        each["name"]: each
        for each in found["ValidatingWebhookConfiguration", "zz-numalign"]["webhooks"]
        if each["name"].startswith("changes.")
    }

    assert {name: each["failurePolicy"] for name, each in called.items()} == changes
    for each in called.values():
        assert [(rule["operations"], rule["resources"]) for rule in each["rules"]] == [
            (["UPDATE"], ["pods", "pods/*"]),
            (["CREATE"], ["pods/binding", "bindings"]),
        ]
        assert [condition["name"] for condition in each["matchConditions"]] == [
            "changed",
            "not-by-a-scheduler",
        ]


async def test_whoever_else_writes_records_is_named(helm: Path) -> None:
    writers = "scorer.records.writers={system:serviceaccount:kai-scheduler:binder,exporter@example.com}"
    found = await made(helm, f"scorer.enabled=true {writers}")
    [condition] = found["ValidatingAdmissionPolicy", "numalign-records"]["spec"]["matchConditions"]

    assert condition["expression"] == (
        f"!(request.userInfo.username in ['system:serviceaccount:{NAMESPACE}:numalign-scorer',"
        "'system:serviceaccount:kai-scheduler:binder','exporter@example.com'])"
    )
    for odd in ("a'b", 'a"b', "a b", "a\\\\b", ""):
        with pytest.raises(HelmError):
            await template(
                helm, "--set=scorer.enabled=true", f"--set-json=scorer.records.writers={json.dumps([odd])}"
            )


async def test_agents_that_annotate_pods_are_named_too(helm: Path) -> None:
    account = "system:serviceaccount:numalign-agent:numalign-agent"
    for value in ("true", "false"):
        found = await made(helm, f"scorer.enabled=true agent.enabled=true agent.annotatePods={value}")
        [condition] = found["ValidatingAdmissionPolicy", "numalign-records"]["spec"]["matchConditions"]
        assert (f"'{account}'" in condition["expression"]) == (value == "true")


@pytest.mark.parametrize(
    ("values", "writers"),
    [
        ("gates.enabled=true", [CONTROLLER]),
        ("gates.enabled=true scorer.enabled=true", [SCORER, CONTROLLER]),
        ("heal.enabled=true scorer.enabled=true", [SCORER]),
    ],
)
async def test_records_are_written_by_whoever_places_pods(
    helm: Path, values: str, writers: list[str]
) -> None:
    found = await made(helm, values)
    [condition] = found["ValidatingAdmissionPolicy", "numalign-records"]["spec"]["matchConditions"]
    accounts = ",".join(f"'system:serviceaccount:{NAMESPACE}:{writer}'" for writer in writers)
    assert condition["expression"] == f"!(request.userInfo.username in [{accounts}])"


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ("", "none"),
        ("policy.defaults[0].heal=none", "none"),
        ("policy.defaults[0].heal=failed policy.defaults[1].warn=restricted", "failed"),
        ("policy.defaults[0].heal=running policy.defaults[1].heal=failed", "running"),
    ],
)
async def test_in_a_namespace_that_says_nothing_the_controller_removes_what_the_policy_lets_it(
    helm: Path, values: str, most: str
) -> None:
    found = await made(helm, values)
    variables = found["ValidatingAdmissionPolicy", CONTROLLER]["spec"]["variables"]
    [healed] = [each["expression"] for each in variables if each["name"] == "heal"]
    assert healed.endswith(f".orValue('{most}')")


async def test_traces_are_let_out_to_their_receiver_and_to_nobody_without_one(helm: Path) -> None:
    values = "tracing.endpoint=https://collector.monitoring:4318/otlp scorer.enabled=true"
    peer = "tracing.to[0].namespaceSelector.matchLabels.a=b"
    found, plain = await made(helm, f"{values} {peer}"), await made(helm, "scorer.enabled=true")
    for name in (WEBHOOK, SCORER, CONTROLLER):
        told = found.settings(name, PROGRAMS[name])
        assert isinstance(told, ServingSettings)
        assert (told.otlp_endpoint, told.trace_ratio) == ("https://collector.monitoring:4318/otlp", 0.01)
        out, before = (each["NetworkPolicy", name]["spec"]["egress"] for each in (found, plain))
        assert [rule for rule in out if rule not in before] == [
            {
                "ports": [{"protocol": "TCP", "port": 4318}],
                "to": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
            }
        ]
        assert not any("otlp" in flag for flag in plain.container(name)["args"])


async def test_the_certificate_is_made_as_the_settings_say(helm: Path) -> None:
    found = await made(helm, "tls.days=30 tls.extraNames={127.0.0.1}")
    controller, webhook = (
        found.settings(CONTROLLER, ControllerSettings),
        found.settings(WEBHOOK, WebhookSettings),
    )
    assert (controller.tls_days, controller.names, webhook.names) == (30, ("127.0.0.1",), ("127.0.0.1",))


@pytest.mark.parametrize("name", [WEBHOOK, CONTROLLER])
async def test_a_policy_is_mounted_as_the_program_reads_it(helm: Path, name: str) -> None:
    values = "policy.defaults[0].warn=restricted policy.exemptions.users[0]=root"
    found = await made(helm, f"heal.enabled=true {values}")
    cluster_policy = policy.parse(found["ConfigMap", "numalign-policy"]["data"]["policy.yaml"].encode())
    assert cluster_policy.exemptions.users == ("root",)
    assert [default.rules.warn for default in cluster_policy.defaults] == ["restricted"]
    container = found.container(name)
    assert "--policy=/etc/numalign/policy.yaml" in container["args"]
    assert {"name": "policy", "mountPath": "/etc/numalign", "readOnly": True} in container["volumeMounts"]
    assert {"name": "policy", "configMap": {"name": "numalign-policy"}} in found.pod(name)["volumes"]


async def test_a_controller_that_sees_few_pods_has_the_policy_and_little_memory(helm: Path) -> None:
    values = "policy.defaults[0].heal=failed"
    alone, with_pods = await made(helm, values), await made(helm, f"{values} heal.enabled=true")
    # The policy exempts pods from reports that a kubelet rejected them.
    assert "--policy=/etc/numalign/policy.yaml" in alone.container(CONTROLLER)["args"]
    assert [each["name"] for each in alone.pod(CONTROLLER)["volumes"]] == ["tmp", "policy"]
    limits = [found.container(CONTROLLER)["resources"]["limits"]["memory"] for found in (alone, with_pods)]
    assert limits == ["512Mi", "768Mi"]


async def test_how_long_pods_wait_and_how_many_are_removed_is_what_the_values_say(helm: Path) -> None:
    gates = "gates.enabled=true gates.patienceSeconds=0 gates.pinPatienceSeconds=90"
    heal = "heal.enabled=true heal.keepRefused=0 heal.perMinute=2 heal.ownerSeconds=60 heal.nodeSeconds=30"
    found = await made(helm, f"{gates} {heal}")
    told = found.settings(CONTROLLER, ControllerSettings)
    assert found.settings(WEBHOOK, WebhookSettings).gates
    assert (told.gates, told.gate_patience_seconds, told.pin_patience_seconds) == (True, 0, 90)
    assert (told.heal, told.keep_refused, told.heal_per_minute) == (True, 0, 2)
    assert (told.heal_owner_seconds, told.heal_node_seconds) == (60, 30)


async def test_what_is_told_of_pods_is_what_the_values_say(helm: Path) -> None:
    found = await made(helm, "policyReports.enabled=true ownerEvents.enabled=true")
    told = found.settings(CONTROLLER, ControllerSettings)
    assert (told.policy_reports, told.owner_events, told.watches_pods) == (True, True, True)
    assert not told.acts_on_pods
    # The role owns the reports, and goes with the value.
    assert ("ClusterRole", "numalign-reports") in found
    assert ("ClusterRole", "numalign-reports") not in await made(helm, "ownerEvents.enabled=true")


async def test_a_map_is_reached_by_port_forward_alone_unless_more_is_wanted(helm: Path) -> None:
    found = await made(helm, "map.enabled=true")
    told = found.settings(CONTROLLER, ControllerSettings)
    assert (told.map, told.map_port, told.map_bind, told.acts_on_pods) == (True, 8081, "127.0.0.1", False)
    assert ("Service", "numalign-map") not in found
    assert len(found["NetworkPolicy", CONTROLLER]["spec"]["ingress"]) == 1


async def test_a_map_for_others_is_served_with_a_certificate_to_whom_it_is_meant_for(helm: Path) -> None:
    found = await made(helm, SETS["the map with everything"])
    told = found.settings(CONTROLLER, ControllerSettings)
    assert (told.map_bind, told.map_port, told.map_audience) == ("*", 9000, "numalign-map")
    assert str(told.map_tls_cert) == "/etc/numalign-map/tls.crt"
    assert told.map_review_seconds == 30

    [port] = found["Service", "numalign-map"]["spec"]["ports"]
    [metrics, served] = found.container(CONTROLLER)["ports"]
    assert (port["targetPort"], served["containerPort"], metrics["name"]) == ("map", 9000, "metrics")
    [rule] = found["Ingress", "numalign-map"]["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "numalign-map", "port": {"name": port["name"]}}
    [_, people] = found["NetworkPolicy", CONTROLLER]["spec"]["ingress"]
    assert people == {
        "ports": [{"protocol": "TCP", "port": 9000}],
        "from": [{"podSelector": {"matchLabels": {"a": "b"}}}],
    }


async def test_people_are_given_the_map_by_a_role_that_lists_topologies_and_nothing_else(helm: Path) -> None:
    found = await made(helm, "map.enabled=true")
    assert found["ClusterRole", "numalign-map-viewer"]["rules"] == [
        {"apiGroups": ["topology.node.k8s.io"], "resources": ["noderesourcetopologies"], "verbs": ["list"]}
    ]


async def test_with_the_map_alone_the_controller_may_write_nothing_more(helm: Path) -> None:
    def rules(found: Installation) -> list[Any]:
        # It has one of each kind, of one name.
        named = (found[kind, CONTROLLER] for kind in ("ClusterRole", "Role"))
        return [rule for role in named for rule in role["rules"]]

    without, found = rules(await made(helm)), rules(await made(helm, "map.enabled=true"))
    more = [rule for rule in found if rule not in without]
    assert all(rule in found for rule in without)
    assert [(rule["resources"], rule["verbs"]) for rule in more] == [
        (["deviceclasses"], ["list", "watch"]),
        (["tokenreviews"], ["create"]),
        (["subjectaccessreviews"], ["create"]),
    ]


async def test_whoever_follows_pods_judges_as_the_webhook_does(helm: Path) -> None:
    values = "unknownNodes=may-fit policyMatch=equal controller.extraArgs.policy-reload-seconds=5"
    told = (await made(helm, f"heal.enabled=true {values}")).settings(CONTROLLER, ControllerSettings)
    assert (told.unknown_nodes, told.policy_match, told.policy_reload_seconds) == ("may-fit", "equal", 5)
    assert (told.gates, told.heal) == (False, True)


@pytest.mark.parametrize(
    ("value", "all_pods"),
    [
        ("policy.defaults[0].warn=restricted", True),
        ("policy.defaults[0].gate=enabled policy.defaults[1].default=restricted", True),
        # What says nothing of its own is not placed by anybody else either.
        ("policy.defaults[0].gate=enabled", False),
        ("policy.exemptions.users[0]=root", False),
    ],
)
async def test_where_the_cluster_has_defaults_pods_that_say_nothing_are_sent_too(
    helm: Path, value: str, *, all_pods: bool
) -> None:
    entries = (await made(helm, value)).entries
    names = {condition["name"] for entry in entries for condition in entry.get("matchConditions", ())}
    assert ("annotated" not in names) == all_pods


def mounted(found: Installation, name: str, volume: str) -> str:
    """Where the container of a Deployment has a volume."""
    [mount] = [mount for mount in found.container(name)["volumeMounts"] if mount["name"] == volume]
    return str(mount["mountPath"])


def secrets_of(found: Installation, name: str) -> list[dict[str, Any]]:
    return [volume["secret"] for volume in found.pod(name)["volumes"] if "secret" in volume]


async def test_a_certificate_in_files_is_mounted_and_its_authority_told_to_api_servers(helm: Path) -> None:
    found = await made(helm, f"tls.source=secret tls.secretName=mine tls.caBundle={AN_AUTHORITY}")
    loaded = found.settings(WEBHOOK, WebhookSettings)
    assert (loaded.tls_secret, str(loaded.tls_cert)) == (None, f"{mounted(found, WEBHOOK, 'tls')}/tls.crt")
    assert [secret["secretName"] for secret in secrets_of(found, WEBHOOK)] == ["mine"]
    assert {entry["clientConfig"]["caBundle"] for entry in found.entries} == {AN_AUTHORITY}


async def test_cert_manager_is_asked_for_the_name_that_api_servers_call(helm: Path) -> None:
    found = await made(helm, "tls.source=cert-manager")
    certificate = found["Certificate", WEBHOOK]["spec"]
    assert certificate["dnsNames"] == ["numalign-webhook.numalign-system.svc"]
    assert ("Issuer", certificate["issuerRef"]["name"]) in found
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = found[kind, "zz-numalign"]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "numalign-system/numalign-webhook"}


def excluded(found: Installation) -> set[tuple[str, ...]]:
    """The namespaces that the webhooks leave out."""
    return {tuple(entry["namespaceSelector"]["matchExpressions"][0]["values"]) for entry in found.entries}


async def test_another_namespace_is_meant_everywhere(helm: Path) -> None:
    found = await made(helm, EVERY_PART, "--namespace=elsewhere")
    assert "numalign-system" not in json.dumps([*found.values()])
    assert excluded(found) == {("kube-system", "kube-node-lease", "elsewhere", AGENT_NAMESPACE)}


def at(key: str, value: object) -> Iterator[object]:
    """Whatever stands at that key, anywhere."""
    match value:
        case dict():
            yield from (inner for name, inner in value.items() if name == key and not isinstance(inner, dict))
            yield from chain.from_iterable(at(key, inner) for inner in value.values())
        case list():
            yield from chain.from_iterable(at(key, inner) for inner in value)


@pytest.mark.parametrize("name", ["123", "1e3", "no", "null"])
@pytest.mark.parametrize("source", ["own", "cert-manager", "secret"])
async def test_a_name_that_looks_like_something_else_stays_a_name(
    helm: Path, tmp_path: Path, name: str, source: str
) -> None:
    values = {
        "tls": {"source": source, "secretName": name, "caBundle": "1234" * (source == "secret")},
        "priorityClassName": name,
        "image": {"repository": name},
        "imagePullSecrets": [{"name": name}],
        "webhooks": {"excludedNamespaces": [name, "kube-system"]},
        "workloadRules": [{"apiGroups": [name], "apiVersions": [name], "resources": [name]}],
        "scorer": {"enabled": True, "tls": {"secretName": name}},
        "scheduler": {"enabled": True},
    }
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    found = await made(helm, "", f"--namespace={name}", f"--values={file}")
    check(found)
    documents = [*found.values()]
    assert {*at("namespace", documents)} == {name, TESTED}
    assert {*at("secretName", documents)} <= {name, "numalign-authority"}
    assert {*at("priorityClassName", documents)} == {name}
    assert excluded(found) == {(name, "kube-system", AGENT_NAMESPACE)}


async def test_one_replica_alone_may_be_moved(helm: Path) -> None:
    """A budget of one out of one would keep its node from ever being drained."""
    found = await made(helm, f"{EVERY_PART} webhook.replicas=1 controller.replicas=1 scheduler.replicas=1")
    assert found.of_kind("PodDisruptionBudget") == {}


# ---- the scorer, and a scheduler that asks it


async def test_who_wants_the_scorer_gets_the_webhook_as_it_is(helm: Path) -> None:
    with_parts, without = await made(helm, EVERY_PART), await made(helm)
    assert without.items() <= with_parts.items()
    assert with_parts.keys() - without.keys() == {
        *installed(*PARTS, SCORER_GUARD, AGENT_GUARD),
        DEFINITION,
    }


async def test_where_the_scheduler_binds_by_itself_the_scorer_reserves_when_it_ranks(helm: Path) -> None:
    found = await made(helm, f"{EVERY_PART} scorer.reserveAt=prioritize")
    assert found.settings(SCORER, ScorerSettings).reserve_at is ReserveAt.PRIORITIZE
    assert "bindVerb" not in found.scheduler_configuration()["extenders"][0]


async def test_with_a_certificate_the_scheduler_trusts_its_authority_and_nobody_else(helm: Path) -> None:
    found = await made(helm, f"{EVERY_PART} scorer.tls.secretName=pair")
    [extender], settled = found.scheduler_configuration()["extenders"], found.settings(SCORER, ScorerSettings)
    assert extender["urlPrefix"] == "https://numalign-scorer.numalign-system.svc"
    trusted = f"{mounted(found, SCHEDULER, 'authority')}/ca.crt"
    assert (extender["enableHTTPS"], extender["tlsConfig"]) == (True, {"caFile": trusted})
    folder = mounted(found, SCORER, "tls")
    pair = (str(settled.tls_cert), str(settled.tls_key))
    assert pair == (f"{folder}/tls.crt", f"{folder}/tls.key")
    [port] = found["Service", SCORER]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "https")
    probe = found.container(SCORER)["readinessProbe"]["httpGet"]
    assert (probe["port"], probe["scheme"]) == ("metrics", "HTTP")
    # The key of the scorer stays where it is.
    items = [{"key": "ca.crt", "path": "ca.crt"}]
    assert secrets_of(found, SCHEDULER) == [{"secretName": "pair", "defaultMode": 0o440, "items": items}]


async def test_callers_are_let_in_besides_our_own_scheduler_and_the_address_stays(helm: Path) -> None:
    found = await made(
        helm,
        "scorer.enabled=true scorer.callers[0].ipBlock.cidr=10.0.0.11/32 scorer.service.clusterIP=10.96.0.53"
        " scorer.callers[1].namespaceSelector.matchLabels.a=b",
    )
    calls, metrics = found["NetworkPolicy", SCORER]["spec"]["ingress"]
    assert calls["from"][1:] == [
        {"ipBlock": {"cidr": "10.0.0.11/32"}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    ]
    assert metrics.keys() == {"ports"}
    assert found["Service", SCORER]["spec"]["clusterIP"] == "10.96.0.53"


@pytest.mark.parametrize("name", [WEBHOOK, SCORER])
async def test_metrics_are_read_where_they_are_served_and_who_reads_them_may_not_call(
    helm: Path, name: str
) -> None:
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
    monitor, service, container = found["ServiceMonitor", name], found["Service", name], found.container(name)
    [endpoint], [_, port] = monitor["spec"]["endpoints"], service["spec"]["ports"]
    assert (endpoint["port"], port["port"]) == (port["name"], 9090)
    ports = {opened["name"]: opened["containerPort"] for opened in container["ports"]}
    assert ports[port["targetPort"]] == 9090
    assert "--metrics-port=9090" in container["args"]
    assert endpoint.keys() == {"port", "path", "interval"}
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()


RANKING = (
    "scorer.ranking.strategies={LeastNUMANodes} scorer.ranking.rankings[0].nodeSelector.matchLabels.pool=gpu"
    r" scorer.ranking.rankings[0].weights.nvidia\.com/gpu=5"
)


async def test_rankings_and_the_policy_of_the_cluster_are_mounted_as_the_scorer_reads_them(
    helm: Path,
) -> None:
    found = await made(helm, f"scorer.enabled=true policy.exemptions.users[0]=root {RANKING}")
    text = found["ConfigMap", "numalign-ranking"]["data"]["ranking.yaml"]
    default = Ranking(ranking.parse_strategies("MostAllocated"), {})
    [choice] = ranking_file.parse(text.encode(), default=default).choices
    assert choice.ranking.weights == {"nvidia.com/gpu": 5}
    [volume] = [volume for volume in found.pod(SCORER)["volumes"] if volume["name"] == "configuration"]
    names = [source["configMap"]["name"] for source in volume["projected"]["sources"]]
    assert names == ["numalign-policy", "numalign-ranking"]
    loaded = found.settings(SCORER, ScorerSettings)
    assert mounted(found, SCORER, "configuration") == "/etc/numalign"
    assert str(loaded.ranking) == "/etc/numalign/ranking.yaml"
    assert str(loaded.policy) == "/etc/numalign/policy.yaml"


async def test_both_programs_judge_alike(helm: Path) -> None:
    found = await made(helm, "scorer.enabled=true unknownNodes=may-fit policyMatch=equal")
    webhook, scorer = found.settings(WEBHOOK, WebhookSettings), found.settings(SCORER, ScorerSettings)
    assert (scorer.unknown_nodes, scorer.policy_match) == ("may-fit", webhook.policy_match)
    assert webhook.unknown_nodes == "may-fit"


@pytest.mark.parametrize(
    ("name", "value"), [(SCORER, RANKING.split(maxsplit=1)[0]), (SCHEDULER, "scheduler.weight=7")]
)
async def test_what_is_read_once_is_read_anew_when_it_changes(helm: Path, name: str, value: str) -> None:
    before, after = (
        found["Deployment", name]["spec"]["template"]["metadata"]["annotations"]
        for found in (await made(helm, EVERY_PART), await made(helm, f"{EVERY_PART} {value}"))
    )
    assert before != after


@pytest.mark.parametrize(
    ("value", "image"),
    [
        ("tag=v1.33.1", "registry.k8s.io/kube-scheduler:v1.33.1"),
        (f"digest=sha256:{ZEROS}", f"registry.k8s.io/kube-scheduler@sha256:{ZEROS}"),
        ("repository=example.com/a", "example.com/a:v1.34.4"),
    ],
)
async def test_the_scheduler_is_of_the_version_that_is_asked_for(helm: Path, value: str, image: str) -> None:
    found = await made(helm, f"{EVERY_PART} scheduler.image.{value}")
    assert found.container(SCHEDULER)["image"] == image


VERSIONS = [
    # what a cluster says that it is, and the kube-scheduler that it gets
    ("Kubernetes' own",          "v1.34.2",                    "v1.34.2"),
    ("without a v",              "1.34.2",                     "v1.34.2"),
    ("one that is not out yet",  "v1.38.0-rc.1",               "v1.38.0-rc.1"),
    ("EKS",                      "v1.34.2-eks-1a2b3c4",        "v1.34.2"),
    ("GKE",                      "v1.33.5-gke.1080000",        "v1.33.5"),
    ("AKS",                      "v1.33.4",                    "v1.33.4"),
    ("AKS with long support",    "v1.28.102-akslts",           "v1.28.15"),
    ("k3s",                      "v1.34.1+k3s1",               "v1.34.1"),
    ("OpenShift",                "v1.32.6",                    "v1.32.6"),
    ("one that is built anew",   "v1.35.0-alpha.1.23+0a1b2c3", "v1.35.0-alpha.1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart that prints the tag of a version: of `--kube-version` helm keeps three numbers alone."""
    folder = tmp_path_factory.mktemp("upstream")
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("{apiVersion: v2, name: upstream, version: 0.0.0}")
    shutil.copy(CHART / "templates" / "_helpers.tpl", folder / "templates")
    (folder / "templates" / "tag.yaml").write_text(
        'tag: {{ include "numalign.upstream" .Values.version | quote }}'
    )
    return folder


@pytest.mark.parametrize(("version", "tag"), table(VERSIONS))
async def test_the_scheduler_is_of_the_version_of_the_cluster(
    helm: Path, upstream: Path, version: str, tag: str
) -> None:
    [made_of_it] = parsed(await run(helm, "template", "x", upstream, f"--set-string=version={version}"))
    assert made_of_it == {"tag": tag}


@pytest.mark.parametrize("version", ["v1.99.100", "one", "v1"])
async def test_a_version_of_which_nothing_is_known_is_left_to_people(
    helm: Path, upstream: Path, version: str
) -> None:
    with pytest.raises(HelmError, match=r"set scheduler\.image\.tag"):
        await run(helm, "template", "x", upstream, f"--set-string=version={version}")


async def test_the_image_follows_the_cluster_that_is_installed_to(helm: Path) -> None:
    found = await made(helm, EVERY_PART, "--kube-version=v1.31.9")
    assert found.container(SCHEDULER)["image"] == "registry.k8s.io/kube-scheduler:v1.31.9"


TAGS = [
    # what is asked for               the cluster, whether it is taken
    ("the cluster's minor version",   "v1.34.1", "v1.34.4", True),
    ("an earlier patch of that",      "v1.34.9", "v1.34.4", True),
    ("the one before",                "v1.33.9", "v1.34.4", True),
    ("one of two before",             "v1.32.9", "v1.34.4", False),
    ("a newer one",                   "v1.35.0", "v1.34.4", False),
    ("a newer one without a patch",   "1.35",    "v1.34.4", False),
    ("one of another major version",  "v2.34.0", "v1.34.4", False),
    ("a name of one's own",           "ours-7",  "v1.34.4", True),
]  # fmt: skip


@pytest.mark.parametrize(("tag", "cluster", "taken"), table(TAGS))
async def test_a_scheduler_that_does_not_fit_the_cluster_is_refused(
    helm: Path, tag: str, cluster: str, *, taken: bool
) -> None:
    asked = made(helm, f"{EVERY_PART} scheduler.image.tag={tag}", f"--kube-version={cluster}")
    if taken:
        assert (await asked).container(SCHEDULER)["image"] == f"registry.k8s.io/kube-scheduler:{tag}"
        return
    with pytest.raises(HelmError, match=re.escape(f"scheduler.image.tag is {tag} and the cluster {cluster}")):
        await asked


async def test_a_scheduler_that_is_not_wanted_or_pinned_is_of_any_version(helm: Path) -> None:
    await made(helm, "scheduler.image.tag=v1.37.0")
    digest = f"scheduler.image.digest=sha256:{ZEROS}"
    pinned = await made(helm, f"{EVERY_PART} scheduler.image.tag=v1.37.0 {digest}")
    assert pinned.container(SCHEDULER)["image"] == f"registry.k8s.io/kube-scheduler@sha256:{ZEROS}"


# ---- the agent


def agent_rights(found: Installation) -> set[tuple[str, str]]:
    rules = found["ClusterRole", AGENT]["rules"]
    return {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}


async def test_an_agent_lives_in_a_namespace_of_its_own_or_in_that_of_the_release(helm: Path) -> None:
    own = await made(helm, "agent.enabled=true agent.namespace=elsewhere")
    level = own["Namespace", "elsewhere"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert level == "privileged"
    user = "'system:serviceaccount:elsewhere:numalign-agent'"
    for policy_name in (AGENT, "numalign-topologies"):
        [condition] = own["ValidatingAdmissionPolicy", policy_name]["spec"]["matchConditions"]
        assert user in condition["expression"]
    shared = await made(helm, f"agent.enabled=true agent.namespace={NAMESPACE}")
    assert shared.of_kind("Namespace") == {}
    assert {*at("namespace", [*shared.values()])} == {NAMESPACE, TESTED}


async def test_an_agent_without_checkpoints_has_the_folder_of_the_socket_alone(helm: Path) -> None:
    found = await made(helm, "agent.enabled=true agent.checkpoints=false agent.kubeletFolder=/srv/kubelet")
    folders = [each["hostPath"]["path"] for each in found.pod(AGENT)["volumes"] if "hostPath" in each]
    assert folders == ["/srv/kubelet/pod-resources"]
    assert not any("--kubelet-state" in argument for argument in found.container(AGENT)["args"])


async def test_an_agent_that_reads_a_file_may_ask_kubelets_nothing(helm: Path) -> None:
    found = await made(helm, "agent.enabled=true agent.kubeletConfig=/etc/kubelet.yaml")
    told = found.settings(AGENT, AgentSettings)
    assert str(told.kubelet_config) == mounted(found, AGENT, "kubelet-config")
    assert not {right for right in agent_rights(found) if right[1].startswith("nodes/")}
    assert ("list", "pods") in agent_rights(found)
    assert ("get", "nodes/pods") in agent_rights(await made(helm, "agent.enabled=true"))


async def test_the_definition_of_topologies_comes_where_there_is_none_and_stays(helm: Path) -> None:
    found = await made(helm, "agent.enabled=true")
    [shipped] = parsed((DEPLOY / "crd" / "noderesourcetopologies.yaml").read_text())
    assert found[DEFINITION] == shipped
    assert shipped["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    for values, known in (("agent.enabled=true", f"--api-versions={TOPOLOGIES}"), ("", "")):
        assert DEFINITION not in await made(helm, values, *filter(None, [known]))


async def test_the_agent_is_of_an_image_of_its_own(helm: Path) -> None:
    found = await made(helm, f"agent.enabled=true agent.image.digest=sha256:{ZEROS} image.tag=v9")
    assert found.container(AGENT)["image"] == f"numalign-agent@sha256:{ZEROS}"
    assert found.container(WEBHOOK)["image"] == "numalign-webhook:v9"


async def test_an_agent_is_told_what_the_values_say(helm: Path) -> None:
    values = (
        "agent.publish=never agent.annotatePods=true agent.kubeletPort=1250 agent.extraArgs.resync-seconds=9"
    )
    told = (await made(helm, f"agent.enabled=true metricsPort=9090 {values}")).settings(AGENT, AgentSettings)
    assert (told.publish, told.annotate_pods) == (Publish.NEVER, True)
    assert (told.kubelet_port, told.resync_seconds, told.metrics_port) == (1250, 9, 9090)


async def test_metrics_of_agents_are_read_from_their_pods(helm: Path) -> None:
    found = await made(helm, "agent.enabled=true serviceMonitor.enabled=true metricsPort=9090")
    spec = found["PodMonitor", AGENT]["spec"]
    [endpoint], [port] = spec["podMetricsEndpoints"], found.container(AGENT)["ports"]
    assert (endpoint["port"], port["containerPort"]) == (port["name"], 9090)
    labels = found.of_pods[AGENT]["spec"]["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()


CONDITION = "webhooks.matchConditions[0]"
REFUSED = [
    # what is wrong, the values, and what helm says of it
    ("no such value", "replica=2", "'replica'"),
    ("no such setting", "webhook.extraArgs.log-levl=debug", "'log-levl'"),
    ("a setting with a value of its own",
     "webhook.extraArgs.port=1", "webhook.extraArgs.port: the chart sets --port itself; set webhook.port"),
    ("a bad choice", "workloads=refuse", "at '/workloads'"),
    ("a bad choice of a setting", "webhook.extraArgs.injection=force", "at '/webhook/extraArgs/injection'"),
    ("none at all", "webhook.replicas=0", "at '/webhook/replicas'"),
    ("a version that moves", "image.tag=latest", "at '/image/tag'"),
    ("half a digest", "image.digest=sha256:0", "at '/image/digest'"),
    ("a number in words", "webhook.port=https", "at '/webhook/port'"),
    ("a privileged port", "webhook.port=443", "at '/webhook/port'"),
    ("own files without an authority", "tls.source=secret", "at '/tls/caBundle'"),
    ("an authority for our own", f"tls.caBundle={AN_AUTHORITY}", "at '/tls/caBundle'"),
    ("an issuer for our own", "tls.issuerRef.name=ca", "at '/tls/issuerRef'"),
    ("a policy that does not exist", "policy.defaults[0].warn=strict", "at '/policy/defaults/0/warn'"),
    ("a gate that is neither", "policy.defaults[0].gate=on", "at '/policy/defaults/0/gate'"),
    ("a scheduler of no name", "policy.defaults[0].scheduler=My_own", "at '/policy/defaults/0/scheduler'"),
    ("a patience of no time", "gates.pinPatienceSeconds=0", "at '/gates/pinPatienceSeconds'"),
    ("a policy misspelled", "policy.default[0].warn=none", "'default'"),
    ("a kind that is not known", "workloadKinds.spark=true", "'spark'"),
    ("a rule without resources", "workloadRules[0].apiGroups={a}", "at '/workloadRules/0'"),
    ("a rule of every group and of one",
     ("workloadRules[0].apiGroups={*,apps} workloadRules[0].apiVersions={v1} "
      "workloadRules[0].resources={a}"), "at '/workloadRules/0/apiGroups'"),
    ("a rule of what stands below an object",
     ("workloadRules[0].apiGroups={apps} workloadRules[0].apiVersions={v1} "
      "workloadRules[0].resources={deployments/scale}"), "at '/workloadRules/0/resources/0'"),
    ("a name that no object can have", "tls.secretName=a..b", "at '/tls/secretName'"),
    ("a namespace that there cannot be", "webhooks.excludedNamespaces={a.b}", "/excludedNamespaces/0'"),
    ("a priority of no name", "priorityClassName=High", "at '/priorityClassName'"),
    ("a label that selects our pods",
     r"podLabels.app\.kubernetes\.io/name=a", "at '/podLabels/app.kubernetes.io~1name'"),
    ("another that does",
     r"podLabels.app\.kubernetes\.io/component=a", "at '/podLabels/app.kubernetes.io~1component'"),
    ("an annotation that is there already",
     r"podAnnotations.kubectl\.kubernetes\.io/default-container=a",
     "at '/podAnnotations/kubectl.kubernetes.io~1default-container'"),
    ("an authority from elsewhere",
     r"webhooks.annotations.cert-manager\.io/inject-ca-from=a/b",
     "at '/webhooks/annotations/cert-manager.io~1inject-ca-from'"),
    ("a label that every object has",
     r"serviceMonitor.labels.helm\.sh/chart=a", "at '/serviceMonitor/labels/helm.sh~1chart'"),
    ("a path with a name missing",
     "policy.workloads[0].kind=TrainJob policy.workloads[0].templates={spec..x}",
     "at '/policy/workloads/0/templates/0'"),
    ("a user with * in the middle", "policy.exemptions.users={a*b}", "at '/policy/exemptions/users/0'"),
    ("a selector of a label that there cannot be",
     "policy.defaults[0].warn=none policy.defaults[0].namespaceSelector.matchLabels.a_=b",
     "at '/policy/defaults/0/namespaceSelector/matchLabels'"),
    ("a selector of no values",
     ("policy.defaults[0].warn=none "
      "policy.defaults[0].namespaceSelector.matchExpressions[0].key=a "
      "policy.defaults[0].namespaceSelector.matchExpressions[0].operator=In"),
      "at '/policy/defaults/0/namespaceSelector/matchExpressions/0'"),
    ("a default that asks for nothing",
     "policy.defaults[0].namespaceSelector.matchLabels.a=b", "at '/policy/defaults/0'"),
    ("a map that tells tokens to the network",
     "map.enabled=true map.service.enabled=true", "at '/map/tls/secretName'"),
    ("a map with a certificate and without TLS",
     "map.plainHttp=true map.tls.secretName=a", "at '/map/tls/secretName'"),
    ("an Ingress of no name",
     "map.plainHttp=true map.ingress.enabled=true", "at '/map/ingress/host'"),
    ("a map at a privileged port", "map.port=443", "at '/map/port'"),
    ("an audience of two words", "map.audience=aä", "at '/map/audience'"),
    ("a scheduler without a scorer", "scheduler.enabled=true", "at '/scorer/enabled'"),
    ("a reservation at another time", "scorer.reserveAt=filter", "at '/scorer/reserveAt'"),
    ("a setting of the scorer that has a value of its own",
     "scorer.extraArgs.reserve-at=bind",
     "scorer.extraArgs.reserve-at: the chart sets --reserve-at itself; set scorer.reserveAt"),
    ("a setting of all programs for one of them",
     "scorer.extraArgs.unknown-nodes=may-fit",
     "scorer.extraArgs.unknown-nodes: the chart sets --unknown-nodes itself; set unknownNodes"),
    ("a strategy that does not exist",
     "scorer.extraArgs.strategies=Fastest", "at '/scorer/extraArgs/strategies'"),
    ("a strategy that does not exist, of some nodes",
     ("scorer.ranking.rankings[0].nodeSelector.matchLabels.a=b "
      "scorer.ranking.rankings[0].strategies={Fastest}"), "at '/scorer/ranking/rankings/0/strategies/0'"),
    ("a ranking of no nodes",
     ("scorer.ranking.rankings[0].nodeSelector.matchLabels=null "
      "scorer.ranking.rankings[0].strategies={MostAllocated}"),
      "at '/scorer/ranking/rankings/0/nodeSelector'"),
    ("a ranking that says nothing",
     "scorer.ranking.rankings[0].nodeSelector.matchLabels.a=b",
     "at '/scorer/ranking/rankings/0'"),
    ("a weight of nothing", "scorer.ranking.weights.cpu=0", "at '/scorer/ranking/weights/cpu'"),
    ("a caller that is everybody", "scorer.callers[0].podSelectors.a=b", "at '/scorer/callers/0'"),
    ("a caller that is an address and pods",
     "scorer.callers[0].ipBlock.cidr=10.0.0.1/32 scorer.callers[0].podSelector.matchLabels.a=b",
     "at '/scorer/callers/0'"),
    ("an address without its range",
     "scorer.callers[0].ipBlock.cidr=10.0.0.1", "at '/scorer/callers/0/ipBlock/cidr'"),
    ("no address of the Service", "scorer.service.clusterIP=None", "at '/scorer/service/clusterIP'"),
    ("a weight without effect", "scheduler.weight=0", "at '/scheduler/weight'"),
    ("more nodes than there are",
     "scheduler.percentageOfNodesToScore=101", "at '/scheduler/percentageOfNodesToScore'"),
    ("a scheduler of a version that moves", "scheduler.image.tag=latest", "at '/scheduler/image/tag'"),
    ("an agent that writes otherwise", "agent.publish=sometimes", "at '/agent/publish'"),
    ("a setting of the agent that has a value of its own",
     "agent.extraArgs.publish=never",
     "agent.extraArgs.publish: the chart sets --publish itself; set agent.publish"),
    ("a folder that is none", "agent.kubeletFolder=var/lib/kubelet", "at '/agent/kubeletFolder'"),
    ("a folder above", "agent.kubeletFolder=/var/lib/../..", "at '/agent/kubeletFolder'"),
    ("a folder that is covered with those above", "agent.hiddenFolders={..}", "at '/agent/hiddenFolders/0'"),
    ("a file in no folder", "agent.kubeletConfig=config.yaml", "at '/agent/kubeletConfig'"),
    ("a namespace of the agent that there cannot be", "agent.namespace=a.b", "at '/agent/namespace'"),
    ("traces without a port", "tracing.endpoint=http://collector", "at '/tracing/endpoint'"),
    ("more than all of the traces", "tracing.ratio=2", "at '/tracing/ratio'"),
    ("an audit log in a container's files",
     "webhook.extraArgs.audit-log=/var/log/audit", "at '/webhook/extraArgs/audit-log'"),
    ("a port that is none", "networkPolicy.apiServerPorts[0]=0", "at '/networkPolicy/apiServerPorts/0'"),
    *(
        (f"a condition called {name}", f"{CONDITION}.name={name} {CONDITION}.expression=true", "/0/name'")
        for name in (
            "not-from-a-kubelet", "annotated", "annotated-or-tolerating", "changed", "not-of-another"
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "complaint"), table(REFUSED))
async def test_values_that_cannot_be_meant_are_refused(helm: Path, values: str, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        await made(helm, values)


async def test_all_that_is_wrong_is_told_at_once(helm: Path) -> None:
    with pytest.raises(HelmError) as refused:
        await made(helm, "webhook.replicas=0 workloads=refuse")
    assert all(f"at '/{value}'" in str(refused.value) for value in ("webhook/replicas", "workloads"))
