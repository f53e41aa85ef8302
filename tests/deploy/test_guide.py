"""What docs/install.md tells people to type is what the chart and the program take."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import authority, state
from numalign.cluster import policy
from numalign.rules import intent
from numalign.rules.errors import BadInput
from numalign.runtime.tls import utc_now
from tests.deploy.render import CHART, DEPLOY, MANIFESTS, identities, objects

ROOT = DEPLOY.parent
GUIDE = (ROOT / "docs" / "install.md").read_text()
VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
[EXAMPLE] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
]


def commands(heading: str) -> list[str]:
    """The lines of the shell blocks of a section."""
    section = re.split(rf"^#+ {heading}$", GUIDE, flags=re.MULTILINE)[1]
    blocks = re.findall(
        r"^```sh\n(.*?)^```", re.split(r"^#", section, flags=re.MULTILINE)[0], re.MULTILINE | re.DOTALL
    )
    return [line for block in blocks for line in block.splitlines()]


def test_either_way_of_installing_is_one_command() -> None:
    by_helm, by_kubectl, *_ = commands("Install")
    assert by_helm.startswith("helm install numalign deploy/chart --namespace numalign-system")
    assert by_kubectl == "kubectl apply -k deploy/manifests"


def test_whoever_installed_it_sees_it_refuse_what_is_no_policy() -> None:
    _, _, ready, refused, _ = commands("Install")
    assert ready.endswith("deployment/numalign-webhook")
    assert refused.startswith("kubectl run ")
    assert refused.endswith(" --dry-run=server")
    key, value = re.findall(r"--annotations=(\S+?)=(\S+)", refused)[0]
    assert key == intent.POLICY
    with pytest.raises(BadInput, match=value):
        intent.policy(value, where=key)


def test_every_value_that_is_named_is_one_of_the_chart() -> None:
    named = re.findall(r"--set (\S+?)=", GUIDE)
    named += re.findall(r"`((?:tls|webhooks|kubeletConfigs|image)\.\w+)", GUIDE)
    assert named
    for path in named:
        value: Any = VALUES
        for step in path.split("."):
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


def test_uninstalling_takes_back_what_was_applied_and_every_label() -> None:
    deleted, nodes, namespaces = commands("Uninstall")
    assert deleted.startswith("kubectl delete -k deploy/manifests")
    assert nodes == f"kubectl label nodes --all {intent.CLASS_LABEL}-"
    labels = [intent.DEFAULT, intent.ENFORCE, intent.WARN, intent.AUDIT, intent.ADMISSION]
    assert namespaces == f"kubectl label namespaces --all {' '.join(f'{label}-' for label in labels)}"


def test_uninstalling_with_helm_takes_back_the_labels_too() -> None:
    _, nodes, namespaces = commands("Uninstall")
    by_helm, _, *labels = commands("Uninstall what Helm installed")
    assert by_helm.startswith("helm uninstall numalign --namespace numalign-system")
    assert labels == [nodes, namespaces]


async def test_a_certificate_by_hand_makes_a_secret_that_can_be_inspected(
    kubectl: str, tmp_path: Path
) -> None:
    """Without ca.crt, `numalign-certs inspect` could not judge the pair."""
    pair = authority.issue(names=["numalign-webhook.numalign-system.svc"], days=1, now=utc_now())
    authority.write(pair, tmp_path)
    _, by_hand, installed = commands("Certificates")
    _, *arguments = by_hand.split()
    process = await asyncio.create_subprocess_exec(
        *(kubectl, *arguments, "--dry-run=client", "--output=json"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    made = json.loads(said)
    assert (made["metadata"]["name"], made["type"]) == (VALUES["tls"]["secretName"], "kubernetes.io/tls")
    assert state.read(made).current == pair
    assert "tls.source=secret" in installed


def test_the_emergency_switch_deletes_what_is_installed() -> None:
    [switch] = commands("Emergency")
    _, _, kinds, name = switch.split()
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert kind.lower() in kinds.split(",")
        assert (kind, name) in identities(objects())


def test_whoever_reads_on_finds_it() -> None:
    said = (DEPLOY / "README.md").read_text()
    listed = re.findall(r"^\| `([^`]+)`", said, re.MULTILINE)
    assert {path for path in listed if "numalign.io" not in path} == {
        "chart/",
        "manifests/",
        "crd/",
        "Dockerfile",
    }
    assert MANIFESTS.is_dir()
