"""Sinks that record the objects or the pods that they receive."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from numalign.kube.kinds import Key, Object
from numalign.kube.pod_informer import PodInfo


@dataclass
class RecordedSink:
    """A sink of objects; it raises for the object with the name `broken`."""

    broken: str = ""
    objects: dict[Key, Object] = field(default_factory=dict)
    calls: list[tuple[str, object]] = field(default_factory=list)

    def put(self, raw: Object) -> None:
        metadata = raw["metadata"]
        if metadata["name"] == self.broken:
            raise ZeroDivisionError("a decoder with a fault")
        self.calls.append(("put", metadata["name"]))
        self.objects[metadata.get("namespace", ""), metadata["name"]] = raw

    def drop(self, key: Key) -> None:
        self.calls.append(("drop", key[1]))
        self.objects.pop(key, None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        self.calls.append(("keep", {name for _, name in keys}))
        self.objects = {key: raw for key, raw in self.objects.items() if key in keys}

    @property
    def names(self) -> str:
        return " ".join(sorted(name for _, name in self.objects))


@dataclass
class RecordedPods:
    """A listener of pods; to update a pod that has not changed is a mistake."""

    pods: dict[str, PodInfo] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)

    def update_pod(self, pod: PodInfo) -> None:
        assert self.pods.get(pod.uid) != pod
        self.pods[pod.uid] = pod
        self.calls.append(("update", pod.uid))

    def remove_pod(self, uid: str) -> None:
        del self.pods[uid]
        self.calls.append(("remove", uid))

    @property
    def names(self) -> str:
        return " ".join(sorted(pod.name for pod in self.pods.values()))
