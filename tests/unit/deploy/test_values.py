"""Values that users of charts expect: names, labels, security contexts, placement, accounts, tests."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.settings import ControllerSettings
from kubectl_numa.commands import verify
from tests.unit.deploy.test_helm import CONTROLLER, PROGRAMS, SCHEDULER, SCORER, SETS, WEBHOOK, check
from tests.worlds.notation import table
from tools.generate.manifests import (
    AGENT_NAMESPACE,
    CHART,
    EVERY_PART,
    NAMESPACE,
    HelmError,
    Installation,
    Object,
    made,
    of_test,
    run,
    template,
)

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

AGENT = "numalign-agent"
ON_HOSTS = (WEBHOOK, CONTROLLER, SCORER, SCHEDULER)
ALL = (*ON_HOSTS, AGENT)
TEST = "numalign-test"

# Named by what looks for them: the programs, API servers and users of the scheduler.
FIXED = {"zz-numalign", "numalign-reports", "noderesourcetopologies.topology.node.k8s.io", AGENT_NAMESPACE}


async def everything(helm: Path, values: str = "") -> Installation:
    """All that the chart can make, with further values."""
    found = await made(helm, f"{SETS['the map with everything']} {SETS['monitoring']} {values}")
    check(found)
    return found


# ---- names and labels


async def test_every_name_begins_as_it_is_wanted(helm: Path) -> None:
    usual = await everything(helm, "priorityAndFairness.enabled=true")
    found = await everything(helm, "fullnameOverride=numa priorityAndFairness.enabled=true")
    names = {name for _, name in found} - FIXED
    assert {name for name in names if not re.match(r"numa(-|$)", name)} == set()
    assert len(found) == len(usual)
    # What one object says of another is there by that name.
    assert {*references(found)} - FOREIGN_OBJECTS <= found.keys()
    assert len({*references(found)}) == len({*references(usual)})
    told = found.settings("numa-controller", ControllerSettings)
    assert ("Service", told.service) in found
    [extender] = yaml.safe_load(found["ConfigMap", "numa-scheduler"]["data"]["scheduler.yaml"])["extenders"]
    assert extender["urlPrefix"] == f"http://numa-scorer.{NAMESPACE}.svc"


# Made by programs, by people and by Kubernetes itself.
FOREIGN_OBJECTS = {
    *(("Secret", name) for name in ("numalign-webhook-tls", "a", "g")),
    *(("ClusterRole", f"system:{name}-scheduler") for name in ("kube", "volume")),
    ("ConfigMap", "kube-root-ca.crt"),
}


def references(found: Installation) -> Iterator[tuple[str, str]]:
    """Kind and name of whatever an object says of another."""
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
            accounts = (subject["serviceAccount"] for subject in rule.get("subjects", ()))
            yield from (("ServiceAccount", account["name"]) for account in accounts)
        yield from of_pod(spec if each["kind"] == "Pod" else spec.get("template", {}).get("spec", {}))


def of_pod(pod: Object) -> Iterator[tuple[str, str]]:
    """The same of the spec of pods."""
    if pod:
        yield "ServiceAccount", pod["serviceAccountName"]
    for volume in pod.get("volumes", ()):
        for source in (volume, *volume.get("projected", {}).get("sources", ())):
            if "configMap" in source:
                yield "ConfigMap", source["configMap"]["name"]


async def test_another_name_is_also_the_label(helm: Path) -> None:
    found = await made(helm, f"{EVERY_PART} nameOverride=numa")
    assert {*references(found)} - FOREIGN_OBJECTS <= found.keys()
    for each in found.of_pods.values():
        assert each["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "numa"


async def test_another_namespace_is_that_of_every_object(helm: Path) -> None:
    found = await everything(helm, "namespaceOverride=elsewhere")
    namespaces = {each["metadata"].get("namespace") for each in found.values()}
    assert namespaces == {None, "elsewhere", AGENT_NAMESPACE, "default"}
    assert NAMESPACE not in json.dumps([*found.values()])


async def test_common_labels_and_annotations_are_on_every_object_and_pod(helm: Path) -> None:
    values = r"commonLabels.team=platform commonAnnotations.example\.com/owner=me"
    found = await everything(helm, f"{values} agent.enabled=true")
    pods = [each["spec"]["template"]["metadata"] for each in found.of_pods.values()]
    for metadata in [each["metadata"] for each in found.values()] + pods:
        if metadata.get("name") != "noderesourcetopologies.topology.node.k8s.io":
            assert metadata["labels"]["team"] == "platform", metadata
            assert metadata["annotations"]["example.com/owner"] == "me", metadata
    # By what pods are selected, no upgrade may change.
    assert not any("team" in str(each["spec"]["selector"]) for each in found.of_pods.values())


# ---- who runs, as whom


def contexts(tree: Any) -> list[dict[str, Any]]:  # noqa: ANN401 whatever stands there
    """Every security context below."""
    if isinstance(tree, list):
        return [each for item in tree for each in contexts(item)]
    if not isinstance(tree, dict):
        return []
    below = [each for item in tree.values() for each in contexts(item)]
    return [tree["securityContext"], *below] if "securityContext" in tree else below


IDS = ("runAsUser", "runAsGroup", "fsGroup")
NO_IDS = " ".join(f"podSecurityContext.{name}=null" for name in IDS)


async def test_where_the_platform_assigns_ids_the_chart_sets_none(helm: Path) -> None:
    """OpenShift rejects pods that name others than the namespace's."""
    usual = await made(helm, "scorer.enabled=true scheduler.enabled=true")
    assert {*IDS} <= {key for each in contexts([*usual.values()]) for key in each}
    found = await made(helm, f"scorer.enabled=true scheduler.enabled=true {NO_IDS}")
    check(found)
    assert {key for each in contexts([*found.values()]) for key in each}.isdisjoint(IDS)
    for name in ON_HOSTS:
        assert found.pod(name)["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }


@pytest.mark.parametrize("name", ALL)
async def test_a_program_has_its_own_context_over_the_shared_one(helm: Path, name: str) -> None:
    program = name.removeprefix("numalign-")
    own = f"{program}.podSecurityContext.runAsUser=7 {program}.podSecurityContext.runAsGroup=null"
    found = await made(
        helm,
        f"{EVERY_PART} {own} {program}.securityContext.readOnlyRootFilesystem=null "
        "securityContext.privileged=false",
    )
    check(found)
    context = found.pod(name)["securityContext"]
    assert (context["runAsUser"], "runAsGroup" in context) == (7, False)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert found.container(name)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
    }
    for other in {*ON_HOSTS} - {name}:
        assert found.pod(other)["securityContext"]["runAsUser"] == 65532


