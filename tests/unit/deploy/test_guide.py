"""What the how-to guides tell people to type is what the chart and the programs take."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import authority, secret
from controller.settings import ControllerSettings
from numalign.cache.ranking import Ranking
from numalign.decision.scoring import Strategy
from numalign.kube.files import policy
from numalign.model import intent
from numalign.model.errors import BadInput
from numalign.runtime.clock import utc_now
from numalign.scheduling import ranking
from tests.unit.deploy import patched
from tests.unit.deploy.fields import field
from tests.unit.docs.guides import Guide, guides, helm_values
from tools.generate.manifests import (
    CHART,
    DEPLOY,
    MANIFESTS,
    Installation,
    installed,
    made,
    parsed,
    run,
    template,
)

ROOT = DEPLOY.parent
VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
INSTALL, SCHEDULER_PAGE, UNINSTALL = map(Guide.read, ("install", "scheduler", "uninstall"))
OLD_VERSIONS = "## Notes for old versions"
HELM = re.compile(r"^(?:kubectl .*\| )?helm (?:install|upgrade|template) numalign deploy/chart (.*)$")


def helm_lines() -> Iterator[tuple[str, str]]:
    """Every command that renders the chart, with the name of its page."""
    for guide in guides():
        inline = re.findall(r"`(helm (?:install|upgrade|template) numalign [^`]+)`", guide.text)
        yield from ((guide.name, line) for line in [*guide.all_commands(), *inline] if HELM.match(line))


LINES = list(helm_lines())


def values_examples() -> Iterator[tuple[str, Any]]:
    """Every example that is a file of values, with the name of its page."""
    for guide in guides():
        for document in guide.examples():
            if isinstance(document, dict) and document.keys() <= VALUES.keys():
                yield guide.name, document


@pytest.mark.packaging
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("page", "line"), LINES, ids=[f"{page}-{number}" for number, (page, _) in enumerate(LINES)]
)
async def test_chart_takes_every_helm_command(helm: Path, page: str, line: str) -> None:
    assert await template(helm, *helm_values(line)), page


@pytest.mark.packaging
@pytest.mark.timeout(1200)
async def test_chart_takes_every_example_of_values(helm: Path, tmp_path: Path) -> None:
    examples = list(values_examples())
    pages = {"cluster-autoscaler", "cluster-policy", "karpenter", "map", "scheduler"}
    assert {page for page, _ in examples} == pages
    for page, document in examples:
        values = tmp_path / f"{page}.yaml"
        values.write_text(yaml.safe_dump(document))
        assert await template(helm, "--values", str(values))


def test_named_values_exist_in_the_chart() -> None:
    inline = re.compile(rf"`((?:{'|'.join(VALUES)})\.[\w.]+)")
    named = [
        (guide.name, path)
        for guide in guides()
        for path in chain(
            (flag.split("=")[1] for line in guide.all_commands() for flag in helm_values(line)),
            inline.findall(_without_old_names(guide.text)),
        )
    ]
    assert named
    for page, path in named:
        value: Any = VALUES
        # Below a list and a security context, the values are those of Kubernetes.
        for step in re.split(r"(?<!\\)\.", re.split(r"\[|(?<=ecurityContext)\.", path)[0]):
            if value == {}:
                # Whoever fills it chooses the names; the schema judges those of alerts.
                break
            assert step in value, f"{page}: {path}"
            value = value[step]


def _without_old_names(text: str) -> str:
    before, _, section = text.partition(OLD_VERSIONS)
    return before + section.partition("\n## ")[2]


def test_applied_folders_exist() -> None:
    folders = [
        folder
        for guide in guides()
        for folder in re.findall(r"(?:-k |`)(deploy/manifests[\w/]*)(?=[`\s])", guide.text)
    ]
    assert len(folders) > 10
    for folder in folders:
        assert (ROOT / folder / "kustomization.yaml").is_file()


LABELS = [
    *(intent.DEFAULT, intent.ENFORCE, intent.WARN, intent.AUDIT, intent.ADMISSION),
    *(intent.SCHEDULER, intent.GATE, intent.HEAL, intent.JOB_AFFINITY, intent.DO_NOT_DISRUPT),
    intent.EXCLUSIVE_CPUS,
]


def test_labels_of_namespaces_are_read() -> None:
    given = [
        dict(re.findall(r" (numalign\.io/[\w-]+)=(\S+)", line))
        for guide in guides()
        for line in guide.all_commands()
        if line.startswith("kubectl label namespace ")
    ]
    assert {key for labels in given for key in labels} == set(LABELS)
    for labels in given:
        _, mistakes = intent.parse_namespace(labels)
        assert mistakes == ()


def test_verification_is_denied_for_an_unknown_policy() -> None:
    controller, webhook, denied, *_ = INSTALL.commands("Verify")
    assert controller.endswith("deployment/numalign-controller")
    assert webhook.endswith("deployment/numalign-webhook")
    assert denied.startswith("kubectl run ")
    assert denied.endswith(" --dry-run=server")
    key, value = re.findall(r"--annotations=(\S+?)=(\S+)", denied)[0]
    assert key == intent.POLICY
    with pytest.raises(BadInput, match=value):
        intent.policy(value, where=key)


def test_named_webhooks_exist() -> None:
    called = {name for guide in guides() for name in re.findall(r'admission webhook "([\w.-]+)"', guide.text)}
    assert called
    assert called <= {entry["name"] for entry in installed(".").entries}


@pytest.mark.packaging
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("cloud", ["eks", "gke", "aks"])
async def test_cloud_guide_installs_a_scheduler(helm: Path, cloud: str) -> None:
    lines = Guide.read(cloud).commands("Install numalign")
    [install] = [line for line in lines if line.startswith("helm install")]
    [label] = [line for line in lines if line.startswith("kubectl label")]
    objects = Installation(parsed(await template(helm, *helm_values(install))))
    assert {
        "numalign-webhook",
        "numalign-scorer",
        "numalign-scheduler",
        "numalign-agent",
    } <= objects.of_pods.keys()
    [(key, name)] = re.findall(r"^kubectl label namespace team (\S+)=(\S+)$", label)
    rules, _ = intent.parse_namespace({key: name})
    assert rules.scheduler == name
    profiles = objects.scheduler_configuration()["profiles"]
    assert [profile["schedulerName"] for profile in profiles] == [name]


@pytest.mark.packaging
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("guide", "command", "fields"),
    [
        ("aks", 0, {("MutatingWebhookConfiguration zz-numalign", "metadata annotations"):
                    {"admissions.enforcer/disabled": "true"}}),
        ("eks", -1, {("pod webhook", "hostNetwork"): True}),
        ("openshift", 0, {(f"{kind} {name}", f"securityContext {key}"): None
                          for kind in ("pod", "container") for name in ("webhook", "controller")
                          for key in ("runAsUser", "runAsGroup", "fsGroup")}),
        ("gates", 0, {("settings webhook", "gates"): True}),
    ],
)  # fmt: skip
async def test_command_of_a_guide_sets_fields(
    helm: Path, guide: str, command: int, fields: Mapping[tuple[str, str], object]
) -> None:
    commands = Guide.read(guide).commands("Steps" if guide == "gates" else "Install numalign")
    found = Installation(parsed(await template(helm, *helm_values(commands[command]))))
    assert {(of, path): field(found, of, path) for of, path in fields} == fields


EXAMPLE = Guide.read("cluster-policy").example("Steps")


def test_example_of_a_policy_is_read_and_its_kinds_are_sent() -> None:
    read = policy.parse(yaml.safe_dump(EXAMPLE["policy"]).encode())
    assert read.defaults[0].rules.default is intent.Policy.RESTRICTED
    assert read.exemptions.namespaces == {"playground"}
    assert ("trainer.example.com", "TrainJob") in read.templates
    assert EXAMPLE.keys() <= VALUES.keys()
    [rule], [added] = EXAMPLE["workloadRules"], EXAMPLE["policy"]["workloads"]
    assert rule["apiGroups"] == [added["group"]]


def test_gates_are_removed_before_they_are_disabled() -> None:
    gates = Guide.read("gates")
    on, *_, labelled = gates.commands("Steps")
    unlabelled, ungated, off = gates.commands("Turn gates off")
    assert (on.count("gates.enabled=true"), off.count("gates.enabled=false")) == (1, 1)
    assert f"{intent.GATE}={intent.Gate.ENABLED}" in labelled
    assert unlabelled == f"kubectl label namespaces --all {intent.GATE}-"
    assert ungated.startswith("kubectl numa ungate -A")


def test_heal_guide_lists_every_value_of_the_label() -> None:
    table = Guide.read("heal").text.partition("## Before you begin")[0]
    assert set(re.findall(rf"{intent.HEAL}=(\w+)", table)) == {*intent.Heal}


def test_emergency_switch_deletes_webhooks() -> None:
    switch, _ = Guide.read("enforce").commands("Turn numalign off in an emergency")
    _, _, kinds, name = switch.split()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert kind.lower() in kinds.split(",")
        assert (kind, name) in installed(".")


def test_upgrade_guide_lists_renamed_values() -> None:
    checks = (CHART / "templates" / "_checks.tpl").read_text()
    [listed] = re.findall(r'define "numalign.renamed" -}}\n(.*?){{- end', checks, re.DOTALL)
    renamed = {(old, new) for old, new in yaml.safe_load(listed).items() if new}

    rows = re.findall(r"^\| (`.*`) \| (`.*?)(?: \(a list\))? \|$", Guide.read("upgrade").text, re.MULTILINE)
    shown = {
        pair
        for row in rows
        for pair in zip(*(re.findall(r"`([\w.-]+?)(?:\.FLAG)?`", cell) for cell in row), strict=True)
    }
    assert shown == renamed


def test_uninstalling_removes_folders_and_labels() -> None:
    *parts, guard, deleted, nodes, namespaces = UNINSTALL.commands("Remove what kubectl applied")
    folders = [line.split()[3] for line in parts]
    assert {Path(folder).name for folder in folders} == {"scheduler", "scorer", "agent", "guard"}
    assert guard.startswith("kubectl delete -k deploy/manifests/guard")
    assert deleted.startswith("kubectl delete -k deploy/manifests ")
    assert nodes == f"kubectl label nodes --all {intent.CLASS_LABEL}- {intent.NODE_LABEL}-"
    assert namespaces == f"kubectl label namespaces --all {' '.join(f'{label}-' for label in LABELS)}"
    by_helm, _, *labels = UNINSTALL.commands("Remove what Helm installed")
    assert by_helm.startswith("helm uninstall numalign --namespace numalign-system")
    assert labels == [nodes, namespaces]


def test_agent_guide_waits_for_the_daemonset() -> None:
    agent = Guide.read("agent")
    enabled, waiting = agent.commands("Install it with Helm")
    assert " --set agent.enabled=true " in enabled
    agents = installed("agent")["DaemonSet", "numalign-agent"]["metadata"]
    assert waiting == f"kubectl -n {agents['namespace']} rollout status daemonset/{agents['name']}"
    files = [line.split()[-1] for line in agent.commands("Install it with kubectl")]
    assert [(ROOT / file).exists() for file in files] == [True] * 3


# ---- the scorer

SCORER, SCHEDULER = installed("scorer"), installed("scheduler")
BIND = yaml.safe_load(patched.configuration("bind"))
[EXTENDER] = BIND["extenders"]
SECOND, ON_HOSTS = "Run a second scheduler", "Use the control plane's scheduler"


def test_scheduler_guide_waits_for_the_leader() -> None:
    _, scorer, scheduler, *_ = SCHEDULER_PAGE.commands(SECOND)
    assert "wait --for=jsonpath='{.status.readyReplicas}'=1" in scorer
    assert scorer.endswith("deployment/numalign-scorer")
    assert scheduler.endswith("rollout status deployment/numalign-scheduler")


def test_example_pod_uses_the_installed_scheduler() -> None:
    names = [profile["schedulerName"] for profile in SCHEDULER.scheduler_configuration()["profiles"]]
    assert [SCHEDULER_PAGE.example(SECOND)["spec"]["schedulerName"]] == names


def test_certificate_of_the_scorer_names_its_service() -> None:
    issue, generic, upgrade = SCHEDULER_PAGE.commands(ON_HOSTS)[:3]
    assert f"--name {EXTENDER['tlsConfig']['serverName']} " in issue
    service = SCORER["Service", "numalign-scorer"]["metadata"]
    assert EXTENDER["tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"
    assert {"scorer-tls/tls.crt", "scorer-tls/tls.key", "scorer-tls/ca.crt"} <= set(
        re.findall(r"--from-file=(\S+)", generic)
    )
    assert f"scorer.service.clusterIP={EXTENDER['urlPrefix'].removeprefix('https://')}" in upgrade
    [name] = re.findall(r"generic (\S+)", generic)
    assert f"scorer.tls.secretName={name}" in upgrade


def test_copied_files_are_where_they_are_read() -> None:
    configuration, ca, patch, _, written, written_anew = SCHEDULER_PAGE.commands(ON_HOSTS)[3:]
    [container] = patched.static_pod()["spec"]["containers"]
    assert f"--config={configuration.split()[-1]}" in container["command"]
    assert ca.split()[-1] == EXTENDER["tlsConfig"]["caFile"]
    for line in (configuration, patch):
        [source] = re.findall(r" (deploy/schedulers/\S+)", line)
        assert (ROOT / source).is_file()
    [folder] = re.findall(r"-t (\S+)", patch)
    assert f"patches: {{directory: {folder}}}" in written
    assert written.split()[-1] == written_anew.split()[-1] == "kubeadm.yaml"


def test_example_of_strategies_is_read() -> None:
    shown = SCHEDULER_PAGE.example("Rank nodes")["scorer"]
    strategies = ranking.parse_strategies(shown["extraArgs"]["strategies"])
    text = yaml.safe_dump(shown["ranking"]).encode()
    read = ranking.parse_rankings(text, default=Ranking(strategies, {}))
    assert read.default == Ranking(strategies, {"nvidia.com/gpu": 3})
    assert [choice.ranking.strategies for choice in read.choices] == [(Strategy.LEAST_ALLOCATED,)]


async def test_own_certificate_makes_a_readable_secret(kubectl: str, tmp_path: Path) -> None:
    """Without ca.crt, `numalign-certs inspect` could not judge the pair."""
    pair = authority.issue(names=["numalign-webhook.numalign-system.svc"], days=1, now=utc_now())
    authority.write(pair, tmp_path)
    _, _, by_hand, install = Guide.read("certificates").commands("Bring your own certificate")
    _, *arguments = by_hand.split()
    created = json.loads(await run(kubectl, *arguments, "--dry-run=client", "--output=json", cwd=tmp_path))
    assert (created["metadata"]["name"], created["type"]) == (
        VALUES["tls"]["secretName"],
        "kubernetes.io/tls",
    )
    assert secret.parse(created).current == pair
    assert "tls.source=secret" in install


@pytest.mark.packaging
@pytest.mark.timeout(1200)
async def test_example_of_an_ingress_serves_the_map(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(Guide.read("map").example("Serve it through an Ingress")))
    objects = await made(helm, "", "--values", str(values))
    loaded = objects.settings("numalign-controller", ControllerSettings)

    assert (loaded.map, loaded.map_bind, str(loaded.map_tls_cert)) == (True, "*", "/etc/numalign-map/tls.crt")
    assert objects["Ingress", "numalign-map"]["spec"]["rules"][0]["host"] == "numa.example.com"


def test_users_of_the_map_are_bound_to_its_role() -> None:
    lines = Guide.read("map").commands("Serve it in the cluster")
    bound = [re.findall(r"--clusterrole (\S+)", line) for line in lines if "rolebinding" in line]
    assert bound == [["numalign-map-viewer"], ["numalign-map-viewer"]]


def test_readme_lists_the_files_of_deploy() -> None:
    readme = (DEPLOY / "README.md").read_text()
    listed = re.findall(r"^\| `([^`]+)`", readme, re.MULTILINE)
    paths = {path for path in listed if "numalign.io" not in path}
    assert paths == {"chart/", "manifests/", "schedulers/", "crd/", "Dockerfile"}
    assert all((DEPLOY / path).exists() for path in paths)
    assert MANIFESTS.is_dir()
