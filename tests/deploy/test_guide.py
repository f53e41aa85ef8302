"""What docs/how-to/install.md tells people to type is what the chart and the program take."""

import json
import re
from collections.abc import Mapping
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
from scorer import ranking_file
from tests.deploy import patched
from tests.deploy.render import CHART, DEPLOY, MANIFESTS, installed, made, run
from webhook.settings import WebhookSettings

ROOT = DEPLOY.parent
GUIDE = (ROOT / "docs" / "how-to" / "install.md").read_text()
VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())


def blocks(heading: str, language: str) -> list[str]:
    """The blocks in a language of a section, without those of the sections below it."""
    section = re.split(rf"^#+ {heading}$", GUIDE, flags=re.MULTILINE)[1]
    # What stands in a block may begin with # as well.
    own = re.split(r"^#+ (?![^`]*^```$)", section, flags=re.MULTILINE)[0]
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", own, re.MULTILINE | re.DOTALL)
    return found


def commands(heading: str) -> list[str]:
    """The lines of the shell blocks of a section."""
    return [line for block in blocks(heading, "sh") for line in block.splitlines()]


def example(heading: str) -> Any:  # noqa: ANN401 whatever stands there
    """What the only block in YAML of a section says."""
    [block] = blocks(heading, "yaml")
    return yaml.safe_load(block)


EXAMPLE = example("A policy for the cluster")


def test_either_way_of_installing_is_one_command() -> None:
    by_helm, by_kubectl, *_ = commands("Install")
    assert by_helm.startswith("helm install numalign deploy/chart --namespace numalign-system")
    assert by_kubectl == "kubectl apply -k deploy/manifests"


def test_whoever_installed_it_sees_it_refuse_what_is_no_policy() -> None:
    _, _, writing, ready, refused, _ = commands("Install")
    assert writing.endswith("deployment/numalign-controller")
    assert ready.endswith("deployment/numalign-webhook")
    assert refused.startswith("kubectl run ")
    assert refused.endswith(" --dry-run=server")
    key, value = re.findall(r"--annotations=(\S+?)=(\S+)", refused)[0]
    assert key == intent.POLICY
    with pytest.raises(BadInput, match=value):
        intent.policy(value, where=key)


def test_every_value_that_is_named_is_one_of_the_chart() -> None:
    named = re.findall(r"--set (\S+?)=", GUIDE)
    parts = "tls|webhooks|kubeletConfigs|image|scorer|scheduler|agent|gates|heal|prometheusRule|dashboard"
    parts += "|policyReports|ownerEvents|map"
    named += re.findall(rf"`((?:{parts})\.[\w.]+)", GUIDE)
    assert named
    for path in named:
        value: Any = VALUES
        # Below a list, the values are those of Kubernetes.
        for step in path.partition("[")[0].split("."):
            if value == {}:
                # Whoever fills it chooses the names; the schema judges those of alerts.
                break
            assert step in value, path
            value = value[step]


def test_the_policy_that_is_shown_is_one_that_the_program_reads() -> None:
    read = policy.parse(yaml.safe_dump(EXAMPLE["policy"]).encode())
    assert read.defaults[0].rules.default is intent.Policy.RESTRICTED
    assert read.exemptions.namespaces == {"playground"}
    assert ("trainer.example.com", "TrainJob") in read.templates


def test_kinds_that_the_policy_adds_are_sent_too() -> None:
    assert EXAMPLE.keys() <= VALUES.keys()
    [rule], [added] = EXAMPLE["workloadRules"], EXAMPLE["policy"]["workloads"]
    assert rule["apiGroups"] == [added["group"]]


LABELS = [
    *(intent.DEFAULT, intent.ENFORCE, intent.WARN, intent.AUDIT, intent.ADMISSION),
    *(intent.SCHEDULER, intent.GATE, intent.HEAL),
]


def test_uninstalling_takes_back_what_was_applied_and_every_label() -> None:
    guard, deleted, nodes, namespaces = commands("Uninstall")
    assert guard.startswith("kubectl delete -k deploy/manifests/guard")
    assert deleted.startswith("kubectl delete -k deploy/manifests ")
    assert nodes == f"kubectl label nodes --all {intent.CLASS_LABEL}-"
    assert namespaces == f"kubectl label namespaces --all {' '.join(f'{label}-' for label in LABELS)}"


def test_gates_are_taken_back_before_nobody_looks_after_them() -> None:
    on, *_, labelled = commands("Gates")[:4]
    *_, unlabelled, ungated, off = commands("Gates")
    assert (on.count("gates.enabled=true"), off.count("gates.enabled=false")) == (1, 1)
    assert f"{intent.GATE}={intent.Gate.ENABLED}" in labelled
    assert unlabelled == f"kubectl label namespaces --all {intent.GATE}-"
    assert ungated.startswith("kubectl numa ungate -A")