@pytest.mark.parametrize("name", ALL)
async def test_a_program_can_have_an_account_that_is_there(helm: Path, name: str) -> None:
    program = name.removeprefix("numalign-")
    values = f"{SETS['gates']} {EVERY_PART} agent.annotatePods=true priorityAndFairness.enabled=true"
    found = await made(
        helm, f"{values} {program}.serviceAccount.create=false {program}.serviceAccount.name=ours"
    )
    check(found)
    assert {*found.of_kind("ServiceAccount")} == {*ALL, TEST} - {name}
    assert found.pod(name)["serviceAccountName"] == "ours"
    text = json.dumps([*found.values()])
    home = AGENT_NAMESPACE if name == AGENT else NAMESPACE
    assert f"system:serviceaccount:{home}:{name}" not in text
    bound = [
        subject["name"]
        for each in found.values()
        if each["kind"].endswith("RoleBinding")
        for subject in each["subjects"]
    ]
    assert name not in bound
    assert "ours" in bound


async def test_annotations_of_accounts_are_shared_and_each_programs_own(helm: Path) -> None:
    found = await made(
        helm,
        f"{EVERY_PART} serviceAccount.annotations.a=shared serviceAccount.annotations.b=shared "
        "scorer.serviceAccount.annotations.b=own",
    )
    annotations = {name: found["ServiceAccount", name]["metadata"]["annotations"] for name in ALL}
    assert annotations[SCORER] == {"a": "shared", "b": "own"}
    assert annotations[WEBHOOK] == annotations[AGENT] == {"a": "shared", "b": "shared"}


