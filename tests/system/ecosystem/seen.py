"""What tests of several programs look for."""

from collections.abc import Sequence

from tests.system.eventually import eventually
from tests.system.workloads.stages import Stage
from tools.clusters.api_requests import Json


def assert_pinned(pods: Sequence[Json]) -> None:
    """Assert that numalign chose the node of each pod, and that its own kubelet took it."""
    for pod in pods:
        assert "numalign.io/pinned-at" in pod["metadata"]["annotations"]
        required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        named = {
            value
            for term in required["nodeSelectorTerms"]
            for field in term["matchFields"]
            for value in field["values"]
        }
        assert named == {pod["spec"]["nodeName"]}


async def until_event(stage: Stage, home: str, name: str, *reasons: str) -> str:
    """Wait for an event of an object that has one of these reasons, and return which."""

    async def found() -> set[str]:
        events = await stage.events(home)
        return {each["reason"] for each in events if each["involvedObject"]["name"] == name} & {*reasons}

    return min(await eventually(found, bool, f"{name} had an event of {reasons}"))
