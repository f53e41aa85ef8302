"""
How a running cluster is installed: the context's namespace, and numalign's own objects.

Any tenant may create a ConfigMap of any name in its own namespace. So the place of numalign's own objects is
read from its webhook configuration, which only cluster administrators may write.
"""

from contextlib import suppress
from urllib.parse import quote

from numalign.kube.client import Api, connected
from numalign.kube.connection import FROM_KUBECONFIG, Connection
from numalign.kube.decode.parts import Part
from numalign.kube.errors import NotFound

CONFIGURATION = "zz-numalign"
"""The name of the webhook configuration."""

POLICY, POLICY_KEY = "numalign-policy", "policy.yaml"
"""The ConfigMap of the cluster's policy, and the file in it."""

_CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def context_namespace(connection: Connection = FROM_KUBECONFIG) -> str:
    """Return the namespace of a kubeconfig's context, without a request; raise `Unconfigured`."""
    async with connected(connection) as api:
        return api.namespace


async def policy(connection: Connection = FROM_KUBECONFIG) -> tuple[str, str] | None:
    """Return the installed policy file and the name of its ConfigMap; None without one.

    Raise `ClusterError`, also if the user may not read it.
    """
    async with connected(connection) as api:
        with suppress(NotFound):
            place = await namespace(api)
            text = (await config_map(api, place, POLICY)).get(POLICY_KEY) if place else None
            return (text, f"{place}/{POLICY}") if text else None
    return None


async def namespace(api: Api) -> str | None:
    """Return the namespace in which numalign's webhook runs; None if it runs outside the cluster.

    Raise `ClusterError`, and `NotFound` if it is not installed.
    """
    what = f"ValidatingWebhookConfiguration {CONFIGURATION}"
    configuration = Part(await api.get(f"{_CONFIGURATIONS}/{CONFIGURATION}", what=what))
    called = (
        webhook["clientConfig"]["service"]["namespace"].text()
        for webhook in configuration["webhooks"].objects()
    )
    return next(filter(None, called), None)


async def config_map(api: Api, place: str, name: str) -> dict[str, str]:
    """Return the texts of a ConfigMap in a namespace; raise `ClusterError`."""
    path = f"/api/v1/namespaces/{quote(place, safe='')}/configmaps/{quote(name, safe='')}"
    raw = await api.get(path, what=f"ConfigMap {place}/{name}")
    return dict(Part(raw)["data"].text_map())
