"""What a running cluster says of itself: the namespace that is meant, and the policy that is installed."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest

from numalign.kube import installation
from numalign.kube.client import Forbidden, Unconfigured
from tests.notation import table

# The fixtures of conftest.py: a server whose fields tell it what to do, and a writer of kubeconfigs.
Api = Any
Kubeconfig = Callable[..., str]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
POLICY = "defaults: []\n"


def webhook(**client: object) -> dict[str, object]:
    """The webhook configuration, which calls its webhook like this."""
    return {"metadata": {"name": "zz-numalign"}, "webhooks": [{"name": "w", "clientConfig": client}]}


IN_THE_CLUSTER = webhook(service={"name": "numalign", "namespace": "numa"})


def config_map(name: str, data: object) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


@pytest.mark.parametrize(("said", "meant"), [(None, "default"), ("team-a", "team-a")])
async def test_the_context_says_which_namespace_is_meant(
    api: Api, kubeconfig: Kubeconfig, said: str | None, meant: str
) -> None:
    assert await installation.context_namespace(kubeconfig=kubeconfig(namespace=said)) == meant
    assert api.asked == []


async def test_without_a_kubeconfig_nobody_says_it() -> None:
    with pytest.raises(Unconfigured, match="there is no kubeconfig at /nowhere"):
        await installation.context_namespace(kubeconfig="/nowhere")


async def test_the_policy_is_that_of_the_namespace_that_the_webhook_runs_in(
    api: Api, kubeconfig: Kubeconfig
) -> None:
    api.lists[CONFIGURATIONS] = [IN_THE_CLUSTER]
    for namespace, text in (("numa", POLICY), ("tenant", "defaults: [{}]")):
        maps = [config_map("numalign-policy", {"policy.yaml": text})]
        api.lists[f"/api/v1/namespaces/{namespace}/configmaps"] = maps

    assert await installation.policy(kubeconfig=kubeconfig()) == (POLICY, "numa/numalign-policy")


@pytest.mark.parametrize(
    ("configurations", "maps"),
    table(
        [
            ("nothing is installed", [], []),
            ("the webhook runs elsewhere", [webhook(url="https://elsewhere")], []),
            ("there is no ConfigMap", [IN_THE_CLUSTER], []),
            ("it holds another file", [IN_THE_CLUSTER], [config_map("numalign-policy", {"other": "x"})]),
            ("it is no ConfigMap", [IN_THE_CLUSTER], [config_map("numalign-policy", "text")]),
            ("the configuration is none", [{"metadata": {"name": "zz-numalign"}, "webhooks": 1}], []),
        ]
    ),
)
async def test_there_may_be_none(
    api: Api, kubeconfig: Kubeconfig, configurations: list[Any], maps: list[Any]
) -> None:
    api.lists[CONFIGURATIONS] = configurations
    api.lists["/api/v1/namespaces/numa/configmaps"] = maps

    assert await installation.policy(kubeconfig=kubeconfig()) is None


async def test_who_may_not_see_it_is_told(api: Api, kubeconfig: Kubeconfig) -> None:
    api.failures[f"{CONFIGURATIONS}/zz-numalign"] = HTTPStatus.FORBIDDEN

    with pytest.raises(Forbidden, match="ValidatingWebhookConfiguration zz-numalign"):
        await installation.policy(kubeconfig=kubeconfig())