def test_what_may_be_removed_is_told_for_every_word_of_the_label() -> None:
    section = re.split(r"^## Pods that went wrong$", GUIDE, flags=re.MULTILINE)[1].split("\n## ")[0]
    assert set(re.findall(rf"{intent.HEAL}=(\w+)", section)) == {*intent.Heal}


def test_uninstalling_with_helm_takes_back_the_labels_too() -> None:
    _, _, nodes, namespaces = commands("Uninstall")
    by_helm, _, *labels = commands("Uninstall what Helm installed")
    assert by_helm.startswith("helm uninstall numalign --namespace numalign-system")
    assert labels == [nodes, namespaces]


# ---- where nobody may set an extender


CLOUDS = "EKS, GKE and AKS"


def test_two_commands_bring_a_scheduler_and_pods_to_it() -> None:
    install, label = commands(CLOUDS)
    assert install.startswith("helm install numalign deploy/chart -n numalign-system --create-namespace")
    [(key, name)] = re.findall(r"^kubectl label namespace team (\S+)=(\S+)$", label)
    rules, mistakes = intent.parse_namespace({key: name})
    assert (rules.scheduler, mistakes) == (name, ())
    profiles = installed("scheduler").scheduler_configuration()["profiles"]
    assert [profile["schedulerName"] for profile in profiles] == [name]


def test_two_commands_bring_gates_and_pods_to_them() -> None:
    upgrade, label = commands("A scheduler or a gate")
    assert upgrade.startswith(
        "helm upgrade numalign deploy/chart -n numalign-system --reset-then-reuse-values"
    )
    [(key, word)] = re.findall(r"^kubectl label namespace team (\S+)=(\S+)$", label)
    rules, mistakes = intent.parse_namespace({key: word})
    assert (rules.gate, mistakes) == (intent.Gate.ENABLED, ())


@pytest.mark.packaging
@pytest.mark.timeout(1200)
async def test_one_command_is_enough_on_every_cloud(helm: Path) -> None:
    given = " ".join(re.findall(r"--set (\S+)", commands(CLOUDS)[0]))
    found = await made(helm, given)
    assert {
        "numalign-webhook",
        "numalign-scorer",
        "numalign-scheduler",
        "numalign-agent",
    } <= found.of_pods.keys()
    on_aks = r"webhooks.annotations.admissions\.enforcer/disabled=true"
    enforced = await made(helm, f"{given} webhook.hostNetwork=true", f"--set-string={on_aks}")
    told = enforced["MutatingWebhookConfiguration", "zz-numalign"]["metadata"]["annotations"]
    assert told == {"admissions.enforcer/disabled": "true"}
    assert enforced.pod("numalign-webhook")["hostNetwork"] is True
    gated = await made(helm, " ".join(re.findall(r"--set (\S+)", commands("A scheduler or a gate")[0])))
    assert gated.settings("numalign-webhook", WebhookSettings).gates


def test_what_is_said_of_clouds_is_what_the_chart_has() -> None:
    [traps] = re.findall(rf"^## {CLOUDS}$(.*?)^### ", GUIDE, re.MULTILINE | re.DOTALL)
    assert f"port {VALUES['webhook']['port']} of the nodes" in traps
    assert VALUES["scheduler"]["image"]["repository"].startswith("registry.k8s.io/")
    assert VALUES["scheduler"]["image"]["tag"] == ""
    assert 'admissions.enforcer/disabled: "true"' in (CHART / "values.yaml").read_text()


# ---- the agent


def test_agents_are_waited_for_where_they_are() -> None:
    enabled, waiting, _, *by_kubectl = commands("The agent")
    assert " --set agent.enabled=true " in enabled
    agents = installed("agent")["DaemonSet", "numalign-agent"]["metadata"]
    assert waiting == f"kubectl -n {agents['namespace']} rollout status daemonset/{agents['name']}"
    files = [line.split()[-1] for line in by_kubectl]
    assert [(ROOT / file).exists() for file in files] == [True] * 3


# ---- the scorer

SCORER, SCHEDULER = installed("scorer"), installed("scheduler")
BIND = yaml.safe_load(patched.configuration("bind"))
[EXTENDER] = BIND["extenders"]
ON_HOSTS = "The control plane's own scheduler"


@pytest.mark.packaging
@pytest.mark.timeout(1200)
async def test_every_value_that_is_set_for_the_scorer_is_taken(helm: Path) -> None:
    lines = [*commands("A second scheduler"), *commands(ON_HOSTS)]
    given = [value for line in lines for value in re.findall(r"--set (\S+)", line)]
    volcano = re.findall(r"--set (scorer\.callers\S+volcano-system)`", GUIDE)
    assert len(volcano) == 1
    for values in (given, ["scorer.enabled=true", *volcano]):
        assert await made(helm, " ".join(values))


def test_whoever_waits_for_the_scorer_waits_for_one_that_leads() -> None:
    _, scorer, scheduler = commands("A second scheduler")
    assert "wait --for=jsonpath='{.status.readyReplicas}'=1" in scorer
    assert scorer.endswith("deployment/numalign-scorer")
    assert scheduler.endswith("rollout status deployment/numalign-scheduler")


