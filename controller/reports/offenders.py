"""
What to report now, of the pods of each namespace and of the nodes.

Only the leader evaluates it, now and then and in slices. Admission is decided with a separate cache, which is
updated when a snapshot comes.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.healing.observing import RunningPodAlignments
from controller.reports import policy_report
from controller.reports.policy_report import PolicyReport
from numalign.cache import ClusterCache, admission
from numalign.cache.admission import AdmissionDecision
from numalign.cache.pod_question import PodQuestion
from numalign.kube import exporters
from numalign.kube.cluster_state import Snapshot
from numalign.kube.effective_policy import EffectivePolicy
from numalign.lru import Caches
from numalign.runtime.cooperative import TimeSlice, patiently
from numalign.scheduling.running_pods import RuleOutcome, RunningPod, RunningPodJudge, runs
from numalign.scheduling.scheduler_state import SchedulerState


@dataclass(eq=False, kw_only=True)
class OffenderReports:
    """Computes each report. `unknown_may_fit` is the webhook's setting `--unknown-nodes`."""

    state: SchedulerState
    unknown_may_fit: bool
    wall: Callable[[], float] = time.time
    alignments: RunningPodAlignments = field(init=False)
    cache: ClusterCache = field(init=False, default_factory=ClusterCache)
    _seen: Snapshot | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.alignments = RunningPodAlignments(self.state)

    def caches(self) -> Caches:
        """Return the caches of admission, under separate names."""
        return {f"admission_{name}": cache for name, cache in self.cache.caches().items()}

    async def reports(self) -> Mapping[str, PolicyReport] | None:
        """
        Return the reports by namespace, that of nodes under ""; None while nothing is known.

        Empty reports are left out.
        """
        snapshot = self.state.snapshot
        if snapshot is None:
            return None
        if snapshot is not self._seen:
            await patiently(
                self.cache.update(
                    snapshot.nodes, snapshot.shapes, snapshot.bare, snapshot.left_out, snapshot.pools
                )
            )
            self._seen = snapshot
        await self.alignments.judge()
        pods, nodes = await self._pods(snapshot), self._nodes(snapshot)
        return await asyncio.to_thread(_reports, pods, nodes)

    async def _pods(self, snapshot: Snapshot) -> Mapping[str, list[RunningPod]]:
        """Return the evaluated running pods, by namespace."""
        judge, judged = self._judge(snapshot), defaultdict[str, list[RunningPod]](list)
        time_slice = TimeSlice()
        for uid in tuple(self.state.pods):
            await time_slice.share()
            pod = self.state.pods.get(uid)
            if pod is None or not runs(pod):
                continue
            reading = judge.reading(pod) if judge.is_new(pod) else None
            if isinstance(reading, PodQuestion):
                await patiently(admission.steps(reading, self.cache, served=snapshot.served))
            entry = self.alignments.get(uid)
            judged[pod.namespace].append(judge.judge(pod, entry.alignment if entry else None))
        return judged

    def _judge(self, snapshot: Snapshot) -> RunningPodJudge:
        policy, now = self.state.policy.now, self.wall()
        refusals = policy.refusals(unknown_may_fit=self.unknown_may_fit)

        def decide(pod: PodQuestion) -> AdmissionDecision:
            return admission.decide(pod, self.cache, refusals, now=now, served=snapshot.served, runs=True)

        return RunningPodJudge(self.state.reader, EffectivePolicy.of(snapshot, policy), decide)

    def _nodes(self, snapshot: Snapshot) -> Mapping[str, RuleOutcome]:
        """Return the state of each node's topology."""
        now = self.wall()
        reported = {
            node.name: RuleOutcome.FAIL
            if exporters.of_node(snapshot, node.name, now=now).stale
            else RuleOutcome.PASS
            for node in snapshot.nodes
        }
        return {**reported, **dict.fromkeys(snapshot.unknown, RuleOutcome.WARN)}


def _reports(
    pods: Mapping[str, Sequence[RunningPod]], nodes: Mapping[str, RuleOutcome]
) -> Mapping[str, PolicyReport]:
    reports = [policy_report.of_namespace(name, pods[name]) for name in sorted(pods)]
    return {report.namespace: report for report in (*reports, policy_report.of_nodes(nodes)) if report}
