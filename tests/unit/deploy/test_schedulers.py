"""What is shipped for schedulers that are there already: configurations that name what is installed."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

from scorer.settings import ScorerSettings
from tests.unit.deploy import patched
from tests.unit.deploy.patched import CONFIGURATIONS, KUBEADM, PATCH
from tools.generate.manifests import DEPLOY, Object, installed, run

SERVICE = installed("scorer")["Service", "numalign-scorer"]["metadata"]
NAME = f"{SERVICE['name']}.{SERVICE['namespace']}.svc"
[SECOND] = installed("scheduler").scheduler_configuration()["extenders"]
WITH_EXTENDER = {name: yaml.safe_load(patched.configuration(name)) for name in CONFIGURATIONS}
EXTENDERS: dict[str, Object] = {name: told["extenders"][0] for name, told in WITH_EXTENDER.items()}
VOLCANO = yaml.safe_load((DEPLOY / "schedulers" / "volcano.yaml").read_text())


# ---- kubeadm


def test_the_patch_makes_a_pod_that_kubernetes_knows_and_that_reads_what_is_mounted() -> None:
    pod = patched.static_pod()
    kubernetes_validate.validate({**pod, "status": {}}, "1.34", strict=True)
    [container] = pod["spec"]["containers"]
    [told] = [flag for flag in container["command"] if flag.startswith("--config=")]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "numalign"]
    [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == "numalign"]
    assert told == f"--config={mount['mountPath']}/scheduler.yaml"
    assert volume["hostPath"] == {"path": mount["mountPath"], "type": "Directory"}


async def test_kubectl_makes_the_same_of_the_patch(kubectl: str, tmp_path: Path) -> None:
    operations, plain = tmp_path / "patch.json", Path(patched.__file__).parent / "kubeadm/kube-scheduler.yaml"
    operations.write_text(json.dumps(yaml.safe_load(PATCH.read_text())))
    flags = ("--local", "--type=json", "--output=json", f"--filename={plain}", f"--patch-file={operations}")
    assert json.loads(await run(kubectl, "patch", *flags))["spec"] == patched.static_pod()["spec"]


def test_the_patch_is_called_as_kubeadm_looks_for_it() -> None:
    """TARGET+TYPE.yaml (cmd/kubeadm/app/util/patches of k8s.io/kubernetes)."""
    assert [file.name for file in PATCH.parent.iterdir()] == ["kube-scheduler+json.yaml"]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_all_that_a_configuration_names_lies_where_the_patch_mounts_it(name: str) -> None:
    told, extender = WITH_EXTENDER[name], EXTENDERS[name]
    mounted = [each["mountPath"] for each in patched.static_pod()["spec"]["containers"][0]["volumeMounts"]]
    for path in (told["clientConnection"]["kubeconfig"], extender["tlsConfig"]["caFile"]):
        assert any(path == each or path.startswith(f"{each}/") for each in mounted)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_scorer_is_called_by_address_and_known_by_name(name: str) -> None:
    extender = EXTENDERS[name]
    assert urlsplit(extender["urlPrefix"]).hostname == "10.96.0.53"
    assert "10.96.0.53" in (DEPLOY / "chart" / "values.yaml").read_text()
    assert (extender["enableHTTPS"], extender["tlsConfig"]["serverName"]) == (True, NAME)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_every_scheduler_weighs_alignment_alike_and_sends_names_alone(name: str) -> None:
    for key in ("weight", "nodeCacheCapable", "filterVerb", "prioritizeVerb", "preemptVerb"):
        assert EXTENDERS[name][key] == SECOND[key]


def test_who_has_the_scorer_bind_takes_its_no_for_an_answer() -> None:
    """A scheduler that ignored a refused bind would bind the pod itself."""
    every = [SECOND, *EXTENDERS.values()]
    assert [each["ignorable"] for each in every] == ["bindVerb" not in each for each in every]
    assert "bindVerb" in EXTENDERS["bind"]


def test_the_control_plane_never_waits_for_the_scorer_to_place_the_scorer() -> None:
    for extender in EXTENDERS.values():
        assert extender["ignorable"] or extender["managedResources"]
    every = installed(".", "scorer", "scheduler")
    pods = [every.pod(name) for name in every.of_kind("Deployment")]
    ours = {name for pod in pods for c in pod["containers"] for of in c["resources"].values() for name in of}
    managed = {each["name"] for each in EXTENDERS["bind"]["managedResources"]}
    assert managed.isdisjoint(ours)
    assert all("schedulerName" not in pod for pod in pods)


def test_a_managed_resource_is_still_counted_by_the_scheduler() -> None:
    assert not any(each.get("ignoredByScheduler") for each in EXTENDERS["bind"]["managedResources"])


def test_who_has_the_scorer_bind_gives_it_the_time_that_it_takes() -> None:
    waits: float = ScorerSettings.model_fields["bind_wait_seconds"].default
    assert float(EXTENDERS["bind"]["httpTimeout"].removesuffix("s")) >= waits + 1


def test_only_two_configurations_are_there_and_one_file_is_read() -> None:
    assert {file.stem for file in KUBEADM.glob("*.yaml")} == set(CONFIGURATIONS)


# ---- Volcano


ARGUMENTS: dict[str, Any] = VOLCANO[0]["arguments"]


def test_volcano_is_told_of_one_extender_at_the_service() -> None:
    assert [each["name"] for each in VOLCANO] == ["extender"]
    assert ARGUMENTS["extender.urlPrefix"] == f"http://{NAME}/volcano"


def test_volcano_sends_no_sessions_and_waits_for_nobody() -> None:
    assert not [key for key in ARGUMENTS if "Session" in key]
    assert ARGUMENTS["extender.ignorable"] is True
    assert ARGUMENTS["extender.httpTimeout"] == "500ms"


def test_volcano_asks_what_the_scorer_is_there_for() -> None:
    verbs = {key: value for key, value in ARGUMENTS.items() if key.endswith("Verb")}
    # Arguments of pkg/scheduler/plugins/extender of volcano-sh/volcano.
    assert verbs == {
        "extender.predicateVerb": "predicate",
        "extender.prioritizeVerb": "prioritize",
        "extender.preemptableVerb": "preemptable",
        "extender.allocateFuncVerb": "allocate",
        "extender.deallocateFuncVerb": "deallocate",
    }
