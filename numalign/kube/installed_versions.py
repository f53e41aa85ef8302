"""
The versions in a cluster: of Kubernetes, and of every program of numalign.

Pods of numalign have its label. Their version is in another label or in the tag of the image; for an image
with only a digest, in the label of the workload that created the pod. Anybody may set these labels on a pod,
so the namespace of each is reported too.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from numalign.kube.client import Api
from numalign.kube.decode import server_version
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError
from numalign.kube.kinds import Object

NAME, COMPONENT, VERSION = (f"app.kubernetes.io/{word}" for word in ("name", "component", "version"))
"""The labels of pods and workloads of numalign."""

_OURS = [("labelSelector", f"{NAME}=numalign"), ("limit", "500")]
_MOST_PAGES = 40
# Kubernetes' own program, beside the scorer.
_KUBE_SCHEDULER = "scheduler"
_WORKLOADS = ("deployments", "daemonsets")


@dataclass(frozen=True, slots=True)
class InstalledProgram:
    """The pods of one program and version in a namespace; `version` is None if not known."""

    program: str
    namespace: str
    version: str | None
    image: str
    pods: int
    ready: int

    @property
    def ours(self) -> bool:
        """Whether its versions are numalign's own."""
        return self.program != _KUBE_SCHEDULER


@dataclass(frozen=True, slots=True)
class InstalledVersions:
    """What runs in a cluster; `programs` is None if the user may not read them."""

    kubernetes: str
    programs: tuple[InstalledProgram, ...] | None


async def kubernetes(api: Api) -> str:
    """Return the version of the API server, such as `v1.34.2`; raise `ClusterError`."""
    return Part(await server(api))["gitVersion"].text()


async def server(api: Api) -> Object:
    """Return the version of the API server as a snapshot has it; raise `ClusterError`.

    Every user may read it (the ClusterRole system:public-info-viewer of Kubernetes).
    """
    return server_version.described(await api.get("/version", what="the version of the API server"))


async def programs(api: Api) -> tuple[InstalledProgram, ...]:
    """Return every program of numalign, by name, namespace and version; raise `ClusterError`."""
    pods = [_RunningPod.of(pod) async for pod in _listed(api, "/api/v1/pods", what="the pods of numalign")]
    of_workloads: Mapping[tuple[str, str], str] = {}
    if not all(pod.version for pod in pods):
        of_workloads = await _versions_of_workloads(api)
    grouped = defaultdict[tuple[str, str, str, str], list[_RunningPod]](list)
    for pod in pods:
        version = pod.version or of_workloads.get((pod.namespace, pod.program), "")
        grouped[pod.program, pod.namespace, version, pod.image].append(pod)
    return tuple(
        InstalledProgram(
            program, namespace, version or None, image, len(alike), sum(pod.ready for pod in alike)
        )
        for (program, namespace, version, image), alike in sorted(grouped.items())
    )


@dataclass(frozen=True, slots=True)
class _RunningPod:
    program: str
    namespace: str
    version: str
    image: str
    ready: bool

    @classmethod
    def of(cls, pod: Part) -> "_RunningPod":
        metadata = pod["metadata"]
        labels = metadata["labels"]
        program = labels[COMPONENT].text()
        images = {
            container["name"].text(): container["image"].text()
            for container in pod["spec"]["containers"].objects()
        }
        image = images.get(program) or next(iter(images.values()), "")
        ready = any(
            condition["type"].text() == "Ready" and condition["status"].text() == "True"
            for condition in pod["status"]["conditions"].objects()
        )
        version = labels[VERSION].text() or tag(image)
        return cls(program or "unknown", metadata["namespace"].text(), version, image, ready)


def tag(image: str) -> str:
    """Return the tag of an image; empty if it has none."""
    name, _, _ = image.partition("@")
    _, colon, word = name.rpartition(":")
    return word if colon and "/" not in word else ""


async def _versions_of_workloads(api: Api) -> Mapping[tuple[str, str], str]:
    """Return versions by namespace and program; workloads that the user may not read are left out."""
    versions: dict[tuple[str, str], str] = {}
    for plural in _WORKLOADS:
        try:
            async for workload in _listed(api, f"/apis/apps/v1/{plural}", what=f"the {plural} of numalign"):
                metadata = workload["metadata"]
                labels = metadata["labels"]
                versions[metadata["namespace"].text(), labels[COMPONENT].text()] = labels[VERSION].text()
        except ClusterError:
            # Then their version is reported as unknown.
            continue
    return versions


async def _listed(api: Api, path: str, *, what: str) -> AsyncIterator[Part]:
    query = [*_OURS]
    for _ in range(_MOST_PAGES):
        page = Part(await api.get(path, query, what=what))
        for item in page["items"].objects():
            yield item
        following = page["metadata"]["continue"].text()
        if not following:
            return
        query = [*_OURS, ("continue", following)]
