"""
The pods that kubelets rejected, in a controller that watches no other pods.

It watches failed pods alone and keeps no more than the names of those that were rejected. What had been
reserved for them, and what their nodes have free, is unknown then.
"""

import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import partial

from prometheus_client import CollectorRegistry

from controller.refused.reporter import RefusalReporter
from controller.settings import ControllerSettings
from numalign.kube.cluster import Cluster
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.events import Event
from numalign.kube.files.policy_keeper import PolicyKeeper
from numalign.kube.kinds import Key, Object
from numalign.runtime.clock import Sleep, least_age
from numalign.runtime.logs import Log
from numalign.runtime.server import BackgroundTask
from numalign.scheduling import rejected_pods
from numalign.scheduling.rejected_pods import RejectedPod


class FailedPodWatch:
    """Reports each pod once that was rejected for a reason about zones; raise `BadPolicy`.

    `tasks` run beside it.
    """

    def __init__(  # noqa: PLR0913  its dependencies
        self,
        settings: ControllerSettings,
        cluster: Cluster,
        *,
        leading: Callable[[], bool],
        publish: Callable[[Event], None],
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float],
        sleep: Sleep,
    ) -> None:
        self._policy = PolicyKeeper(settings.policy, log=log, registry=registry)
        self._policy.load()
        self._uids: dict[Key, str] = {}
        self._listed = False
        self._reporter = RefusalReporter(
            exempt=lambda rejected: exempt(EffectivePolicy.of(cluster, self._policy.now), rejected),
            leading=lambda: cluster.listed and leading(),
            publish=publish,
            log=log,
            registry=registry,
            clock=clock,
            sleep=sleep,
        )
        self.tasks: dict[str, BackgroundTask] = {"refusals": self._reporter.run}
        if settings.policy and settings.policy_reload_seconds:
            self.tasks["policy"] = partial(self._policy.follow, every=settings.policy_reload_seconds)

    def put(self, raw: Object) -> None:
        """Handle a failed pod, given as a v1 Pod."""
        rejected = rejected_pods.read(raw)
        if rejected is None or not rejected.about_zones:
            return
        key = (rejected.namespace, rejected.name)
        if self._uids.get(key) != rejected.uid:
            self._uids[key] = rejected.uid
            # After the first list, a failed pod appears when it fails.
            age = 0.0 if self._listed else least_age(time.time(), rejected.at)
            self._reporter.add(rejected, age=age)

    def drop(self, key: Key) -> None:
        """Forget a pod."""
        self._uids.pop(key, None)

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Forget all other pods; the list is complete."""
        self._listed = True
        for key in self._uids.keys() - keys:
            del self._uids[key]


def exempt(policy: EffectivePolicy, rejected: RejectedPod) -> bool:
    """Return whether a pod is exempt from numalign."""
    return policy.exemption(rejected.namespace, runtime_class=rejected.runtime_class) is not None
