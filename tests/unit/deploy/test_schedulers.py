"""The shipped configurations of existing schedulers name what is installed."""

import json
from pathlib import Path
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
EXTENDERS: dict[str, Object] = {name: read["extenders"][0] for name, read in WITH_EXTENDER.items()}


def test_patched_static_pod_reads_the_mounted_configuration() -> None:
    pod = patched.static_pod()
    kubernetes_validate.validate({**pod, "status": {}}, "1.34", strict=True)
    [container] = pod["spec"]["containers"]
    [flag] = [flag for flag in container["command"] if flag.startswith("--config=")]
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "numalign"]
    [volume] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "numalign"]
    assert flag == f"--config={mount['mountPath']}/scheduler.yaml"
    assert volume["hostPath"] == {"path": mount["mountPath"], "type": "Directory"}
    # TARGET+TYPE.yaml (cmd/kubeadm/app/util/patches of k8s.io/kubernetes).
    assert [file.name for file in PATCH.parent.iterdir()] == ["kube-scheduler+json.yaml"]
    assert {file.stem for file in KUBEADM.glob("*.yaml")} == set(CONFIGURATIONS)


async def test_kubectl_applies_the_patch_alike(kubectl: str, tmp_path: Path) -> None:
    operations, plain = tmp_path / "patch.json", Path(patched.__file__).parent / "kubeadm/kube-scheduler.yaml"
    operations.write_text(json.dumps(yaml.safe_load(PATCH.read_text())))
    flags = ("--local", "--type=json", "--output=json", f"--filename={plain}", f"--patch-file={operations}")
    assert json.loads(await run(kubectl, "patch", *flags))["spec"] == patched.static_pod()["spec"]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration_of_kubeadm_reaches_the_scorer(name: str) -> None:
    configuration, extender = WITH_EXTENDER[name], EXTENDERS[name]
    mounts = [each["mountPath"] for each in patched.static_pod()["spec"]["containers"][0]["volumeMounts"]]
    for path in (configuration["clientConnection"]["kubeconfig"], extender["tlsConfig"]["caFile"]):
        assert any(path == mount or path.startswith(f"{mount}/") for mount in mounts)
    assert urlsplit(extender["urlPrefix"]).hostname == "10.96.0.53"
    assert "10.96.0.53" in (DEPLOY / "chart" / "values.yaml").read_text()
    assert (extender["enableHTTPS"], extender["tlsConfig"]["serverName"]) == (True, NAME)
    for key in ("weight", "nodeCacheCapable", "filterVerb", "prioritizeVerb", "preemptVerb"):
        assert extender[key] == SECOND[key]


def test_refused_bind_is_never_ignored() -> None:
    """A scheduler that ignored it would bind the pod itself."""
    every = [SECOND, *EXTENDERS.values()]
    assert [each["ignorable"] for each in every] == ["bindVerb" not in each for each in every]
    assert "bindVerb" in EXTENDERS["bind"]
    waits: float = ScorerSettings.model_fields["bind_wait_seconds"].default
    assert float(EXTENDERS["bind"]["httpTimeout"].removesuffix("s")) >= waits + 1


def test_scorer_is_scheduled_without_the_scorer() -> None:
    for extender in EXTENDERS.values():
        assert extender["ignorable"] or extender["managedResources"]
    every = installed(".", "scorer", "scheduler")
    pods = [every.pod(name) for name in every.of_kind("Deployment")]
    ours = {name for pod in pods for c in pod["containers"] for of in c["resources"].values() for name in of}
    managed = EXTENDERS["bind"]["managedResources"]
    assert ours.isdisjoint(resource["name"] for resource in managed)
    assert all("schedulerName" not in pod for pod in pods)
    # The scheduler still counts them.
    assert not any(resource.get("ignoredByScheduler") for resource in managed)


def test_volcano_calls_the_scorer_without_sessions() -> None:
    [plugin] = yaml.safe_load((DEPLOY / "schedulers" / "volcano.yaml").read_text())
    arguments = plugin["arguments"]
    assert (plugin["name"], arguments["extender.urlPrefix"]) == ("extender", f"http://{NAME}/volcano")
    assert not [key for key in arguments if "Session" in key]
    assert (arguments["extender.ignorable"], arguments["extender.httpTimeout"]) == (True, "500ms")
    # Arguments of pkg/scheduler/plugins/extender of volcano-sh/volcano.
    assert {key: value for key, value in arguments.items() if key.endswith("Verb")} == {
        "extender.predicateVerb": "predicate",
        "extender.prioritizeVerb": "prioritize",
        "extender.preemptableVerb": "preemptable",
        "extender.allocateFuncVerb": "allocate",
        "extender.deallocateFuncVerb": "deallocate",
    }
