"""What helm makes of the chart: the plain manifests, and whatever the values, what Kubernetes takes."""

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from controller.settings import ControllerSettings
from numalign.kube.files import policy
from numalign.runtime import settings
from numalign.runtime.server_settings import ProcessSettings
from scorer import ranking, ranking_file
from scorer.ranking import Ranking
from scorer.settings import PromiseAt, ScorerSettings
from tests.deploy.render import (
    CHART,
    COMMAND,
    EVERY_PART,
    MANIFESTS,
    NAMESPACE,
    PARTS,
    SCORER_GUARD,
    HelmError,
    Object,
    everything,
    identities,
    manifests,
    objects,
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


async def test_helm_finds_nothing_to_complain_of(helm: Path) -> None:
    assert "0 chart(s) failed" in await run(helm, "lint", "--strict", CHART)


async def test_the_plain_manifests_are_what_the_chart_makes(helm: Path) -> None:
    wanted, found = await manifests(helm), written()
    assert found.keys() == wanted.keys(), f"run {COMMAND}"
    for name in wanted:
        assert parsed(found[name]) == parsed(wanted[name]), (
            f"{name} is not what the chart makes: run {COMMAND}"
        )
    assert found == wanted, f"only comments differ: run {COMMAND}"


SETS = {
    "as it is": (),
    "one replica": ("replicas=1", "controller.replicas=1"),
    "a controller that only labels": ("tls.source=cert-manager", "controller.settings.log-level=debug"),
    "a controller that only remembers": ("labelNodes=false", "tls.source=cert-manager"),
    "cert-manager": ("tls.source=cert-manager",),
    "an issuer that is there": ("tls.source=cert-manager", "tls.issuerRef.name=ca"),
    "own files": ("tls.source=secret", f"tls.caBundle={AN_AUTHORITY}"),
    "least rights": ("labelNodes=false", "countPods=false"),
    "kubelet options": ("kubeletConfigs.enabled=true",),
    "policy": ("policy.defaults[0].warn=best-effort", "policy.exemptions.users[0]=root"),
    "exemptions alone": ("policy.exemptions.namespaces[0]=batch",),
    "foreign workloads": ("workloadKinds.ray=false", "workloadKinds.kubeflow=false"),
    "every workload": (
        *("workloadRules[0].apiGroups={*}", "workloadRules[0].apiVersions={*}"),
        "workloadRules[0].resources={*}",
    ),
    "workloads of the core group": (
        *("workloadRules[0].apiGroups[0]=", "workloadRules[0].apiVersions={v1}"),
        "workloadRules[0].resources={podtemplates}",
    ),
    "no workloads": ("workloads=off",),
    "host network": ("hostNetwork=true", "port=10250"),
    "everything on": (
        *("serviceMonitor.enabled=true", "image.digest=sha256:" + "0" * 64, "image.pullSecrets[0].name=a"),
        *("priorityClassName=system-node-critical", "settings.log-level=debug", "drainSeconds=60"),
        *(
            "settings.max-bytes-in-flight=268435456",
            "nodeSelector.a=b",
            "podLabels.a=b",
            "podAnnotations.a=b",
        ),
        *("tolerations[0].operator=Exists", "service.annotations.a=b", "serviceAccount.annotations.a=b"),
        *("tls.clientCA=callers", "settings.max-connections=64", "settings.max-body-bytes=8388608"),
        *("webhooks.annotations.a=b", "webhooks.matchConditions[0].name=a"),
        *("webhooks.matchConditions[0].expression=true", "webhooks.excludedNamespaces={a,b}"),
    ),
    "the scorer": ("scorer.enabled=true",),
    "the scorer and a scheduler": (EVERY_PART,),
    "one of each": (EVERY_PART, "scorer.replicas=1", "scheduler.replicas=1"),
    "a scorer that does not bind": (EVERY_PART, "scorer.promise=prioritize"),
    "a scorer with everything": (
        *(
            EVERY_PART,
            "scorer.tls.secretName=a",
            "scorer.tls.clientCA=b",
            "scorer.service.clusterIP=10.96.0.53",
        ),
        *("scorer.service.annotations.a=b", "scorer.callers[0].ipBlock.cidr=10.0.0.11/32"),
        *("scorer.callers[0].ipBlock.except={10.0.0.12/32}", "scorer.callers[1].podSelector.matchLabels.a=b"),
        *("scorer.ranking.strategies={MostAllocated}", "scorer.ranking.rankings[0].weights.cpu=3"),
        *("scorer.ranking.rankings[0].nodeSelector.matchLabels.a=b", "policy.exemptions.users[0]=root"),
        *("scorer.settings.strategies=MostAllocated", "scorer.settings.weights=cpu=2"),
        *("scorer.settings.topology-lag-seconds=1000000", "settings.unknown-nodes=may-fit"),
        *("kubeletConfigs.enabled=true", "serviceMonitor.enabled=true", "image.pullSecrets[0].name=a"),
        *("podLabels.a=b", "podAnnotations.a=b", "nodeSelector.a=b", "tolerations[0].operator=Exists"),
        *("scheduler.image.digest=sha256:" + "0" * 64, "scheduler.percentageOfNodesToScore=0"),
    ),
    "a scorer that listens on IPv6": ("scorer.enabled=true", "scorer.service.clusterIP=fd00::53"),
    "everything off": ("networkPolicy.enabled=false", "priorityClassName=", "labelNodes=false"),
}


async def made(program: Path, *values: str) -> list[Object]:
    """The objects that the chart comes to with values of `--set`."""
    given = [
        word for value in values for word in ("--set-literal" if "expression" in value else "--set", value)
    ]
    return parsed(await template(program, *given))


def check(found: list[Object]) -> None:
    """Raises `ValidationError` for an object that Kubernetes does not know."""
    for each in found:
        if each["apiVersion"] not in FOREIGN:
            kubernetes_validate.validate(each, NEWEST, strict=True)


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
async def test_every_set_of_values_makes_objects_that_kubernetes_knows(
    helm: Path, values: tuple[str, ...]
) -> None:
    found = await made(helm, *values)
    check(found)
    for (kind, name), model in PROGRAMS.items():
        if (kind, name) in identities(found):
            settings.load(model, argv=container_of(found, name)["args"], environ={})


PROGRAMS: dict[tuple[str, str], type[ProcessSettings]] = {
    ("Deployment", "numalign-webhook"): WebhookSettings,
    ("Deployment", "numalign-controller"): ControllerSettings,
    ("Deployment", "numalign-scorer"): ScorerSettings,
}


def pod_of(found: list[Object], name: str = "numalign-webhook") -> Any:  # noqa: ANN401 a pod's spec
    return identities(found)["Deployment", name]["spec"]["template"]["spec"]


def container_of(found: list[Object], name: str) -> Any:  # noqa: ANN401 a container
    [container] = pod_of(found, name)["containers"]
    return container


def rights_of(found: list[Object], name: str = "numalign-webhook") -> set[tuple[str, str]]:
    """Resource and verb of every right in the roles of that name."""
    called = [each for each in found if each["metadata"]["name"] == name]
    roles = [each for each in called if each["kind"] in {"Role", "ClusterRole"}]
    rules = [rule for role in roles for rule in role["rules"]]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


NODES_PROXY = ("nodes/proxy", "get")


WEBHOOK, CONTROLLER = "numalign-webhook", "numalign-controller"

PODS = {("pods", "list"), ("pods", "watch")}
SERVING = {("secrets", "get")}
LABELLING = {("nodes", "patch")}
CERTIFYING = {
    *(("secrets", verb) for verb in ("create", "get", "update")),
    *(("mutatingwebhookconfigurations", verb) for verb in ("get", "patch")),
    *(("validatingwebhookconfigurations", verb) for verb in ("get", "patch")),
}
NONE: set[tuple[str, str]] = set()


@pytest.mark.parametrize(
    ("name", "values", "gone", "more"),
    [
        (WEBHOOK, ["labelNodes=false"], NONE, NONE),
        (WEBHOOK, ["countPods=false"], PODS, NONE),
        (WEBHOOK, ["kubeletConfigs.enabled=true"], NONE, {NODES_PROXY}),
        (WEBHOOK, ["tls.source=cert-manager"], SERVING, NONE),
        (CONTROLLER, ["labelNodes=false"], LABELLING, NONE),
        (CONTROLLER, ["tls.source=cert-manager"], CERTIFYING, NONE),
        (CONTROLLER, ["kubeletConfigs.enabled=true"], NONE, {NODES_PROXY}),
        (CONTROLLER, ["kubeletConfigs.enabled=true", "labelNodes=false"], LABELLING, {NODES_PROXY}),
    ],
)
async def test_rights_go_with_what_is_switched_off(
    helm: Path, name: str, values: list[str], gone: set[tuple[str, str]], more: set[tuple[str, str]]
) -> None:
    usual = rights_of(objects(), name)
    assert gone <= usual
    assert rights_of(await made(helm, *values), name) == (usual - gone) | more


async def test_the_webhook_has_no_right_but_to_read(helm: Path) -> None:
    found = await made(helm, "kubeletConfigs.enabled=true")
    assert {verb for _, verb in rights_of(found, WEBHOOK)} == {"get", "list", "watch"}
    assert {resource for resource, verb in rights_of(found, WEBHOOK) if verb == "get"} == {
        "secrets",
        "nodes/proxy",
    }


async def test_what_guards_the_controller_comes_where_it_is_known(helm: Path) -> None:
    def guards(text: str) -> set[str]:
        return {each["kind"] for each in parsed(text)} & {
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        }

    assert guards(await template(helm, "--kube-version=1.29.9")) == set()
    assert len(guards(await template(helm, "--kube-version=1.30.0-eks-1"))) == 2


async def test_records_are_guarded_where_that_is_known_and_wanted(helm: Path) -> None:
    async def guard(*values: str) -> Object | None:
        found = identities(await made(helm, *values))
        return found.get(("ValidatingAdmissionPolicy", "numalign-records"))

    assert await guard() is None
    assert await guard("scorer.enabled=true", "scorer.records.guarded=false") is None
    old = parsed(await template(helm, "--set=scorer.enabled=true", "--kube-version=1.29.9"))
    assert ("ValidatingAdmissionPolicy", "numalign-records") not in identities(old)


async def test_whoever_else_writes_records_is_named(helm: Path) -> None:
    writers = "scorer.records.writers={system:serviceaccount:kai-scheduler:binder,exporter@example.com}"
    found = identities(await made(helm, "scorer.enabled=true", writers))
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


async def test_the_certificate_is_made_as_the_settings_say(helm: Path) -> None:
    found = await made(helm, "settings.tls-days=30", "settings.tls-names=127.0.0.1")
    controller = settings.load(
        ControllerSettings, argv=container_of(found, CONTROLLER)["args"], environ={}
    ).settings
    webhook = settings.load(WebhookSettings, argv=container_of(found, WEBHOOK)["args"], environ={}).settings
    assert (controller.tls_days, controller.names, webhook.names) == (30, ("127.0.0.1",), ("127.0.0.1",))


async def test_there_is_no_role_without_a_right(helm: Path) -> None:
    found = await made(helm, "labelNodes=false", "tls.source=cert-manager")
    found += await made(helm, EVERY_PART, "scorer.promise=prioritize")
    assert [each for each in found if each["kind"] in {"ClusterRole", "Role"} and not each["rules"]] == []


async def test_a_policy_is_mounted_as_the_program_reads_it(helm: Path) -> None:
    found = await made(helm, "policy.defaults[0].warn=restricted", "policy.exemptions.users[0]=root")
    text = identities(found)["ConfigMap", "numalign-policy"]["data"]["policy.yaml"]
    read = policy.parse(text.encode())
    assert read.exemptions.users == ("root",)
    assert [each.rules.warn for each in read.defaults] == ["restricted"]
    [container] = pod_of(found)["containers"]
    assert "--policy=/etc/numalign/policy.yaml" in container["args"]
    assert {"name": "policy", "mountPath": "/etc/numalign", "readOnly": True} in container["volumeMounts"]
    assert {"name": "policy", "configMap": {"name": "numalign-policy"}} in pod_of(found)["volumes"]


def conditions(found: list[Object]) -> set[str]:
    entries = [entry for each in found for entry in each.get("webhooks", ())]
    return {condition["name"] for entry in entries for condition in entry["matchConditions"]}


@pytest.mark.parametrize(
    ("value", "all_pods"),
    [("policy.defaults[0].warn=restricted", True), ("policy.exemptions.users[0]=root", False)],
)
async def test_where_the_cluster_has_defaults_pods_that_say_nothing_are_sent_too(
    helm: Path, value: str, *, all_pods: bool
) -> None:
    assert ("annotated" not in conditions(await made(helm, value))) == all_pods


async def test_a_certificate_in_files_is_mounted_and_its_authority_told_to_api_servers(helm: Path) -> None:
    found = await made(helm, "tls.source=secret", "tls.secretName=mine", f"tls.caBundle={AN_AUTHORITY}")
    [container] = pod_of(found)["containers"]
    loaded = settings.load(WebhookSettings, argv=container["args"], environ={}).settings
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "tls"]
    assert (loaded.tls_secret, str(loaded.tls_cert)) == (None, f"{mount['mountPath']}/tls.crt")
    assert [volume["secret"]["secretName"] for volume in pod_of(found)["volumes"] if "secret" in volume] == [
        "mine"
    ]
    entries = [entry for each in found for entry in each.get("webhooks", ())]
    assert {entry["clientConfig"]["caBundle"] for entry in entries} == {AN_AUTHORITY}


