"""What helm makes of the chart: the plain manifests, and objects that Kubernetes accepts with any values."""

import json
import re
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import kubernetes_validate
import pytest

from tests.unit.deploy.fields import CONTROLLER, PROGRAMS, SCHEDULER, WEBHOOK
from tests.worlds.notation import table
from tools.generate.manifests import (
    AGENT_GUARD,
    AGENT_NAMESPACE,
    CHART,
    COMMAND,
    DEPLOY,
    EVERY_PART,
    MANIFESTS,
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
)

# To build helm takes minutes, once.
pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1200)]

NEWEST = "1.37"

# Kinds of other projects, whose schemas are not Kubernetes' own.
FOREIGN = ("cert-manager.io/v1", "monitoring.coreos.com/v1")

AN_AUTHORITY = "LS0tLS1CRUdJTg=="
ZEROS = "0" * 64
TESTED = "default"
"""Where `helm test` creates its pods, as a dry run."""
DEFINITION = ("CustomResourceDefinition", "noderesourcetopologies.topology.node.k8s.io")

_VALID: set[str] = set()


def check(installation: Installation, version: str = NEWEST) -> None:
    """Raise for an object that a version of Kubernetes does not know, and for flags that no program reads.

    No role is without a right, and the webhook writes nothing.
    """
    for document in installation.values():
        text = version + json.dumps(document)
        if document["apiVersion"] not in FOREIGN and text not in _VALID:
            kubernetes_validate.validate(document, version, strict=True)
            _VALID.add(text)
    for name in installation.of_pods.keys() & PROGRAMS.keys():
        installation.settings(name, PROGRAMS[name])
    roles = installation.of_kind("Role") | installation.of_kind("ClusterRole")
    assert [name for name, role in roles.items() if not role["rules"]] == []
    ours = [installation.get((kind, WEBHOOK), {}) for kind in ("Role", "ClusterRole")]
    verbs = {verb for role in ours for rule in role.get("rules", ()) for verb in rule["verbs"]}
    assert verbs <= {"get", "list", "watch"}


async def test_helm_lint_finds_nothing(helm: Path) -> None:
    assert "0 chart(s) failed" in await run(helm, "lint", "--strict", CHART)


async def test_plain_manifests_are_the_rendered_chart(helm: Path) -> None:
    wanted = await manifests(helm)
    there = {str(file.relative_to(MANIFESTS)): file.read_text() for file in MANIFESTS.rglob("*.yaml")}
    assert there.keys() == wanted.keys(), f"run {COMMAND}"
    for name in wanted:
        assert there[name] == wanted[name], f"{name} is not what the chart makes: run {COMMAND}"


