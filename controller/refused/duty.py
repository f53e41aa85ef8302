"""What the controller does about pods that a kubelet refused, beside all else that it does about pods."""

from functools import partial

from controller.placing import Placing
from controller.refused.removal import Removal, removals
from controller.refused.remover import Remover
from controller.refused.teller import RefusalTeller
from numalign.kube.cluster_state import Snapshot
from numalign.kube.compose import Background
from numalign.kube.effective_policy import EffectivePolicy
from numalign.kube.pod_informer import PodInfo
from numalign.model.intent import Heal
from numalign.model.steps import Steps
from numalign.runtime.server import BackgroundTask
from numalign.scheduling.recent_refusals import refused

REMOVES = frozenset({Heal.FAILED, Heal.RUNNING})
"""What a namespace says whose refused pods may be removed."""


MOST_GONE = 1024
"""Pods of which it may go unnoticed that they are gone, beside as many as are there."""


class RefusedPods:
    """The refused pods that are there, as `placing` sees pods come and change."""

    def __init__(self, placing: Placing) -> None:
        self._placing = placing
        self._uids: set[str] = set()
        self._most = MOST_GONE

    def __len__(self) -> int:
        """How many uids are remembered."""
        return len(self._uids)

    def update_pod(self, pod: PodInfo, _before: PodInfo | None) -> None:
        """A pod is like this now."""
        if refused(pod):
            self._uids.add(pod.uid)
        # Nobody says that a pod is gone, and a replica that does not lead never asks what is due.
        if len(self._uids) > self._most:
            self._forget()

    def _forget(self) -> None:
        """Forget those that are gone."""
        self._uids &= self._placing.state.pods.keys()
        self._most = 2 * len(self._uids) + MOST_GONE

    def due(self) -> Steps[tuple[Removal, ...]]:
        """Those that may be removed."""
        self._forget()
        if not self._uids:
            return ()
        pods = self._placing.state.pods
        refused_pods = tuple(pods[uid] for uid in self._uids)
        # Pods come and go between the steps.
        everything = tuple(pods.values())
        keep = self._placing.settings.keep_refused
        return (yield from removals(refused_pods, everything, heals=self._heals, keep=keep))

    def _heals(self, namespace: str) -> bool:
        return heals(_policy(self._placing), namespace)


def _policy(placing: Placing) -> EffectivePolicy:
    """What is asked now; before there is a snapshot no namespace asks anything."""
    return EffectivePolicy.of(placing.state.snapshot or Snapshot(), placing.policy.now)


def _exempt(placing: Placing, pod: PodInfo) -> bool:
    """Whether numalign is told to leave a pod alone."""
    named = pod.request.runtime_class
    return _policy(placing).exemption(pod.namespace, runtime_class=named) is not None


def heals(policy: EffectivePolicy, namespace: str) -> bool:
    """Whether a namespace wants its refused pods removed; not one that numalign is told to leave alone."""
    return (
        policy.rules_for(namespace).heal in REMOVES and policy.exemption(namespace, runtime_class="") is None
    )


def look_after_refused(placing: Placing) -> Background:
    """Tell of refused pods, and remove them where that is wanted, if anything is to be done about pods."""
    if not placing.settings.looks_after_pods:
        return Background()
    teller = RefusalTeller(
        placing.state,
        exempt=partial(_exempt, placing),
        leading=placing.leading,
        tell=placing.tell,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
        wall=placing.wall,
        sleep=placing.sleep,
    )
    placing.watch(teller.update_pod)
    tasks: dict[str, BackgroundTask] = {"refusals": teller.run}
    if placing.settings.heal:
        pods = RefusedPods(placing)
        placing.watch(pods.update_pod)
        remover = Remover(
            placing.api,
            due=pods.due,
            leading=placing.leading,
            tell=placing.tell,
            log=placing.log,
            registry=placing.registry,
            clock=placing.clock,
            sleep=placing.sleep,
        )
        tasks["removals"] = remover.run
    return Background(tasks)
