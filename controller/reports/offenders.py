"""
What to report now, of the pods of each namespace and of the nodes.

Only the leader evaluates it, now and then and in slices. Admission is decided with a separate cache, which
gathers changes until then.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from controller.healing.observing import RunningPodAlignments
from controller.reports import policy_report
from controller.reports.policy_report import PolicyReport
from numalign.cache import admission
from numalign.cache.admission import AdmissionDecision
from numalign.cache.pod_question import PodQuestion
from numalign.kube import exporters
from numalign.kube.admission_caches import GatheredCache
from numalign.kube.effective_policy import EffectivePolicy
from numalign.lru import Caches
from numalign.runtime.cooperative import TimeSlice, computed
from numalign.scheduling.running_pods import RuleOutcome, RunningPod, RunningPodJudge, runs
from numalign.scheduling.scheduler_state import SchedulerState


@dataclass(eq=False, kw_only=True)
class OffenderReports:
    """Computes each report. `unknown_may_fit` is the webhook's setting `--unknown-nodes`."""

    state: SchedulerState
    unknown_may_fit: bool
    wall: Callable[[], float] = time.time
    alignments: RunningPodAlignments = field(init=False)
    cache: GatheredCache = field(init=False)

    def __post_init__(self) -> None:
        self.alignments = RunningPodAlignments(self.state)
        self.cache = GatheredCache(self.state.cluster)

    def caches(self) -> Caches:
        """Return the caches of admission, under separate names."""
        return {f"admission_{name}": cache for name, cache in self.cache.caches().items()}

    async def reports(self) -> Mapping[str, PolicyReport] | None:
        """
        Return the reports by namespace, that of nodes under ""; None while nothing is known.

        Empty reports are left out.
        """
        if not self.state.cluster.listed:
            return None
        cache = await self.cache.current()
        await self.alignments.judge()
        policy, cluster, now = self.state.policy.now, self.state.cluster, self.wall()
        refusals = policy.refusals(unknown_may_fit=self.unknown_may_fit)

        def decide(pod: PodQuestion) -> AdmissionDecision:
            return admission.decide(pod, cache, refusals, now=now, served=cluster.served, runs=True)

        judge = RunningPodJudge(self.state.reader, EffectivePolicy.of(cluster, policy), decide)
        pods, time_slice = defaultdict[str, list[RunningPod]](list), TimeSlice()
        for uid in tuple(self.state.pods):
            await time_slice.share()
            pod, entry = self.state.pods.get(uid), self.alignments.get(uid)
            if pod is not None and runs(pod):
                alignment = entry.alignment if entry else None
                judged = await computed(cache.pace, partial(judge.judge, pod, alignment))
                pods[pod.namespace].append(judged)
        nodes: dict[str, RuleOutcome] = {}
        for name, state in sorted(cluster.states.items()):
            if state.node is None:
                nodes[name] = RuleOutcome.WARN
            else:
                stale = exporters.of_node(cluster, name, now=self.wall()).stale
                nodes[name] = RuleOutcome.FAIL if stale else RuleOutcome.PASS

        def made() -> Mapping[str, PolicyReport]:
            reports = [policy_report.of_namespace(name, pods[name]) for name in sorted(pods)]
            return {
                report.namespace: report for report in (*reports, policy_report.of_nodes(nodes)) if report
            }

        return await asyncio.to_thread(made)
