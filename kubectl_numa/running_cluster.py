"""The cluster of the kubeconfig."""

import asyncio
from dataclasses import dataclass
from typing import Any

from kubectl_numa.lines import notify, notify_skipped, waiting
from kubectl_numa.typed_names import TypedName
from numalign.kube import collect, installation, installed_versions
from numalign.kube.client import connected
from numalign.kube.configz import Progress
from numalign.kube.connection import FROM_KUBECONFIG, Connection
from numalign.kube.decode.kubelet_config import KIND
from numalign.kube.errors import Forbidden
from numalign.kube.files import policy
from numalign.kube.files.policy import NO_POLICY, BadPolicy, ClusterPolicy
from numalign.kube.installed_versions import InstalledVersions


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """The cluster of a connection. Every method raises `ClusterError`."""

    connection: Connection = FROM_KUBECONFIG

    def namespace(self) -> str:
        """Return the namespace of the context; read only from the kubeconfig."""
        return asyncio.run(installation.context_namespace(self.connection))

    def policy(self) -> ClusterPolicy:
        """Return the installed policy.

        Its name, or that it may not be read, is reported on standard error. Raise `BadPolicy` for an invalid
        one, because the programs then keep an older one, which cannot be read from here.
        """
        try:
            installed = asyncio.run(installation.policy(self.connection))
        except Forbidden as error:
            notify(f"cluster policy: unknown: {error}; specify its file with --policy")
            return NO_POLICY
        if not installed:
            return NO_POLICY
        text, name = installed
        notify(f"cluster policy: ConfigMap {name}")
        try:
            return policy.parse(text.encode())
        except BadPolicy as error:
            raise BadPolicy(mistake.under(f"ConfigMap {name}") for mistake in error.mistakes) from error

    def collect(self, *, with_pods: bool = False, with_kubelet_configs: bool = False) -> dict[str, Any]:
        """Return all objects that the rules need, as a List.

        Kubelets that do not show their configuration, and optional objects that may not be read, are reported
        on standard error.
        """
        problems: list[str] = []

        def left_out(what: str, error: Exception) -> None:
            problems.append(f"{what}: {error}")

        with waiting("reading the cluster") as now:
            listener = Progress(
                ask=lambda number, all_: now(f"reading kubelet configurations: {number:,} of {all_:,}"),
                left_out=lambda node, error: left_out(f"{KIND} {node}", error),
            )
            objects = asyncio.run(
                collect.collect(
                    self.connection,
                    with_pods=with_pods,
                    kubelets=listener if with_kubelet_configs else None,
                    left_out=left_out,
                )
            )
        notify_skipped(problems)
        return objects

    def one(self, named: TypedName, *, namespace: str) -> dict[str, Any]:
        """Return an object by its type and name."""
        return asyncio.run(
            collect.one(named.type, named.name, namespace=namespace, connection=self.connection)
        )

    def versions(self) -> InstalledVersions:
        """Return the versions in the cluster; report on standard error if programs may not be listed."""

        async def asked() -> InstalledVersions:
            async with connected(self.connection) as api:
                kubernetes = await installed_versions.kubernetes(api)
                try:
                    return InstalledVersions(kubernetes, await installed_versions.programs(api))
                except Forbidden as error:
                    notify(f"programs in the cluster: unknown: {error}")
                    return InstalledVersions(kubernetes, None)

        with waiting("reading the cluster"):
            return asyncio.run(asked())

    def pods(self) -> list[dict[str, Any]]:
        """Return all pods, as in a snapshot file."""
        return asyncio.run(collect.pods(self.connection))