def test_every_folder_that_is_applied_is_there() -> None:
    for folder in re.findall(r"kubectl (?:apply|delete) -k (\S+?)[`\s]", GUIDE):
        assert (ROOT / folder / "kustomization.yaml").is_file()


def test_pods_ask_for_the_scheduler_that_is_installed() -> None:
    names = [profile["schedulerName"] for profile in SCHEDULER.scheduler_configuration()["profiles"]]
    assert [example("A second scheduler")["spec"]["schedulerName"]] == names


def test_the_scorers_certificate_is_for_its_service() -> None:
    issue, secret, installed = commands(ON_HOSTS)[:3]
    assert f"--name {EXTENDER['tlsConfig']['serverName']} " in issue
    service = SCORER["Service", "numalign-scorer"]["metadata"]
    assert EXTENDER["tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"
    assert {"scorer-tls/tls.crt", "scorer-tls/tls.key", "scorer-tls/ca.crt"} <= set(
        re.findall(r"--from-file=(\S+)", secret)
    )
    assert f"scorer.service.clusterIP={EXTENDER['urlPrefix'].removeprefix('https://')}" in installed
    [name] = re.findall(r"generic (\S+)", secret)
    assert f"scorer.tls.secretName={name}" in installed


def test_what_is_copied_to_a_host_lies_where_it_is_looked_for() -> None:
    told, ca, patch, _, written, written_anew = commands(ON_HOSTS)[3:]
    [container] = patched.static_pod()["spec"]["containers"]
    assert f"--config={told.split()[-1]}" in container["command"]
    assert ca.split()[-1] == EXTENDER["tlsConfig"]["caFile"]
    for line in (told, patch):
        [source] = re.findall(r" (deploy/schedulers/\S+)", line)
        assert (ROOT / source).is_file()
    [folder] = re.findall(r"-t (\S+)", patch)
    assert f"patches: {{directory: {folder}}}" in written
    assert written.split()[-1] == written_anew.split()[-1] == "kubeadm.yaml"


def test_the_strategies_that_are_shown_are_ones_that_the_scorer_reads() -> None:
    shown = example("Strategies")["scorer"]
    strategies = ranking.parse_strategies(shown["settings"]["strategies"])
    text = yaml.safe_dump(shown["ranking"]).encode()
    read = ranking_file.parse(text, default=Ranking(strategies, {}))
    assert read.default == Ranking(strategies, {"nvidia.com/gpu": 3})
    assert [choice.ranking.strategies for choice in read.choices] == [(Strategy.LEAST_ALLOCATED,)]


async def test_a_certificate_by_hand_makes_a_secret_that_can_be_inspected(
    kubectl: str, tmp_path: Path
) -> None:
    """Without ca.crt, `numalign-certs inspect` could not judge the pair."""
    pair = authority.issue(names=["numalign-webhook.numalign-system.svc"], days=1, now=utc_now())
    authority.write(pair, tmp_path)
    _, by_hand, installed = commands("Certificates")
    _, *arguments = by_hand.split()
    made = json.loads(await run(kubectl, *arguments, "--dry-run=client", "--output=json", cwd=tmp_path))
    assert (made["metadata"]["name"], made["type"]) == (VALUES["tls"]["secretName"], "kubernetes.io/tls")
    assert secret.parse(made).current == pair
    assert "tls.source=secret" in installed


def test_the_emergency_switch_deletes_what_is_installed() -> None:
    [switch] = commands("Emergency")
    _, _, kinds, name = switch.split()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert kind.lower() in kinds.split(",")
        assert (kind, name) in installed(".")


def test_whoever_reads_on_finds_it() -> None:
    said = (DEPLOY / "README.md").read_text()
    listed = re.findall(r"^\| `([^`]+)`", said, re.MULTILINE)
    paths = {path for path in listed if "numalign.io" not in path}
    assert paths == {"chart/", "manifests/", "schedulers/", "crd/", "Dockerfile"}
    assert all((DEPLOY / path).exists() for path in paths)
    assert MANIFESTS.is_dir()


@pytest.mark.packaging
@pytest.mark.timeout(1200)
async def test_the_map_behind_an_ingress_is_served_as_the_example_says(helm: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(example("The map")))
    found = await made(helm, "", "--values", str(values))
    told = found.settings("numalign-controller", ControllerSettings)

    assert (told.map, told.map_bind, str(told.map_tls_cert)) == (True, "*", "/etc/numalign-map/tls.crt")
    assert found["Ingress", "numalign-map"]["spec"]["rules"][0]["host"] == "numa.example.com"


def test_people_are_bound_to_the_role_that_the_chart_makes_for_them() -> None:
    bound = [
        re.findall(r"--clusterrole (\S+)", line) for line in commands("The map") if "rolebinding" in line
    ]
    assert bound == [["numalign-map-viewer"], ["numalign-map-viewer"]]
