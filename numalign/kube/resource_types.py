"""
The types of objects that users name as TYPE/NAME: nodes, pods, and workloads.

Types are written as for kubectl: `deploy`, `deployment`, `deployments` or `deployments.apps`. Only the
cluster knows which version it serves of types outside Kubernetes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from numalign.kube.decode import templates
from numalign.kube.decode.templates import GroupKind
from numalign.model.errors import BadInput, Mistake
from numalign.model.spelling import closest_word

_SHORT: Mapping[GroupKind, tuple[str, ...]] = MappingProxyType(
    {
        ("", "Node"): ("no",),
        ("", "Pod"): ("po",),
        ("", "ReplicationController"): ("rc",),
        ("apps", "DaemonSet"): ("ds",),
        ("apps", "Deployment"): ("deploy",),
        ("apps", "ReplicaSet"): ("rs",),
        ("apps", "StatefulSet"): ("sts",),
        ("batch", "CronJob"): ("cj",),
        templates.VOLCANO_JOB: ("vcjob", "vj"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): ("lws",),
        templates.INFERENCE_SERVICE: ("isvc",),
    }
)
_VERSIONS: Mapping[str, str] = MappingProxyType({"": "v1", "apps": "v1", "batch": "v1"})
_LONGEST = 253


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A type of objects; `kind` and `version` are empty if only the API server knows them."""

    group: str
    plural: str
    kind: str = ""
    version: str = ""
    namespaced: bool = True

    @property
    def singular(self) -> str:
        """The type as written before a name: `pod`, `deployment.apps`."""
        name = self.kind.lower() or self.plural
        return f"{name}.{self.group}" if self.group else name

    def path(self, version: str, namespace: str) -> str:
        """Return the path of a version of it, in a namespace if it is namespaced."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def is_of(self, group: str, kind: str) -> bool:
        """Return whether an object of this kind is of this type."""
        kinds = {self.kind} if self.kind else {kind for kind in (kind,) if self.plural in _plurals(kind)}
        return group == self.group and kind in kinds


def _plurals(kind: str) -> tuple[str, ...]:
    """Return the plurals that a kind may have."""
    word = kind.lower()
    return word, f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies"


def _known() -> Iterator[tuple[str, ResourceType]]:
    """Yield each type by all its names, the intended meaning of a name first."""
    kinds: Iterable[GroupKind] = (("", "Node"), *templates.TEMPLATES)
    for group, kind in kinds:
        plural = f"{kind.lower()}s"
        namespaced = (group, kind) not in {("", "Node"), *templates.CLUSTER_SCOPED}
        type_ = ResourceType(group, plural, kind, _VERSIONS.get(group, ""), namespaced)
        for word in (kind.lower(), plural, *_SHORT.get((group, kind), ())):
            yield word, type_
            if group:
                yield f"{word}.{group}", type_


def _by_name() -> Mapping[str, ResourceType]:
    types: dict[str, ResourceType] = {}
    for word, type_ in _known():
        types.setdefault(word, type_)
    return MappingProxyType(types)


BY_NAME = _by_name()
"""The known types, by all their names."""

NODE, POD = BY_NAME["node"], BY_NAME["pod"]


def named(text: str, *, where: str) -> ResourceType:
    """Return the type with this name, in any case; raise `BadInput` for the place `where` it was written.

    An unknown type is accepted if it is written with its group, as `trainers.example.com`.
    """
    word = text.lower()
    if type_ := BY_NAME.get(word):
        return type_
    plural, dot, group = word.partition(".")
    if dot and plural.isalnum() and group and len(word) <= _LONGEST and set(group) <= _OF_GROUPS:
        return ResourceType(group, plural)
    close = closest_word(word, BY_NAME)
    hint = f": did you mean {close}?" if close else ": write pod, deployment, job, ... or PLURAL.GROUP"
    raise BadInput([Mistake(where, f'there is no resource type "{text}" that creates pods{hint}')])


_OF_GROUPS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