# ---- where they run, and with what


SHARED = (
    "nodeSelector.a=b tolerations[0].operator=Exists priorityClassName=high affinity.nodeAffinity.x=1 "
    "topologySpreadConstraints[0].topologyKey=rack topologySpreadConstraints[0].maxSkew=1 "
    "topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule podLabels.a=b podAnnotations.a=b"
)


async def test_what_all_share_is_that_of_all_but_the_agent(helm: Path) -> None:
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
    assert (agent["nodeSelector"], agent["priorityClassName"]) == (
        {"kubernetes.io/os": "linux"},
        "system-node-critical",
    )
    assert agent.keys().isdisjoint({"affinity", "topologySpreadConstraints"})
    for name in ALL:
        metadata = found.of_pods[name]["spec"]["template"]["metadata"]
        assert (metadata["labels"]["a"], metadata["annotations"]["a"]) == ("b", "b")


@pytest.mark.parametrize("name", ALL)
async def test_what_a_program_says_itself_goes_before_what_all_share(helm: Path, name: str) -> None:
    program = name.removeprefix("numalign-")
    own = (
        f"{program}.nodeSelector.c=d {program}.tolerations[0].key=x {program}.priorityClassName=own "
        f"{program}.affinity.podAffinity.y=1 {program}.podLabels.a=own {program}.podAnnotations.a=own "
        f"{program}.extraEnv[0].name=HTTPS_PROXY {program}.extraEnv[0].value=http://proxy "
        f"{program}.resources.requests.cpu=3"
    )
    found = await made(helm, f"{EVERY_PART} {SHARED} {own}")
    pod, container = found.pod(name), found.container(name)
    assert pod["nodeSelector"]["c"] == "d"
    assert (pod["tolerations"], pod["priorityClassName"]) == ([{"key": "x"}], "own")
    assert pod["affinity"] == {"podAffinity": {"y": 1}}
    assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in container["env"]
    assert container["resources"]["requests"]["cpu"] == 3
    metadata = found.of_pods[name]["spec"]["template"]["metadata"]
    assert (metadata["labels"]["a"], metadata["annotations"]["a"]) == ("own", "own")
    assert not any("podAffinity" in str(found.pod(other)) for other in {*ALL} - {name})


async def test_images_are_pulled_with_the_secrets_of_the_chart_and_of_its_parent(helm: Path) -> None:
    found = await made(
        helm,
        f"{EVERY_PART} imagePullSecrets[0].name=a global.imagePullSecrets[0].name=b "
        "global.imagePullSecrets[1].name=a",
    )
    assert {json.dumps(found.pod(name)["imagePullSecrets"]) for name in ALL} == {
        '[{"name": "b"}, {"name": "a"}]'
    }


async def test_what_a_parent_chart_shares_with_others_is_let_through(helm: Path) -> None:
    assert await made(helm, "global.storageClass=fast") == await made(helm)


async def test_flags_of_kube_scheduler_are_added_as_they_are(helm: Path) -> None:
    found = await made(helm, f"{EVERY_PART} scheduler.extraArgs.v=4 scheduler.extraArgs.kube-api-qps=1000000")
    assert found.container(SCHEDULER)["args"][-2:] == ["--kube-api-qps=1000000", "--v=4"]


# ---- the number of replicas, and a share of API servers


