"""What a running cluster says of itself: the namespace that is meant, and the policy that is installed."""

from http import HTTPStatus

import pytest

from numalign.kube import installation
from numalign.kube.connection import Connection
from numalign.kube.errors import Forbidden, Unconfigured
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


@pytest.mark.parametrize(("said", "meant"), [(None, "default"), ("team-a", "team-a")])
async def test_the_context_says_which_namespace_is_meant(
    api: FakeApi, kubeconfig: Kubeconfig, said: str | None, meant: str
) -> None:
    assert await installation.context_namespace(Connection(kubeconfig(namespace=said))) == meant
    assert api.requests == []


async def test_without_a_kubeconfig_nobody_says_it() -> None:
    with pytest.raises(Unconfigured, match="there is no kubeconfig at /nowhere"):
        await installation.context_namespace(Connection("/nowhere"))


async def test_the_policy_is_that_of_the_namespace_that_the_webhook_runs_in(
    api: FakeApi, kubeconfig: Kubeconfig
) -> None:
    api.put(IN_THE_CLUSTER)
    for namespace, text in (("numa", POLICY), ("tenant", "defaults: [{}]")):
        api.put(policy_map({"policy.yaml": text}, namespace=namespace))

    assert await installation.policy(Connection(kubeconfig())) == (POLICY, "numa/numalign-policy")


NONE: list[tuple[str, list[Json]]] = [
    ("nothing is installed", []),
    ("the webhook runs elsewhere", [webhook(url="https://elsewhere")]),
    ("there is no ConfigMap", [IN_THE_CLUSTER]),
    ("it holds another file", [IN_THE_CLUSTER, policy_map({"other": "x"})]),
    ("it is no ConfigMap", [IN_THE_CLUSTER, policy_map("text")]),
    ("the configuration is none", [configuration(1)]),
]


@pytest.mark.parametrize("objects", table(NONE))
async def test_there_may_be_none(api: FakeApi, kubeconfig: Kubeconfig, objects: list[Json]) -> None:
    for made in objects:
        api.put(made)

    assert await installation.policy(Connection(kubeconfig())) is None


async def test_who_may_not_see_it_is_told(api: FakeApi, kubeconfig: Kubeconfig) -> None:
    api.failures[f"{CONFIGURATIONS}/zz-numalign"] = HTTPStatus.FORBIDDEN

    with pytest.raises(Forbidden, match="ValidatingWebhookConfiguration zz-numalign"):
        await installation.policy(Connection(kubeconfig()))