SETS = {
    "a controller that only remembers": "labelNodes=false tls.source=cert-manager",
    "least rights": "labelNodes=false countPods=false",
    "kubelet options": "kubeletConfigs.enabled=true",
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
async def test_values_make_objects_that_kubernetes_knows(helm: Path, values: str) -> None:
    check(await made(helm, values))


# ---- versions of Kubernetes


@pytest.mark.parametrize("version", ["1.28.0", "1.32.0", "1.34.4-eks-1a2b3c4", "1.37.2"])
@pytest.mark.parametrize("values", ["", f"{SETS['the map with everything']} {EVERY_PART}"], ids=["", "all"])
async def test_objects_suit_the_version_of_kubernetes(helm: Path, version: str, values: str) -> None:
    check(await made(helm, values, f"--kube-version={version}"), ".".join(version.split(".")[:2]))


async def test_older_kubernetes_is_refused(helm: Path) -> None:
    with pytest.raises(HelmError, match=r"chart requires kubeVersion: >=1.28.0-0"):
        await made(helm, "", "--kube-version=1.27.16")


GUARDS = {CONTROLLER, "numalign-levels", "numalign-shapes", "numalign-topologies", "numalign-test"}


GUARDED = [
    ("", "1.30.0-eks-1", GUARDS),
    ("scorer.enabled=true", "1.34.4", {*GUARDS, "numalign-records"}),
    ("gates.enabled=true", "1.34.4", {*GUARDS, "numalign-records"}),
    ("scorer.enabled=true gates.enabled=true scorer.records.guarded=false", "1.34.4", GUARDS),
    ("agent.enabled=true", "1.34.4", {*GUARDS, "numalign-agent"}),
    ("scorer.enabled=true agent.enabled=true", "1.29.9", set()),
]


@pytest.mark.parametrize(("values", "version", "guards"), GUARDED)
async def test_admission_policies_guard_enabled_parts(
    helm: Path, values: str, version: str, guards: set[str]
) -> None:
    found = await made(helm, values, f"--kube-version={version}")
    assert {*found.of_kind("ValidatingAdmissionPolicy")} == guards


DEFAULTS = (
    "policy.defaults[0].enforce=restricted policy.defaults[0].namespaceSelector.matchLabels.team=a"
    " policy.defaults[1].enforce=none policy.defaults[2].warn=restricted"
)


ENFORCED = {"changes.enforce.numalign.io": "Fail"}
CHANGES = [
    ("", "1.30.0", {}),
    ("", "1.29.9", ENFORCED),
    (DEFAULTS, "1.28.0-eks-1", {**ENFORCED, "changes.validate.numalign.io": "Ignore"}),
]


@pytest.mark.parametrize(("values", "version", "changes"), CHANGES)
async def test_webhook_judges_changes_without_policies(
    helm: Path, values: str, version: str, changes: dict[str, str]
) -> None:
    found = await made(helm, values, f"--kube-version={version}")
    configured = found["ValidatingWebhookConfiguration", "zz-numalign"]["webhooks"]
    called = [each for each in configured if each["name"].startswith("changes.")]
    assert {each["name"]: each["failurePolicy"] for each in called} == changes
    for each in called:
        assert [(rule["operations"], rule["resources"]) for rule in each["rules"]] == [
            (["UPDATE"], ["pods", "pods/*"]),
            (["CREATE"], ["pods/binding", "bindings"]),
        ]
        conditions = [condition["name"] for condition in each["matchConditions"]]
        assert conditions == ["changed", "not-by-a-scheduler"]


VERSIONS = [
    # what a cluster says that it is, and the kube-scheduler that it gets
    ("Kubernetes' own",          "v1.34.2",                    "v1.34.2"),
    ("without a v",              "1.34.2",                     "v1.34.2"),
    ("one that is not out yet",  "v1.38.0-rc.1",               "v1.38.0-rc.1"),
    ("EKS",                      "v1.34.2-eks-1a2b3c4",        "v1.34.2"),
    ("GKE",                      "v1.33.5-gke.1080000",        "v1.33.5"),
    ("AKS with long support",    "v1.28.102-akslts",           "v1.28.15"),
    ("k3s",                      "v1.34.1+k3s1",               "v1.34.1"),
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
async def test_scheduler_has_the_version_of_the_cluster(
    helm: Path, upstream: Path, version: str, tag: str
) -> None:
    rendered = await run(helm, "template", "x", upstream, f"--set-string=version={version}")
    assert parsed(rendered) == [{"tag": tag}]


@pytest.mark.parametrize("version", ["v1.99.100", "one", "v1"])
async def test_unknown_version_needs_an_image_tag(helm: Path, upstream: Path, version: str) -> None:
    with pytest.raises(HelmError, match=r"set scheduler\.image\.tag"):
        await run(helm, "template", "x", upstream, f"--set-string=version={version}")


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
async def test_scheduler_must_fit_the_cluster(helm: Path, tag: str, cluster: str, *, taken: bool) -> None:
    rendered = made(helm, f"{EVERY_PART} scheduler.image.tag={tag}", f"--kube-version={cluster}")
    if taken:
        assert (await rendered).container(SCHEDULER)["image"] == f"registry.k8s.io/kube-scheduler:{tag}"
        return
    with pytest.raises(HelmError, match=re.escape(f"scheduler.image.tag is {tag} and the cluster {cluster}")):
        await rendered


# ---- names and namespaces


def values_of(key: str, value: object) -> Iterator[object]:
    """Yield all values of a key, anywhere below."""
    match value:
        case dict():
            yield from (inner for name, inner in value.items() if name == key and not isinstance(inner, dict))
            yield from chain.from_iterable(values_of(key, inner) for inner in value.values())
        case list():
            yield from chain.from_iterable(values_of(key, inner) for inner in value)


def excluded(found: Installation) -> set[tuple[str, ...]]:
    """Return the namespaces that the webhooks leave out."""
    return {tuple(entry["namespaceSelector"]["matchExpressions"][0]["values"]) for entry in found.entries}


async def test_namespace_of_the_release_is_used_everywhere(helm: Path) -> None:
    found = await made(helm, EVERY_PART, "--namespace=elsewhere")
    assert "numalign-system" not in json.dumps([*found.values()])
    assert excluded(found) == {("kube-system", "kube-node-lease", "elsewhere", AGENT_NAMESPACE)}


@pytest.mark.parametrize("name", ["123", "1e3", "no", "null"])
@pytest.mark.parametrize("source", ["own", "cert-manager", "secret"])
async def test_name_that_looks_like_a_number_stays_text(
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
    assert {*values_of("namespace", documents)} == {name, TESTED}
    assert {*values_of("secretName", documents)} <= {name, "numalign-authority"}
    assert {*values_of("priorityClassName", documents)} == {name}
    assert excluded(found) == {(name, "kube-system", AGENT_NAMESPACE)}


async def test_agent_can_share_the_namespace(helm: Path) -> None:
    shared = await made(helm, "agent.enabled=true agent.namespace=numalign-system")
    assert shared.of_kind("Namespace") == {}
    assert {*values_of("namespace", [*shared.values()])} == {"numalign-system", TESTED}


async def test_scorer_and_agent_leave_other_objects_unchanged(helm: Path) -> None:
    with_parts, without = await made(helm, EVERY_PART), await made(helm)
    assert without.items() <= with_parts.items()
    more = {*installed(*PARTS, SCORER_GUARD, AGENT_GUARD), DEFINITION}
    assert with_parts.keys() - without.keys() == more


async def test_definition_of_topologies_is_installed_if_missing(helm: Path) -> None:
    found = await made(helm, "agent.enabled=true")
    [shipped] = parsed((DEPLOY / "crd" / "noderesourcetopologies.yaml").read_text())
    assert found[DEFINITION] == shipped
    assert shipped["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert DEFINITION not in await made(helm, "agent.enabled=true", f"--api-versions={TOPOLOGIES}")
    assert DEFINITION not in await made(helm)