async def test_cert_manager_is_asked_for_the_name_that_api_servers_call(helm: Path) -> None:
    found = identities(await made(helm, "tls.source=cert-manager"))
    certificate = found["Certificate", "numalign-webhook"]["spec"]
    assert certificate["dnsNames"] == ["numalign-webhook.numalign-system.svc"]
    assert ("Issuer", certificate["issuerRef"]["name"]) in found
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = found[kind, "zz-numalign"]["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "numalign-system/numalign-webhook"}


async def test_another_namespace_is_meant_everywhere(helm: Path) -> None:
    text = await template(helm, "--namespace=elsewhere", f"--set={EVERY_PART}")
    assert "numalign-system" not in text
    [selector, *_] = [
        entry["namespaceSelector"]["matchExpressions"][0]
        for each in parsed(text)
        for entry in each.get("webhooks", ())
    ]
    assert selector["values"] == ["kube-system", "kube-node-lease", "elsewhere"]


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
    given = {
        "tls": {"source": source, "secretName": name, "caBundle": "1234" * (source == "secret")},
        "priorityClassName": name,
        "image": {"repository": name, "pullSecrets": [{"name": name}]},
        "webhooks": {"excludedNamespaces": [name, "kube-system"]},
        "workloadRules": [{"apiGroups": [name], "apiVersions": [name], "resources": [name]}],
        "scorer": {"enabled": True, "tls": {"secretName": name}},
        "scheduler": {"enabled": True},
    }
    file = tmp_path / "values.json"
    file.write_text(json.dumps(given))
    found = parsed(await template(helm, f"--namespace={name}", f"--values={file}"))
    check(found)
    assert {*at("namespace", found)} == {name}
    assert {*at("secretName", found)} <= {name, "numalign-authority"}
    assert {*at("priorityClassName", found)} == {name}
    entries = [entry for each in found for entry in each.get("webhooks", ())]
    excluded = {tuple(entry["namespaceSelector"]["matchExpressions"][0]["values"]) for entry in entries}
    assert excluded == {(name, "kube-system")}


async def test_one_replica_alone_may_be_moved(helm: Path) -> None:
    """A budget of one out of one would keep its node from ever being drained."""
    found = await made(helm, EVERY_PART, "replicas=1", "controller.replicas=1", "scheduler.replicas=1")
    assert "PodDisruptionBudget" not in {each["kind"] for each in found}


# ---- the scorer, and a scheduler that asks it


async def test_who_wants_the_scorer_gets_the_webhook_as_it_is(helm: Path) -> None:
    with_parts, without = identities(await made(helm, EVERY_PART)), identities(await made(helm))
    assert without.items() <= with_parts.items()
    assert with_parts.keys() - without.keys() == {
        (each["kind"], each["metadata"]["name"])
        for part in (*PARTS, SCORER_GUARD)
        for each in objects(MANIFESTS / part)
    }


@pytest.mark.parametrize(
    ("values", "gone", "more"),
    [
        (["scorer.promise=prioritize"], {("pods/binding", "create")}, set()),
        (["kubeletConfigs.enabled=true"], set(), {NODES_PROXY}),
    ],
)
async def test_the_rights_of_the_scorer_go_with_what_it_does(
    helm: Path, values: list[str], gone: set[tuple[str, str]], more: set[tuple[str, str]]
) -> None:
    usual = rights_of(everything(), "numalign-scorer")
    assert gone <= usual
    found = await made(helm, "scorer.enabled=true", *values)
    assert rights_of(found, "numalign-scorer") == (usual - gone) | more


def told(found: list[Object]) -> ScorerSettings:
    """What the scorer is told."""
    arguments = container_of(found, "numalign-scorer")["args"]
    return settings.load(ScorerSettings, argv=arguments, environ={}).settings


def scheduling(found: list[Object]) -> Any:  # noqa: ANN401 a KubeSchedulerConfiguration
    return yaml.safe_load(identities(found)["ConfigMap", "numalign-scheduler"]["data"]["scheduler.yaml"])


async def test_where_the_scheduler_binds_by_itself_the_scorer_promises_when_it_ranks(helm: Path) -> None:
    found = await made(helm, EVERY_PART, "scorer.promise=prioritize")
    assert told(found).promise is PromiseAt.PRIORITIZE
    assert "bindVerb" not in scheduling(found)["extenders"][0]


async def test_with_a_certificate_the_scheduler_trusts_its_authority_and_nobody_else(helm: Path) -> None:
    found = await made(helm, EVERY_PART, "scorer.tls.secretName=pair")
    [extender], settled = scheduling(found)["extenders"], told(found)
    [mount] = [
        m for m in container_of(found, "numalign-scheduler")["volumeMounts"] if m["name"] == "authority"
    ]
    assert extender["urlPrefix"] == "https://numalign-scorer.numalign-system.svc"
    assert (extender["enableHTTPS"], extender["tlsConfig"]) == (
        True,
        {"caFile": f"{mount['mountPath']}/ca.crt"},
    )
    [pair] = [m for m in container_of(found, "numalign-scorer")["volumeMounts"] if m["name"] == "tls"]
    assert (str(settled.tls_cert), str(settled.tls_key)) == (
        f"{pair['mountPath']}/tls.crt",
        f"{pair['mountPath']}/tls.key",
    )
    [port] = identities(found)["Service", "numalign-scorer"]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "https")
    probe = container_of(found, "numalign-scorer")["readinessProbe"]["httpGet"]
    assert (probe["port"], probe["scheme"]) == ("metrics", "HTTP")