async def test_the_webhook_can_be_scaled_by_what_it_takes(helm: Path) -> None:
    values = "webhook.autoscaling.enabled=true webhook.autoscaling.maxReplicas=9"
    found = await made(
        helm,
        f"{values} webhook.replicas=7 webhook.autoscaling.behavior.scaleDown.stabilizationWindowSeconds=60",
    )
    check(found)
    spec = found["HorizontalPodAutoscaler", WEBHOOK]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 9)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": WEBHOOK}
    [metric] = spec["metrics"]
    assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}
    # Every upgrade would set the number back.
    assert "replicas" not in found.of_pods[WEBHOOK]["spec"]
    assert ("PodDisruptionBudget", WEBHOOK) in found
    assert ("PodDisruptionBudget", WEBHOOK) not in await made(
        helm, f"{values} webhook.autoscaling.minReplicas=1"
    )
    assert ("HorizontalPodAutoscaler", WEBHOOK) not in await made(helm)


async def test_the_programs_have_a_share_of_api_servers_where_it_is_wanted(helm: Path) -> None:
    found = await made(helm, f"{EVERY_PART} priorityAndFairness.enabled=true")
    check(found)
    level = found["PriorityLevelConfiguration", "numalign"]["spec"]
    schema = found["FlowSchema", "numalign"]["spec"]
    assert level["limited"]["nominalConcurrencyShares"] == 10
    assert schema["priorityLevelConfiguration"] == {"name": "numalign"}
    # After exempt and system ones, before those that all service accounts share.
    assert 900 < schema["matchingPrecedence"] < 9000
    [rule] = schema["rules"]
    accounts = [
        (each["serviceAccount"]["namespace"], each["serviceAccount"]["name"]) for each in rule["subjects"]
    ]
    assert accounts == [*((NAMESPACE, name) for name in ON_HOSTS), (AGENT_NAMESPACE, AGENT)]
    alone = await made(helm, "priorityAndFairness.enabled=true")
    [rule] = alone["FlowSchema", "numalign"]["spec"]["rules"]
    assert len(rule["subjects"]) == len((WEBHOOK, CONTROLLER))
    with pytest.raises(HelmError, match=r"priorityAndFairness.enabled needs Kubernetes 1.29 or newer"):
        await made(helm, "priorityAndFairness.enabled=true", "--kube-version=1.28.9")
    assert ("FlowSchema", "numalign") not in await made(helm)


async def test_a_quota_names_every_critical_class_that_pods_have(helm: Path) -> None:
    async def classes(values: str) -> list[str]:
        quota = (await made(helm, values)).get(("ResourceQuota", "numalign-critical-pods"))
        return quota["spec"]["scopeSelector"]["matchExpressions"][0]["values"] if quota else []

    assert await classes("") == ["system-cluster-critical"]
    own = "priorityClassName=high scorer.priorityClassName=system-node-critical"
    assert await classes(own) == ["system-node-critical"]
    assert await classes("priorityClassName=high") == []


# ---- helm test


