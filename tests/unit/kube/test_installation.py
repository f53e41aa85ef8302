"""The namespace of a context, and the policy and the versions that are installed in a cluster."""

from http import HTTPStatus

import pytest

from numalign.kube import installation
from numalign.kube.connection import Connection
from numalign.kube.errors import Forbidden, Unconfigured
from numalign.kube.installed_versions import tag
from tests.unit.kube.conftest import Kubeconfig
from tests.worlds.notation import table
from tests.worlds.objects import Json
from tools.clusters.fake_api import FakeApi

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POLICY = "defaults: []\n"


def webhook(**client: object) -> Json:
    """The webhook configuration, which calls its webhook like this."""
    return configuration([{"name": "w", "clientConfig": client}])


def configuration(webhooks: object) -> Json:
    version, kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "zz-numalign"}, "webhooks": webhooks}


IN_THE_CLUSTER = webhook(service={"name": "numalign", "namespace": "numa"})


def policy_map(data: object, *, namespace: str = "numa") -> Json:
    metadata = {"name": "numalign-policy", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.mark.parametrize("namespace", [None, "team-a"])
async def test_the_namespace_of_a_context(
    api: FakeApi, kubeconfig: Kubeconfig, namespace: str | None
) -> None:
    connection = Connection(kubeconfig(namespace=namespace))
    assert await installation.context_namespace(connection) == (namespace or "default")
    assert api.requests == []


async def test_a_namespace_needs_a_kubeconfig() -> None:
    with pytest.raises(Unconfigured, match="there is no kubeconfig at /nowhere"):
        await installation.context_namespace(Connection("/nowhere"))


async def test_the_policy_of_the_namespace_of_the_webhook(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.put(IN_THE_CLUSTER)
    for namespace, text in (("numa", POLICY), ("tenant", "defaults: [{}]")):
        api.put(policy_map({"policy.yaml": text}, namespace=namespace))
    assert await installation.policy(Connection(kubeconfig())) == (POLICY, "numa/numalign-policy")


@pytest.mark.parametrize("objects", table([
    ("nothing is installed", []),
    ("the webhook runs elsewhere", [webhook(url="https://elsewhere")]),
    ("there is no ConfigMap", [IN_THE_CLUSTER]),
    ("it holds another file", [IN_THE_CLUSTER, policy_map({"other": "x"})]),
    ("it is no ConfigMap", [IN_THE_CLUSTER, policy_map("text")]),
    ("the configuration is none", [configuration(1)]),
]))  # fmt: skip
async def test_clusters_without_a_policy(api: FakeApi, kubeconfig: Kubeconfig, objects: list[Json]) -> None:
    for made in objects:
        api.put(made)
    assert await installation.policy(Connection(kubeconfig())) is None


async def test_a_forbidden_configuration(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.failures[f"{CONFIGURATIONS}/zz-numalign"] = HTTPStatus.FORBIDDEN
    with pytest.raises(Forbidden, match="ValidatingWebhookConfiguration zz-numalign"):
        await installation.policy(Connection(kubeconfig()))


@pytest.mark.parametrize(("image", "expected"), table([
    # what it shows              the image                            its tag
    ("a tag",                    "numalign:0.1.0",                    "0.1.0"),
    ("a registry with a port",   "registry:5000/numalign",            ""),
    ("both",                     "registry:5000/numalign:0.1.0",      "0.1.0"),
    ("a digest",                 "numalign@sha256:abc",               ""),
    ("a tag and a digest",       "numalign:0.1.0@sha256:abc",         "0.1.0"),
    ("nothing",                  "",                                  ""),
]))  # fmt: skip
def test_the_tag_of_an_image(image: str, expected: str) -> None:
    assert tag(image) == expected
