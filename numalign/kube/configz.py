"""
The kubelets' own configurations, read through the API server.

An exporter reports what a kubelet has; only the kubelet knows its allocation policies. They are read at
`/api/v1/nodes/NAME/proxy/configz`, one node after another and slowly, because each call goes through the API
server to a busy machine. The permission (get on nodes/proxy) allows much more, so many clusters grant it to
nobody: that is logged once, and nodes are then known by their topologies.

A kubelet answers `{"kubeletconfig": {...}}`: a KubeletConfiguration with the names of the fields as in
kubelet.config.k8s.io/v1beta1, defaults filled in and durations as texts; before 1.36 without its kind
(Kubernetes, setConfigz of cmd/kubelet/app/server.go and write of component-base/configz/configz.go).
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter

from numalign.kube.client import Api
from numalign.kube.cluster_state import ClusterState
from numalign.kube.decode import kubelet_config
from numalign.kube.decode.kubelet_config import FIELDS, GROUP, KIND
from numalign.kube.decode.parts import Part
from numalign.kube.errors import ClusterError, Forbidden, Unreachable
from numalign.kube.kinds import Object
from numalign.model.errors import BadInput, BadTopology
from numalign.runtime.clock import Sleep
from numalign.runtime.logs import Log
from numalign.runtime.metrics import PREFIX

RIGHT = "a ClusterRole must allow the verb get on nodes/proxy"

EVERY_SECONDS = 0.2
AGAIN_SECONDS = 3600.0
ANSWER_SECONDS = 5.0
# A kubelet that is unreachable is nearly always restarting.
FIRST_RETRY_SECONDS = 30.0
# A configuration has some 5 KiB; the owner of a node could return anything instead.
LONGEST = 2**20
TOGETHER = 4

# The relative jitter of a pause, so that replicas do not call all at once.
_JITTER = 0.2


class ConfigzResult(StrEnum):
    """The outcome of reading one kubelet's configuration."""

    READ = "read"
    FORBIDDEN = "forbidden"
    UNANSWERED = "unanswered"
    NONSENSE = "nonsense"


async def configuration(api: Api, node: str, *, within: float = ANSWER_SECONDS) -> Object:
    """Return the configuration of a node's kubelet, as `kubelet_config.kubelet_configuration` takes it.

    Raise `Forbidden` with the missing permission, another `ClusterError` if the kubelet does not answer
    `within` this many seconds, and `BadTopology` with all errors in the answer.
    """
    what = f"the configuration of node {node}'s kubelet"
    path = f"/api/v1/nodes/{quote(node, safe='')}/proxy/configz"
    try:
        async with asyncio.timeout(within):
            answer = await api.get(path, what=what, most=LONGEST)
    except TimeoutError as error:
        raise Unreachable(f"{what} did not arrive within {within:g} s") from error
    except Forbidden as error:
        raise Forbidden(f"not allowed to read {what}: {RIGHT}") from error
    return _sensible(node, answer)


@dataclass(frozen=True, slots=True)
class Progress:
    """Callbacks for progress: how many of all nodes were read, and which is left out for what reason."""

    ask: Callable[[int, int], None]
    left_out: Callable[[str, ClusterError | BadInput], None]


async def configurations(
    api: Api, nodes: Sequence[str], listener: Progress, *, within: float = ANSWER_SECONDS
) -> list[Object]:
    """Return the configurations of these nodes' kubelets, read a few at a time; raise `Forbidden`."""
    answered: dict[str, Object] = {}
    waiting = iter(enumerate(nodes, start=1))

    async def work() -> None:
        for number, node in waiting:
            listener.ask(number, len(nodes))
            try:
                answered[node] = await configuration(api, node, within=within)
            except (ClusterError, BadInput) as error:
                # If others answer, only this kubelet refuses.
                if isinstance(error, Forbidden) and not answered:
                    raise
                listener.left_out(node, error)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(TOGETHER):
                group.create_task(work())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [answered[node] for node in nodes if node in answered]


def _sensible(node: str, answer: object) -> Object:
    """Return a configuration with the name of its node, cut down to the fields that are read.

    Raise `BadTopology` if it is invalid.
    """
    part = Part(answer)
    fields = part["kubeletconfig"].required()
    kept = {name: part.value for name, part in fields.members() if name in FIELDS}
    part.raise_mistakes(BadTopology)
    kept_configuration: Object = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": KIND,
        "metadata": {"name": node},
        **kept,
    }
    kubelet_config.kubelet_configuration(kept_configuration)
    return kept_configuration


@dataclass(slots=True)
class _Visit:
    """When a node's kubelet is read next, its failures since the last answer, and the last result."""

    due: float = -math.inf
    failures: int = 0
    last_result: ConfigzResult = ConfigzResult.READ
    held: bool = False

    def result_changed(self, result: ConfigzResult) -> bool:
        """Return whether this result differs from the last one."""
        before, self.last_result = self.last_result, result
        return before is not result


