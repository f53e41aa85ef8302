"""
Events on the owners of pods that request less than the level `warn` of their namespace.

The webhook warns the client that creates a pod, which is nearly always a controller that reads no warnings.
So the pod's owner gets an event, which `kubectl describe deployment` shows. New pods are checked as they are
watched; for many pods of one owner there is one event, and the rate is limited.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import quote

from numalign.cache.admission import below_text
from numalign.cache.pod_question import PodQuestion
from numalign.kube.client import Api
from numalign.kube.decode.parts import Part, group
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.errors import ClusterError, Forbidden, NotFound
from numalign.kube.events import Event, Type
from numalign.kube.pod_informer import LONGEST_NAME, Owner, PodInfo, owner_of
from numalign.kube.writes import FailureLog, answer
from numalign.lru import LRU
from numalign.namespace_queue import NamespaceQueue
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import MANY_LINES, Log
from numalign.scheduling.scheduler_state import SchedulerState

EVENT = "NUMABelowWarn"
"""The reason of the event on the owner."""

TURN_SECONDS = 1.0
PER_TURN = 2
"""Most owners that are processed in a turn."""

MOST_WAITING = 1024
"""Most owners that wait for an event; beyond it the namespace with the most loses its last one."""

REMEMBERED = 4096
"""Owners that have got an event, and ReplicaSets whose owners were looked up."""

READ_SECONDS = 5.0
MOST_BYTES = 2**21
"""More than an API server stores for one object."""

_VERSIONS: Mapping[str, str] = MappingProxyType({"": "v1", "apps": "apps/v1", "batch": "batch/v1"})


_OwnerKey = tuple[str, Owner]
"""The namespace, and all that a pod says of its owner: a tenant may write any UID into a pod."""


_NamedOwner = tuple[Owner, str]
"""The object of an event: an owner, and its API version; "" if that is unknown."""


@dataclass(eq=False, kw_only=True)
class OwnerEvents:
    """Writes events on owners while `leading` returns True."""

    api: Api
    state: SchedulerState
    leading: Callable[[], bool]
    publish: Callable[[Event], None]
    log: Log
    sleep: Sleep = asyncio.sleep
    _waiting: NamespaceQueue[Owner, str] = field(
        init=False, default_factory=lambda: NamespaceQueue(MOST_WAITING)
    )
    _notified: LRU[tuple[_OwnerKey, str], None] = field(init=False, default_factory=lambda: LRU(REMEMBERED))
    _above: LRU[_OwnerKey, _NamedOwner] = field(init=False, default_factory=lambda: LRU(REMEMBERED))

    def __post_init__(self) -> None:
        self._errors = FailureLog(self.log, lines=MANY_LINES)

    def update_pod(self, pod: PodInfo, before: PodInfo | None) -> None:
        """Handle a pod that was added or changed."""
        if before is None and pod.owner and not pod.ended:
            self._waiting.put(pod.namespace, pod.owner, pod.uid)

    async def run(self) -> None:
        """Write events on owners; never returns."""
        while True:
            try:
                await self.turn()
            except Exception as error:  # noqa: BLE001  no object in a cluster may end the program again and again
                self.log.failed("owner.internal_error", error)
            await self.sleep(TURN_SECONDS)

    async def turn(self) -> None:
        """Process as many owners as a second allows, if this replica leads and the namespaces are known."""
        if not self.leading() or not self.state.cluster.listed:
            return
        policy = EffectivePolicy.of(self.state.cluster, self.state.policy.now)
        event_count = 0
        while self._waiting and event_count < PER_TURN:
            owner, uid = self._waiting.take()
            pod = self.state.pods.get(uid)
            if pod is None:
                continue
            question = self.state.reader.read(pod.request, pod.namespace, policy)
            warn = question.rules.warn if isinstance(question, PodQuestion) else None
            if not isinstance(question, PodQuestion) or warn is None or not question.requests_less_than(warn):
                continue
            text = f"its pods are admitted with a warning: {below_text(question, warn)}"
            if ((pod.namespace, owner), text) in self._notified:
                continue
            event_count += 1
            self._notified.put(((pod.namespace, owner), text), None)
            named, version = await self._highest(pod.namespace, owner)
            self.log.info("owner.warned", owner=f"{named.kind} {pod.namespace}/{named.name}", reason=text)
            about = pod.namespace, named.name, named.uid
            self.publish(Event(*about, Type.WARNING, EVENT, text, kind=named.kind, api_version=version))

    async def _highest(self, namespace: str, owner: Owner) -> _NamedOwner:
        """Return the owner of a ReplicaSet if it can be read; any other owner is returned as it is."""
        itself = owner, _VERSIONS.get(owner.group, "")
        if (owner.group, owner.kind) != ("apps", "ReplicaSet"):
            return itself
        key = (namespace, owner)
        if above := self._above.find(key):
            return above
        path = (
            f"/apis/apps/v1/namespaces/{quote(namespace, safe='')}/replicasets/{quote(owner.name, safe='')}"
        )
        what = f"replicaset {namespace}/{owner.name}"
        read = self.api.get(path, what=what, most=MOST_BYTES)
        try:
            metadata = Part(await answer(read, within=READ_SECONDS))["metadata"]
        except Forbidden as error:
            self._errors.forbidden("owner.forbidden", error)
            return itself
        except NotFound:
            return itself
        except ClusterError as error:
            self._errors.failed("owner.unreadable", error, owner=what)
            return itself
        self._errors.succeeded()
        # The controller of the ReplicaSet, with the API version in its owner reference.
        found, above = owner_of(metadata), itself
        if found is not None and metadata["uid"].text() == owner.uid:
            references = metadata["ownerReferences"].objects()
            written = (each["apiVersion"].text() for each in references if each["uid"].text() == found.uid)
            version = next(written, "")[:LONGEST_NAME]
            above = found, version if group(version) == found.group else ""
        self._above.put(key, above)
        return above
