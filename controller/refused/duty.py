"""What the controller runs for rejected pods."""

from functools import partial

from controller.permission import current_policy
from controller.placing import Placing
from controller.refused.removal import Removal, removals
from controller.refused.remover import Remover
from controller.refused.reporter import RefusalReporter, WatchedRefusals
from controller.refused.watch import exempt
from numalign.kube.compose import Background
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import PodInfo
from numalign.model.intent import Heal
from numalign.model.steps import Steps
from numalign.runtime.server import BackgroundTask
from numalign.scheduling.recent_refusals import refused

REMOVES = frozenset({Heal.FAILED, Heal.RUNNING})
"""The values of a namespace's label that allow deleting its rejected pods."""


MOST_GONE = 1024
"""Pods that may be gone without being forgotten, in addition to as many as exist."""


class RefusedPods:
    """The rejected pods that exist, by the pod events of `placing`."""

    def __init__(self, placing: Placing) -> None:
        self._placing = placing
        self._uids: set[str] = set()
        self._most = MOST_GONE

    def __len__(self) -> int:
        """Return how many UIDs are remembered."""
        return len(self._uids)

    def update_pod(self, pod: PodInfo, _before: PodInfo | None) -> None:
        """Handle a pod that was added or changed."""
        if refused(pod):
            self._uids.add(pod.uid)
        # No event reports deleted pods, and a replica that does not lead never calls `due`.
        if len(self._uids) > self._most:
            self._forget()

    def _forget(self) -> None:
        """Forget those that are gone."""
        self._uids &= self._placing.state.pods.keys()
        self._most = 2 * len(self._uids) + MOST_GONE

    def due(self) -> Steps[tuple[Removal, ...]]:
        """Return those that may be deleted."""
        self._forget()
        if not self._uids:
            return ()
        pods = self._placing.state.pods
        refused_pods = tuple(pods[uid] for uid in self._uids)
        # Pods change between the steps.
        everything = tuple(pods.values())
        keep = self._placing.settings.keep_refused
        may_heal = partial(heals, _policy(self._placing))
        return (yield from removals(refused_pods, everything, heals=may_heal, keep=keep))

    async def permitted(self, namespace: str) -> bool:
        """Return whether a namespace, as stored, wants its rejected pods deleted; raise `ClusterError`."""
        policy = await current_policy(self._placing.api, self._placing.policy.now, namespace)
        return heals(policy, namespace)


def _policy(placing: Placing) -> EffectivePolicy:
    """Return the current policy; before the cluster is known no namespace has rules."""
    return EffectivePolicy.of(placing.state.cluster, placing.policy.now)


def heals(policy: EffectivePolicy, namespace: str) -> bool:
    """Return whether a namespace wants its rejected pods deleted; not if it is exempt."""
    return (
        policy.rules_for(namespace).heal in REMOVES and policy.exemption(namespace, runtime_class="") is None
    )


def refused_pod_tasks(placing: Placing) -> Background:
    """Report rejected pods, and delete them if that is enabled."""
    reporter = RefusalReporter(
        exempt=lambda pod: exempt(_policy(placing), pod),
        leading=lambda: placing.state.cluster.listed and placing.leading(),
        publish=placing.publish,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
        sleep=placing.sleep,
    )
    placing.watch(WatchedRefusals(placing.state, reporter, clock=placing.clock).update_pod)
    tasks: dict[str, BackgroundTask] = {"refusals": reporter.run}
    if placing.settings.heal:
        pods = RefusedPods(placing)
        placing.watch(pods.update_pod)
        remover = Remover(
            placing.api,
            due=pods.due,
            permitted=pods.permitted,
            leading=placing.leading,
            publish=placing.publish,
            log=placing.log,
            registry=placing.registry,
            clock=placing.clock,
            sleep=placing.sleep,
        )
        tasks["removals"] = remover.run
    return Background(tasks)