class ConfigzReader:
    """Keeps reading the configurations of all nodes, new ones first.

    `names` are the present nodes. `take` gets each valid configuration, as an object, and `drop` the name of
    a node that is gone or no longer has a valid one. There are `every` seconds between two nodes; a node that
    answered is read again after about `again` seconds, and one that does not answer `within` its limit
    sooner, with growing delays.
    """

    def __init__(  # noqa: PLR0913  what it depends on
        self,
        api: Api,
        *,
        names: Callable[[], Iterable[str]],
        take: Callable[[Object], None],
        drop: Callable[[str], None],
        log: Log,
        registry: CollectorRegistry,
        every: float = EVERY_SECONDS,
        again: float = AGAIN_SECONDS,
        within: float = ANSWER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._api = api
        self._names, self._take, self._drop = names, take, drop
        self._log = log
        self._every, self._again, self._within = every, again, within
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._visits: dict[str, _Visit] = {}
        self._forbidden_until = -math.inf
        self._trusted = False
        self._forbidden_logged = False
        self._results = Counter(
            f"{PREFIX}kubelet_configs",
            "Kubelet configurations requested, by result.",
            ["result"],
            registry=registry,
        )
        for result in ConfigzResult:
            self._results.labels(result)

    async def run(self) -> NoReturn:
        """Read one kubelet after another, forever; failures are logged and retried."""
        while True:
            await self.step()
            await self._sleep(self._every)

    async def step(self) -> None:
        """Forget the nodes that are gone, and read the one that is due, if any."""
        self._follow()
        now = self._clock()
        if now < self._forbidden_until or not self._visits:
            return
        node = min(self._visits, key=lambda name: self._visits[name].due)
        visit = self._visits[node]
        if visit.due <= now:
            self._results.labels(await self._ask(node, visit)).inc()

    def _follow(self) -> None:
        names = dict.fromkeys(self._names())
        for name in self._visits.keys() - names.keys():
            self._release(name, self._visits.pop(name))
        for name in names:
            if name not in self._visits:
                self._visits[name] = _Visit()

    async def _ask(self, node: str, visit: _Visit) -> ConfigzResult:
        try:
            read = await configuration(self._api, node, within=self._within)
        except Forbidden as error:
            return self._denied(node, visit, error)
        except ClusterError as error:
            return self._unanswered(node, visit, error)
        except BadTopology as error:
            return self._nonsense(node, visit, error)
        self._later(visit, self._again)
        self._take(read)
        visit.failures, visit.last_result, visit.held = 0, ConfigzResult.READ, True
        self._trusted, self._forbidden_logged = True, False
        return ConfigzResult.READ

    def _denied(self, node: str, visit: _Visit, error: Forbidden) -> ConfigzResult:
        """Pause all reads for a while, or only this kubelet's if another has just answered."""
        self._later(visit, self._again)
        if self._trusted:
            self._trusted = False
            if visit.result_changed(ConfigzResult.FORBIDDEN):
                self._log.info("kubelet_config.refused", node=node, error=error)
            return ConfigzResult.FORBIDDEN
        # Then another node is read first, in case only this kubelet refused.
        self._forbidden_until = visit.due
        if not self._forbidden_logged:
            self._forbidden_logged = True
            self._log.warning("kubelet_config.forbidden", error=error)
        return ConfigzResult.FORBIDDEN

    def _unanswered(self, node: str, visit: _Visit, error: ClusterError) -> ConfigzResult:
        """Keep the earlier configuration: a restarting kubelet nearly always has the same again."""
        self._later(visit, FIRST_RETRY_SECONDS * 2.0 ** min(visit.failures, 16))
        visit.failures += 1
        if visit.result_changed(ConfigzResult.UNANSWERED):
            self._log.info("kubelet_config.unanswered", node=node, error=error)
        return ConfigzResult.UNANSWERED

    def _nonsense(self, node: str, visit: _Visit, error: BadTopology) -> ConfigzResult:
        self._later(visit, self._again)
        self._release(node, visit)
        if visit.result_changed(ConfigzResult.NONSENSE):
            self._log.warning("kubelet_config.invalid", node=node, errors=error.mistakes)
        return ConfigzResult.NONSENSE

    def _release(self, node: str, visit: _Visit) -> None:
        if visit.held:
            visit.held = False
            self._drop(node)

    def _later(self, visit: _Visit, seconds: float) -> None:
        jitter = 1 + _JITTER * (2 * self._chance() - 1)
        visit.due = self._clock() + min(seconds, self._again) * jitter


def reader_for(state: ClusterState, api: Api, *, log: Log, registry: CollectorRegistry) -> ConfigzReader:
    """Return a reader that updates the configurations of a cluster state."""
    store = state.configurations
    return ConfigzReader(
        api,
        names=lambda: iter(state.nodes),
        take=lambda configuration: store.put(configuration["metadata"]["name"], configuration),
        drop=store.drop,
        log=log,
        registry=registry,
    )