async def test_helm_tests_with_a_pod_that_leaves_nothing(helm: Path) -> None:
    found = await made(helm)
    hooks = {kind: each for (kind, name), each in found.items() if of_test(each)}
    assert {*hooks} == {
        *("ServiceAccount", "Role", "RoleBinding", "Pod", "NetworkPolicy"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    for each in hooks.values():
        assert each["metadata"]["annotations"]["helm.sh/hook"] == "test"
        policies = each["metadata"]["annotations"]["helm.sh/hook-delete-policy"].split(",")
        assert {*policies} == {"before-hook-creation", "hook-succeeded", "hook-failed"}
    pod = hooks["Pod"]["spec"]
    [container] = pod["containers"]
    assert container["command"] == ["/opt/numalign/bin/kubectl-numa"]
    name, *flags = container["args"]
    context = verify.verify.make_context(name, flags)
    assert (context.params["namespace"], context.params["timeout"]) == ("default", 60)
    assert pod["activeDeadlineSeconds"] > context.params["timeout"]
    assert "priorityClassName" not in pod


async def test_the_test_may_create_pods_as_a_dry_run_in_one_namespace_and_nothing_else(helm: Path) -> None:
    found = await made(helm, "test.namespace=team")
    role, binding = found["Role", TEST], found["RoleBinding", TEST]
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    assert {each["metadata"]["namespace"] for each in (role, binding)} == {"team"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": TEST, "namespace": NAMESPACE}]
    spec = found["ValidatingAdmissionPolicy", TEST]["spec"]
    [condition], [validation] = spec["matchConditions"], spec["validations"]
    assert f"'system:serviceaccount:{NAMESPACE}:{TEST}'" in condition["expression"]
    assert validation["expression"] == "request.?dryRun.orValue(false)"


# ---- versions of Kubernetes


@pytest.mark.parametrize("version", ["1.28.0", "1.32.0", "1.34.4-eks-1a2b3c4", "1.37.2"])
@pytest.mark.parametrize("values", ["", "everything"])
async def test_every_version_is_rendered_for_and_takes_it(helm: Path, version: str, values: str) -> None:
    chosen = f"{SETS['the map with everything']} {EVERY_PART}" if values else ""
    found = await made(helm, chosen, f"--kube-version={version}")
    check(found, ".".join(version.split(".")[:2]))
    assert {*PROGRAMS} & {*found.of_pods}


async def test_an_older_one_is_refused(helm: Path) -> None:
    with pytest.raises(HelmError, match=r"chart requires kubeVersion: >=1.28.0-0"):
        await made(helm, "", "--kube-version=1.27.16")


# ---- what is refused


OLD = [
    # the old name                            a value   what it is called now
    ("replicas",                              "3",      "webhook.replicas"),
    ("image.pullSecrets[0].name",             "a",      "imagePullSecrets"),
    ("resources.limits.cpu",                  "1",      "webhook.resources"),
    ("port",                                  "8443",   "webhook.port"),
    ("hostNetwork",                           "true",   "webhook.hostNetwork"),
    ("service.annotations.a",                 "b",      "webhook.service"),
    ("settings.log-level",                    "debug",  "webhook.extraArgs"),
    ("settings.unknown-nodes",                "may-fit", "unknownNodes"),
    ("settings.tls-days",                     "30",     "tls.days"),
    ("controller.settings.log-level",         "debug",  "controller.extraArgs"),
    ("scorer.settings.promise-seconds",       "1",      "scorer.extraArgs.reservation-seconds"),
    ("scorer.promise",                        "bind",   "scorer.reserveAt"),
    ("agent.settings.log-level",              "debug",  "agent.extraArgs"),
    ("agent.seLinuxOptions.type",             "spc_t",  "agent.podSecurityContext.seLinuxOptions"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "value", "new"), [pytest.param(*row, id=row[0]) for row in OLD])
async def test_a_value_of_an_old_name_is_refused_with_the_new_one(
    helm: Path, old: str, value: str, new: str
) -> None:
    with pytest.raises(HelmError, match=rf"is now called {re.escape(new)}\n"):
        await made(helm, f"{old}={value}")


@pytest.mark.parametrize(
    "old", ["replicas", "settings", "settings.tls-days", "resources.limits", "scorer.promise"]
)
async def test_a_value_of_an_old_name_can_be_removed(helm: Path, old: str) -> None:
    assert await made(helm, f"{old}=null") == await made(helm)


async def test_a_value_beside_one_that_is_removed_is_refused(helm: Path) -> None:
    with pytest.raises(HelmError, match=r"settings.unknown-nodes is now called unknownNodes\n"):
        await made(helm, "settings.tls-days=null settings.unknown-nodes=may-fit")


async def test_defaults_of_an_old_chart_are_refused_with_the_flag_to_use(helm: Path, tmp_path: Path) -> None:
    """With --reuse-values helm renders the new templates with the old chart's values, and nothing else."""
    chart = Path(shutil.copytree(CHART, tmp_path / "numalign"))
    (chart / "values.yaml").write_text("replicas: 2\nsettings: {}\nscorer: {enabled: false, promise: bind}\n")
    with pytest.raises(HelmError) as refused:
        await run(helm, "template", chart)
    assert "scorer.promise is now called scorer.reserveAt\n" in str(refused.value)
    assert "run helm upgrade with --reset-then-reuse-values in place of --reuse-values" in str(refused.value)


async def test_all_old_names_are_told_at_once_and_what_to_do_where_nobody_set_them(helm: Path) -> None:
    with pytest.raises(HelmError) as refused:
        await made(helm, "replicas=3 scorer.promise=bind serviceMonitor.tlsConfig.insecureSkipVerify=true")
    for line in ("replicas is now", "scorer.promise is now", "serviceMonitor.tlsConfig is gone: delete it"):
        assert line in str(refused.value)
    assert "--reset-then-reuse-values" in str(refused.value)


REFUSED = [
    # what is wrong, the values, and what helm says of it
    ("a name that is too long", f"fullnameOverride={'a' * 41}", "at '/fullnameOverride'"),
    ("a namespace that there cannot be", "namespaceOverride=a.b", "at '/namespaceOverride'"),
    ("a label that the chart sets", r"commonLabels.helm\.sh/chart=a", "at '/commonLabels/helm.sh~1chart'"),
    ("a user in words", "podSecurityContext.runAsUser=root", "at '/podSecurityContext/runAsUser'"),
    ("a field of the other context", "podSecurityContext.privileged=true", "'privileged'"),
    ("a field that there is not", "securityContext.readonly=true", "'readonly'"),
    ("a toleration misspelled", "tolerations[0].opreator=Exists", "at '/tolerations/0'"),
    ("a constraint of no place",
     "topologySpreadConstraints[0].maxSkew=1", "at '/topologySpreadConstraints/0'"),
    ("an amount in words", "webhook.resources.limits.memory=much", "at '/webhook/resources/limits/memory'"),
    ("a variable that the agent sets", "agent.extraEnv[0].name=NODE_NAME", "at '/agent/extraEnv/0/name'"),
    ("an account without a name", "scorer.serviceAccount.create=false", "at '/scorer/serviceAccount/name'"),
    ("an autoscaler that looks at nothing",
     "webhook.autoscaling.enabled=true webhook.autoscaling.targetCPUUtilizationPercentage=0",
     "at '/webhook/autoscaling"),
    ("no share", "priorityAndFairness.concurrencyShares=0", "at '/priorityAndFairness/concurrencyShares'"),
    ("names of a certificate that is not ours",
     "tls.source=cert-manager tls.extraNames={a.b}", "at '/tls/extraNames'"),
    ("a flag of kube-scheduler that the chart sets",
     "scheduler.extraArgs.config=x", "scheduler.extraArgs.config: the chart sets --config itself"),
    ("a flag with its dashes", "scheduler.extraArgs.--v=4", "at '/scheduler/extraArgs'"),
    ("a test in no namespace", "test.namespace=a.b", "at '/test/namespace'"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "complaint"), table(REFUSED))
async def test_values_that_cannot_be_meant_are_refused(helm: Path, values: str, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        await made(helm, values)


async def test_all_flags_that_the_chart_sets_are_told_at_once(helm: Path) -> None:
    with pytest.raises(HelmError) as refused:
        await template(helm, "--set=webhook.extraArgs.port=1", "--set=agent.extraArgs.sysfs=/sys")
    assert "webhook.extraArgs.port: the chart sets --port itself; set webhook.port in place" in str(
        refused.value
    )
    assert "agent.extraArgs.sysfs: the chart sets --sysfs itself; it cannot be changed" in str(refused.value)