async def test_the_scheduler_never_sees_the_key_of_the_scorer(helm: Path) -> None:
    found = await made(helm, EVERY_PART, "scorer.tls.secretName=pair")
    [secret] = [v["secret"] for v in pod_of(found, "numalign-scheduler")["volumes"] if "secret" in v]
    assert secret == {
        "secretName": "pair",
        "defaultMode": 0o440,
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }


async def test_the_service_of_the_scorer_can_have_an_address_that_stays(helm: Path) -> None:
    found = await made(helm, "scorer.enabled=true", "scorer.service.clusterIP=10.96.0.53")
    assert identities(found)["Service", "numalign-scorer"]["spec"]["clusterIP"] == "10.96.0.53"


async def test_callers_are_let_in_besides_our_own_scheduler(helm: Path) -> None:
    found = await made(
        helm,
        *("scorer.enabled=true", "scorer.callers[0].ipBlock.cidr=10.0.0.11/32"),
        "scorer.callers[1].namespaceSelector.matchLabels.a=b",
    )
    calls, metrics = identities(found)["NetworkPolicy", "numalign-scorer"]["spec"]["ingress"]
    assert calls["from"][1:] == [
        {"ipBlock": {"cidr": "10.0.0.11/32"}},
        {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    ]
    assert metrics.keys() == {"ports"}


@pytest.mark.parametrize("name", ["numalign-webhook", "numalign-scorer"])
async def test_who_may_read_metrics_may_not_call(helm: Path, name: str) -> None:
    found = await made(
        helm,
        *("scorer.enabled=true", "metricsPort=9090"),
        "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.a=prometheus",
    )
    calls, metrics = identities(found)["NetworkPolicy", name]["spec"]["ingress"]
    peer = {"namespaceSelector": {"matchLabels": {"a": "prometheus"}}}
    assert metrics == {"ports": [{"protocol": "TCP", "port": 9090}], "from": [peer]}
    assert peer not in calls.get("from", [])
    assert calls["ports"] != metrics["ports"]


RANKING = (
    "scorer.ranking.strategies={LeastNUMANodes}",
    "scorer.ranking.rankings[0].nodeSelector.matchLabels.pool=gpu",
    r"scorer.ranking.rankings[0].weights.nvidia\.com/gpu=5",
)


async def test_rankings_are_mounted_as_the_scorer_reads_them(helm: Path) -> None:
    found = await made(helm, "scorer.enabled=true", *RANKING)
    text = identities(found)["ConfigMap", "numalign-ranking"]["data"]["ranking.yaml"]
    default = Ranking(ranking.parse_strategies("MostAllocated"), {})
    [choice] = ranking_file.parse(text.encode(), default=default).choices
    assert choice.ranking.weights == {"nvidia.com/gpu": 5}
    [mount] = [m for m in container_of(found, "numalign-scorer")["volumeMounts"] if m["name"] == "told"]
    assert str(told(found).ranking) == f"{mount['mountPath']}/ranking.yaml"


async def test_the_policy_of_the_cluster_is_read_by_the_scorer_too(helm: Path) -> None:
    found = await made(helm, "scorer.enabled=true", "policy.exemptions.users[0]=root", *RANKING)
    [volume] = [v for v in pod_of(found, "numalign-scorer")["volumes"] if v["name"] == "told"]
    assert volume["projected"]["sources"] == [
        {"configMap": {"name": "numalign-policy"}},
        {"configMap": {"name": "numalign-ranking"}},
    ]
    assert str(told(found).policy) == "/etc/numalign/policy.yaml"


async def test_both_programs_judge_alike(helm: Path) -> None:
    found = await made(
        helm, "scorer.enabled=true", "settings.unknown-nodes=may-fit", "settings.policy-match=equal"
    )
    arguments = container_of(found, "numalign-webhook")["args"]
    webhook = settings.load(WebhookSettings, argv=arguments, environ={}).settings
    scorer = told(found)
    assert (scorer.unknown_nodes, scorer.policy_match) == ("may-fit", webhook.policy_match)
    assert webhook.unknown_nodes == "may-fit"


@pytest.mark.parametrize(
    ("name", "value"),
    [("numalign-scorer", RANKING[0]), ("numalign-scheduler", "scheduler.weight=7")],
)
async def test_what_is_read_once_is_read_anew_when_it_changes(helm: Path, name: str, value: str) -> None:
    def annotations(found: list[Object]) -> Any:  # noqa: ANN401 of a pod
        return identities(found)["Deployment", name]["spec"]["template"]["metadata"]["annotations"]

    assert annotations(await made(helm, EVERY_PART)) != annotations(await made(helm, EVERY_PART, value))


@pytest.mark.parametrize("name", ["numalign-webhook", "numalign-scorer"])
async def test_metrics_are_read_where_they_are_served(helm: Path, name: str) -> None:
    listed = await made(helm, "scorer.enabled=true", "serviceMonitor.enabled=true", "metricsPort=9090")
    found = identities(listed)
    monitor, service = found["ServiceMonitor", name], found["Service", name]
    [endpoint], [_, port] = monitor["spec"]["endpoints"], service["spec"]["ports"]
    assert (endpoint["port"], port["port"]) == (port["name"], 9090)
    container = container_of(listed, name)
    assert {each["name"]: each["containerPort"] for each in container["ports"]}[port["targetPort"]] == 9090
    assert "--metrics-port=9090" in container["args"]
    assert endpoint.keys() == {"port", "path", "interval"}
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()


@pytest.mark.parametrize(
    ("value", "image"),
    [
        ("scheduler.image.tag=v1.33.1", "registry.k8s.io/kube-scheduler:v1.33.1"),
        (
            f"scheduler.image.digest=sha256:{'0' * 64}",
            f"registry.k8s.io/kube-scheduler@sha256:{'0' * 64}",
        ),
        ("scheduler.image.repository=example.com/a", "example.com/a:v1.34.4"),
    ],
)
async def test_the_scheduler_is_of_the_version_that_is_asked_for(helm: Path, value: str, image: str) -> None:
    found = await made(helm, EVERY_PART, value)
    assert container_of(found, "numalign-scheduler")["image"] == image


REFUSED = {
    "no such value": (("replica=2",), "additional properties 'replica' not allowed"),
    "no such setting": (("settings.log-levl=debug",), "additional properties 'log-levl' not allowed"),
    "a setting with a value of its own": (("settings.port=1",), "additional properties 'port' not allowed"),
    "a bad choice": (("workloads=refuse",), "value must be one of 'warn', 'deny', 'off'"),
    "a bad choice of a setting": (("settings.injection=force",), "at '/settings/injection'"),
    "none at all": (("replicas=0",), "at '/replicas': minimum: got 0, want 1"),
    "a version that moves": (("image.tag=latest",), "at '/image/tag'"),
    "half a digest": (("image.digest=sha256:0",), "at '/image/digest'"),
    "a number in words": (("port=https",), "at '/port': got string, want integer"),
    "a privileged port": (("port=443",), "at '/port': minimum"),
    "own files without an authority": (("tls.source=secret",), "at '/tls/caBundle': minLength"),
    "an authority for our own": ((f"tls.caBundle={AN_AUTHORITY}",), "at '/tls/caBundle': maxLength"),
    "an issuer for our own": (("tls.issuerRef.name=ca",), "at '/tls/issuerRef': maxProperties"),
    "a policy that does not exist": (("policy.defaults[0].warn=strict",), "at '/policy/defaults/0/warn'"),
    "a policy misspelled": (("policy.default[0].warn=none",), "additional properties 'default' not allowed"),
    "a kind that is not known": (("workloadKinds.spark=true",), "additional properties 'spark' not allowed"),
    "a rule without resources": (("workloadRules[0].apiGroups={a}",), "missing properties"),
    "a rule of every group and of one": (
        (
            *("workloadRules[0].apiGroups={*,apps}", "workloadRules[0].apiVersions={v1}"),
            "workloadRules[0].resources={a}",
        ),
        "at '/workloadRules/0/apiGroups': maxItems",
    ),
    "a rule of what stands below an object": (
        (
            *("workloadRules[0].apiGroups={apps}", "workloadRules[0].apiVersions={v1}"),
            "workloadRules[0].resources={deployments/scale}",
        ),
        "at '/workloadRules/0/resources/0'",
    ),
    "a name that no object can have": (("tls.secretName=a..b",), "at '/tls/secretName'"),
    "a namespace that there cannot be": (("webhooks.excludedNamespaces={a.b}",), "/excludedNamespaces/0'"),
    "a priority of no name": (("priorityClassName=High",), "at '/priorityClassName'"),
    "a label that selects our pods": (
        (r"podLabels.app\.kubernetes\.io/name=a",),
        "at '/podLabels/app.kubernetes.io~1name'",
    ),
    "another that does": (
        (r"podLabels.app\.kubernetes\.io/component=a",),
        "at '/podLabels/app.kubernetes.io~1component'",
    ),
    "an annotation that is there already": (
        (r"podAnnotations.kubectl\.kubernetes\.io/default-container=a",),
        "at '/podAnnotations/kubectl.kubernetes.io~1default-container'",
    ),
    "an authority from elsewhere": (
        (r"webhooks.annotations.cert-manager\.io/inject-ca-from=a/b",),
        "at '/webhooks/annotations/cert-manager.io~1inject-ca-from'",
    ),
    "a label that every object has": (
        (r"serviceMonitor.labels.helm\.sh/chart=a",),
        "at '/serviceMonitor/labels/helm.sh~1chart'",
    ),
    **{
        f"a condition called {name}": (
            (f"webhooks.matchConditions[0].name={name}", "webhooks.matchConditions[0].expression=true"),
            "at '/webhooks/matchConditions/0/name'",
        )
        for name in ("not-from-a-kubelet", "annotated", "changed", "not-of-another")
    },
    "a path with a name missing": (
        ("policy.workloads[0].kind=TrainJob", "policy.workloads[0].templates={spec..x}"),
        "at '/policy/workloads/0/templates/0'",
    ),
    "a user with * in the middle": (("policy.exemptions.users={a*b}",), "at '/policy/exemptions/users/0'"),
    "a selector of a label that there cannot be": (
        ("policy.defaults[0].warn=none", "policy.defaults[0].namespaceSelector.matchLabels.a_=b"),
        "at '/policy/defaults/0/namespaceSelector/matchLabels'",
    ),
    "a selector of no values": (
        (
            "policy.defaults[0].warn=none",
            "policy.defaults[0].namespaceSelector.matchExpressions[0].key=a",
            "policy.defaults[0].namespaceSelector.matchExpressions[0].operator=In",
        ),
        "at '/policy/defaults/0/namespaceSelector/matchExpressions/0'",
    ),
    "a default that asks for nothing": (
        ("policy.defaults[0].namespaceSelector.matchLabels.a=b",),
        "at '/policy/defaults/0'",
    ),
    "a scheduler without a scorer": (("scheduler.enabled=true",), "at '/scorer/enabled': value must be true"),
    "a promise at another time": (("scorer.promise=filter",), "at '/scorer/promise'"),
    "a setting of the scorer that has a value of its own": (
        ("scorer.settings.promise=bind",),
        "at '/scorer/settings': additional properties 'promise' not allowed",
    ),
    "a setting of both programs for one of them": (
        ("scorer.settings.unknown-nodes=may-fit",),
        "at '/scorer/settings': additional properties 'unknown-nodes' not allowed",
    ),
    "a strategy that does not exist": (
        ("scorer.settings.strategies=Fastest",),
        "at '/scorer/settings/strategies'",
    ),
    "a strategy that does not exist, of some nodes": (
        (
            "scorer.ranking.rankings[0].nodeSelector.matchLabels.a=b",
            "scorer.ranking.rankings[0].strategies={Fastest}",
        ),
        "at '/scorer/ranking/rankings/0/strategies/0'",
    ),
    "a ranking of no nodes": (
        (
            "scorer.ranking.rankings[0].nodeSelector.matchLabels=null",
            "scorer.ranking.rankings[0].strategies={MostAllocated}",
        ),
        "at '/scorer/ranking/rankings/0/nodeSelector'",
    ),
    "a ranking that says nothing": (
        ("scorer.ranking.rankings[0].nodeSelector.matchLabels.a=b",),
        "at '/scorer/ranking/rankings/0': missing property 'strategies'",
    ),
    "a weight of nothing": (("scorer.ranking.weights.cpu=0",), "at '/scorer/ranking/weights/cpu'"),
    "a caller that is everybody": (("scorer.callers[0].podSelectors.a=b",), "at '/scorer/callers/0'"),
    "a caller that is an address and pods": (
        ("scorer.callers[0].ipBlock.cidr=10.0.0.1/32", "scorer.callers[0].podSelector.matchLabels.a=b"),
        "at '/scorer/callers/0'",
    ),
    "an address without its range": (
        ("scorer.callers[0].ipBlock.cidr=10.0.0.1",),
        "at '/scorer/callers/0/ipBlock/cidr'",
    ),
    "no address of the Service": (("scorer.service.clusterIP=None",), "at '/scorer/service/clusterIP'"),
    "a weight without effect": (("scheduler.weight=0",), "at '/scheduler/weight': minimum"),
    "more nodes than there are": (
        ("scheduler.percentageOfNodesToScore=101",),
        "at '/scheduler/percentageOfNodesToScore': maximum",
    ),
    "a scheduler of a version that moves": (("scheduler.image.tag=latest",), "at '/scheduler/image/tag'"),
    "a port that is none": (("networkPolicy.apiServerPorts[0]=0",), "at '/networkPolicy/apiServerPorts/0'"),
}


@pytest.mark.parametrize(("values", "complaint"), REFUSED.values(), ids=REFUSED)
async def test_values_that_cannot_be_meant_are_refused(
    helm: Path, values: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        await made(helm, *values)


async def test_all_that_is_wrong_is_told_at_once(helm: Path) -> None:
    with pytest.raises(HelmError) as refused:
        await made(helm, "replicas=0", "workloads=refuse")
    assert "at '/replicas'" in str(refused.value)
    assert "at '/workloads'" in str(refused.value)
