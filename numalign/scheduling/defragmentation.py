"""
Which pods would have to move so that one more fits, and where each of them would go.

A pod that fits nowhere now may fit after others have moved. To move a pod is to end it, so the fewest are
searched, and among equally many the cheapest: those with the lowest priority, and of these the youngest,
which lose least. Pods that must stay, and pods with a higher priority than the incoming pod, never move. And
no pod moves without a new place: each is predicted and counted one after another, as the scheduler would
place them.

Up to `EXHAUSTIVE` pods of a node every choice is checked, unless that takes too much work; larger choices are
found by adding the cheapest until it is enough, and removing those that are not needed. No pod is moved to
make room for one that moves. A result says whether it is `proven`: that no fewer and no cheaper pods would
do, or that none would. Nothing is written and nothing is reserved.

Koordinator's PodMigrationJob reserves before it evicts; kube-scheduler's preemption evicts without a new
place (pkg/scheduler/framework/preemption). Neither considers zones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from itertools import islice, permutations

from numalign.cache.batch import Batch
from numalign.cache.question import Question
from numalign.cache.ranking import Ranking, ranks
from numalign.cache.scheduler_cache import NotEligible, SchedulerCache
from numalign.decision import wording
from numalign.kubelet.admit import effective_demand
from numalign.ledger.model import AssignedPod, PodName, Prediction, Stage
from numalign.ledger.rearrangement import Leaver, Rearrangement, Relief, needed, relief
from numalign.ledger.reservations import Reservations
from numalign.model.constraints import Constraints
from numalign.model.placement import Held

EXHAUSTIVE = 3
"""Up to this many pods of one node all choices are checked."""

MOST_MOVED = 12
"""The limit of pods moved for one."""

MOST_CHOICES = 200_000
"""The limit of choices of pods checked by their amounts, on all nodes together."""

MOST_PREDICTIONS = 4_000
"""The limit of predictions on all nodes together: each takes up to some milliseconds."""

MOST_PLACES = 16
"""The limit of nodes predicted for one pod that moves, the best first."""

MOST_TRIES = 256
"""The limit of predictions to find places for the pods of one choice."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A pod that needs a place, with its question to each node."""

    uid: str
    name: PodName
    question: Question
    constraints: Constraints

    def assigned_pod(self) -> AssignedPod:
        """Return the pod as the ledger stores it."""
        question = self.question
        return AssignedPod(self.uid, self.name, question.demand, Stage.RESERVED, intent=question.intent)


@dataclass(frozen=True, slots=True)
class Resident:
    """A pod on a node, with what decides whether it moves.

    `created` is in seconds since 1970. `obstacle` is why it may not be moved, empty if it may; one that is
    `leaving` was already deleted, and goes by itself.
    """

    uid: str
    name: PodName
    priority: int = 0
    created: int = 0
    obstacle: str = ""
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class ResidentCluster:
    """The pods by node (`residents`, all of them); `newcomer` is the question of one that is recreated.

    It is None for a pod that cannot be read, and so is not moved. `now` is in the seconds of the ledger.
    """

    reservations: Reservations
    cache: SchedulerCache
    residents: Mapping[str, Sequence[Resident]]
    newcomer: Callable[[str], Newcomer | None]
    now: float


class Remedy(StrEnum):
    """What is needed for a pod to fit, the least first."""

    FITS = "fits"
    WAITS = "waits"
    MOVES = "moves"
    STUCK = "stuck"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that moves, and what it would get; one that returns comes `after` the pod it made room for."""

    resident: Resident
    node: str
    prediction: Prediction
    after: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """How the pod can fit on a node: which pods move, in this order, and which are being deleted anyway."""

    node: str
    prediction: Prediction
    moves: tuple[Move, ...] = ()
    leaving: tuple[Resident, ...] = ()

    @property
    def held(self) -> Held:
        """What the pod would get."""
        return self.prediction.held or {}


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why moving pods does not help on a node: its remaining reason, or the pods without a new place.

    `staying` are the pods that hold resources there and may not move, each with its obstacle.
    """

    node: str
    reason: str
    unplaced: tuple[Resident, ...] = ()
    staying: tuple[Resident, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """The result. `fitting` are the nodes that take the pod at present, the best first.

    `plans` are the best on as many nodes as requested, the cheapest first. `candidates` is how many nodes
    could take the pod if they had room.
    """

    remedy: Remedy
    fitting: tuple[str, ...] = ()
    plans: tuple[Plan, ...] = ()
    hindrances: tuple[Hindrance, ...] = ()
    candidates: int = 0
    proven: bool = True


@dataclass(slots=True)
class Effort:
    """The remaining budget; `cut` is set if anything was skipped for it."""

    choices: int = MOST_CHOICES
    predictions: int = MOST_PREDICTIONS
    cut: bool = False

    def choice(self) -> bool:
        """Return whether one more choice may be checked."""
        self.choices -= 1
        self.cut |= self.choices < 0
        return self.choices >= 0

    def prediction(self) -> bool:
        """Return whether one more prediction may be made."""
        self.predictions -= 1
        self.cut |= self.predictions < 0
        return self.predictions >= 0


def advise(  # noqa: PLR0913  a pod, a cluster, and how much of an answer is wanted
    pod: Newcomer,
    priority: int,
    cluster: ResidentCluster,
    names: Sequence[str],
    *,
    plans: int = 1,
    progress: Callable[[str], object] = lambda _doing: None,
    effort: Effort | None = None,
) -> Advice:
    """Return the pods that would have to move for a pod of this priority to fit on one of these nodes.

    As many plans as requested are searched, on different nodes; `progress` gets messages. The work is limited
    by the `effort`.
    """
    return _MoverSearch(pod, priority, cluster, plans, progress, effort or Effort()).run(names)


def cost(moved: Sequence[Resident]) -> tuple[int, int, int, tuple[PodName, ...]]:
    """Return the cost of moving these: their number, priorities, ages; and names."""
    return (
        len(moved),
        sum(each.priority for each in moved),
        -sum(each.created for each in moved),
        tuple(each.name for each in moved),
    )


@dataclass(frozen=True, slots=True)
class _Site:
    """A node that could take the pod, as it will be after the deleted pods have left."""

    name: str
    relief: Relief
    residents: Mapping[str, Resident]
    leaving: tuple[Resident, ...]
    least: int

    def moved(self, chosen: Sequence[Leaver]) -> list[Resident]:
        return [self.residents[leaver.uid] for leaver in chosen]


@dataclass(slots=True)
class _MoverSearch:
    pod: Newcomer
    priority: int
    cluster: ResidentCluster
    wanted: int
    progress: Callable[[str], object]
    effort: Effort
    _as_it_is: Rearrangement = field(init=False)
    _newcomer: Callable[[str], Newcomer | None] = field(init=False)
    _places: dict[tuple[Question, Constraints], Sequence[str]] = field(default_factory=dict)
    _infeasible: set[str] = field(default_factory=set)
    _unplaced: dict[str, tuple[Resident, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._as_it_is = Rearrangement(self.cluster.reservations, self.cluster.now)
        self._newcomer = cache(self.cluster.newcomer)

    def run(self, names: Sequence[str]) -> Advice:
        demand = self.pod.question.demand
        self.progress("evaluating all nodes")
        taking, kept_away, open_, batch = self._ask(self.pod, names, uid=self.pod.uid)
        fitting = [name for name in taking if self._as_it_is.fits(name, demand)]
        if fitting:
            return Advice(Remedy.FITS, tuple(fitting))
        silent = {code for code, why in batch.refusals.items() if not why.answered}
        never = silent | {code for code, why in batch.refusals.items() if why.permanent}
        known = (batch.rows >= 0).tolist()
        candidates = [
            name
            for name, code, there in zip(open_, batch.codes.tolist(), known, strict=True)
            if there and code not in never
        ]
        if not candidates:
            # Others may take it later: those that are cordoned or not ready, or were not evaluated.
            later = any(not why.lasting for why in kept_away.values()) or not silent.isdisjoint(batch.codes)
            return Advice(Remedy.STUCK, proven=False) if later else Advice(Remedy.NEVER)
        self.progress(f"adding up what {len(candidates):,} nodes hold")
        sites = [*filter(None, map(self._site, candidates))]
        plans = self._exhaustive(sites)
        proven = not self.effort.cut
        if not plans and sites:
            plans, proven = self._greedy(sites), False
        if plans:
            remedy = Remedy.MOVES if plans[0].moves else Remedy.WAITS
            return Advice(remedy, plans=tuple(plans), candidates=len(candidates), proven=proven)
        hindrances = self._hindrances(candidates)
        beyond = any(len(site.relief.leavers) > EXHAUSTIVE for site in sites)
        proven = not self.effort.cut and not beyond
        return Advice(Remedy.STUCK, hindrances=hindrances, candidates=len(candidates), proven=proven)

    def _ask(
        self, pod: Newcomer, names: Sequence[str], uid: str = ""
    ) -> tuple[list[str], Mapping[str, NotEligible], list[str], Batch]:
        """Return the nodes that take a pod now, best first; those that it may not or may use; all answers."""
        cluster = self.cluster
        kept_away = cluster.cache.not_eligible(names, pod.constraints, now=cluster.now)
        open_ = [name for name in names if name not in kept_away]
        batch = cluster.cache.ask(open_, pod.question, now=cluster.now, uid=uid)
        order = ranks(batch, (Ranking(),)).order(open_)
        return [open_[at] for at in order if batch.admitted[at]], kept_away, open_, batch

    def _site(self, name: str) -> _Site | None:
        """Return the node with its movable pods; None if removing all of them would not be enough."""
        pod, residents = self.pod, self.cluster.residents.get(name, ())
        leaving = tuple(each for each in residents if each.leaving)
        rest = self._emptied(name)
        info, free = rest.info(name), rest.free(name)
        if info is None or free is None:
            return None
        movable = {each.uid: each for each in residents if self._obstacle(each) is None}
        cheapest = sorted(movable, key=lambda uid: cost([movable[uid]]))
        gain = relief(info, free, pod.question.demand, pod.question.intent, cheapest)
        least = gain.least()
        return None if least is None else _Site(name, gain, movable, leaving, least)

    def _emptied(self, name: str, gone: Iterable[str] = ()) -> Rearrangement:
        """Return the node without the pod itself, those that leave anyway, and these."""
        leaving = (each.uid for each in self.cluster.residents.get(name, ()) if each.leaving)
        return self._as_it_is.leaving(name, (self.pod.uid, *leaving)).leaving(name, gone)

    def _obstacle(self, resident: Resident) -> str | None:
        """Return why a pod may not be moved for this one; None if it may."""
        if resident.leaving:
            return "it is already being deleted"
        if resident.obstacle:
            return resident.obstacle
        if resident.priority > self.priority:
            return f"its priority {resident.priority:,} is above {self.priority:,}"
        return None

    # The search.

    def _exhaustive(self, sites: Sequence[_Site]) -> list[Plan]:
        """Return the cheapest plans that move the fewest pods, one for each node."""
        nearest = sorted(sites, key=lambda site: (site.least, site.name))
        for size in range(EXHAUSTIVE + 1):
            self.progress(f"searching for {size} pods that could move")
            options = [
                (cost(site.moved(chosen)), site.name, site, chosen)
                for site in nearest
                if site.least <= size
                for chosen in site.relief.choices(size)
                if self.effort.choice() and site.relief.suffices(chosen)
            ]
            plans: dict[str, Plan] = {}
            for _, name, site, chosen in sorted(options, key=lambda option: option[:2]):
                if name not in plans and name not in self._infeasible and (plan := self._plan(site, chosen)):
                    plans[name] = plan
                if len(plans) == self.wanted or self.effort.predictions < 0:
                    break
            if plans:
                return [*plans.values()]
        return []

    def _greedy(self, sites: Sequence[_Site]) -> list[Plan]:
        """Return plans that move more pods: the cheapest until it is enough, less those not needed."""
        plans: list[Plan] = []
        for site in sorted(sites, key=lambda site: (site.least, site.name)):
            if site.name in self._infeasible or len(site.relief.leavers) <= EXHAUSTIVE:
                continue
            helps = partial(self._helps, site)
            leavers = site.relief.leavers[:MOST_MOVED]
            counts = range(site.least, len(leavers) + 1)
            some = next((leavers[:count] for count in counts if helps(leavers[:count])), ())
            if some and (plan := self._plan(site, needed(some, helps))):
                plans.append(plan)
            if len(plans) == self.wanted or self.effort.predictions < 0:
                break
        return sorted(plans, key=lambda plan: cost([move.resident for move in plan.moves]))

    def _helps(self, site: _Site, gone: Sequence[Leaver]) -> bool:
        return site.relief.suffices(gone) and self._let_in(site, gone) is not None

    def _let_in(self, site: _Site, chosen: Sequence[Leaver]) -> Prediction | None:
        """Return the prediction for the pod after these are gone; None if the node refuses it."""
        then = self._emptied(site.name, (leaver.uid for leaver in chosen))
        return self._predicted(then, site.name, self.pod)

    def _predicted(self, then: Rearrangement, name: str, pod: Newcomer) -> Prediction | None:
        question = pod.question
        if not then.fits(name, question.demand) or not self.effort.prediction():
            return None
        prediction = then.predict(name, question.demand, question.intent)
        return prediction if prediction and prediction.verdict.admitted else None

    def _plan(self, site: _Site, chosen: Sequence[Leaver]) -> Plan | None:
        """Return how the pod fits once these have moved; None if it does not, or not all have a new place."""
        home, moved = site.name, site.moved(chosen)
        newcomers = [(each, pod) for each in moved if (pod := self._newcomer(each.uid))]
        # Each needs a place at all; on its own node only by amounts.
        places = len(newcomers) == len(moved) and all(
            any(name != home for name in islice(self._elsewhere(pod), 2))
            or site.relief.room_for(chosen, pod.question.demand)
            for _, pod in newcomers
        )
        if not places:
            self._unplaced.setdefault(home, tuple(moved))
            return None
        prediction = self._let_in(site, chosen)
        if prediction is None:
            if not self._let_in(site, site.relief.leavers):
                self._infeasible.add(home)
            return None
        then = self._emptied(home, (leaver.uid for leaver in chosen))
        then = then.coming(home, self.pod.assigned_pod(), prediction)
        left = Effort(predictions=MOST_TRIES)
        orders = permutations(newcomers) if len(newcomers) <= EXHAUSTIVE else iter([tuple(newcomers)])
        rearranged = (self._placed(then, order, home, left) for order in orders)
        moves = next((moves for moves in rearranged if moves is not None), None)
        if moves is None:
            self.effort.cut |= left.cut
            self._unplaced.setdefault(home, tuple(moved))
            return None
        return Plan(home, prediction, tuple(sorted(moves, key=lambda move: move.after)), site.leaving)

    # Places for the pods that move.

    def _elsewhere(self, pod: Newcomer) -> Sequence[str]:
        key = pod.question, pod.constraints
        if key not in self._places:
            self._places[key], *_ = self._ask(pod, [*self.cluster.reservations.node_names()])
        return self._places[key]

    def _placed(
        self, then: Rearrangement, rest: Sequence[tuple[Resident, Newcomer]], home: str, left: Effort
    ) -> list[Move] | None:
        """Return a place for each of them, one after another; None if not all have one."""
        if not rest:
            return []
        (resident, pod), *others = rest

        def options() -> Iterator[str]:
            """Yield where it may go, the best first, and its own node last."""
            yield from (name for name in self._elsewhere(pod) if name != home)
            if not self.cluster.cache.not_eligible([home], pod.constraints, now=self.cluster.now):
                yield home

        tried = 0
        for name in options():
            if tried == MOST_PLACES or left.predictions < 0:
                left.cut = True
                break
            if not then.fits(name, pod.question.demand) or not left.prediction():
                continue
            tried += 1
            prediction = self._predicted(then, name, pod)
            if prediction is None:
                continue
            more = self._placed(then.coming(name, pod.assigned_pod(), prediction), others, home, left)
            if more is not None:
                return [Move(resident, name, prediction, after=name == home), *more]
        return None

    # Why not.

    def _hindrances(self, candidates: Sequence[str]) -> tuple[Hindrance, ...]:
        """Return the hindrances on as many nodes as requested, those with the smallest first."""
        question, hindrances = self.pod.question, list[Hindrance]()
        staying = {name: self._staying(name) for name in candidates}
        nearest = sorted(candidates, key=lambda name: (name not in self._unplaced, len(staying[name]), name))
        for name in nearest[: self.wanted]:
            if unplaced := self._unplaced.get(name):
                hindrances.append(Hindrance(name, "", unplaced, staying[name]))
                continue
            residents = self.cluster.residents.get(name, ())
            gone = (each.uid for each in residents if each.leaving or not self._obstacle(each))
            then = self._as_it_is.leaving(name, (self.pod.uid, *gone))
            prediction = then.predict(name, question.demand, question.intent)
            short, reason = then.short_of(name, question.demand), ""
            if prediction and prediction.verdict.refusal:
                reason = wording.sentence(prediction.verdict)
            elif short:
                reason = f"node {wording.short_as_a_whole(short)}"
            hindrances.append(Hindrance(name, reason, staying=staying[name]))
        return tuple(hindrances)

    def _staying(self, name: str) -> tuple[Resident, ...]:
        """Return the pods of a node that may not move and hold resources that this one requests."""
        info = self.cluster.reservations.node_info(name)
        if info is None:
            return ()
        asked = effective_demand(info.node, self.pod.question.demand)
        names = asked.whole.requests.keys() | {*asked.total}
        holding = {
            pod.uid
            for pod in info.assigned_pods
            if pod.demand is None or not names.isdisjoint(pod.demand.total)
        }
        return tuple(
            replace(each, obstacle=why)
            for each in self.cluster.residents.get(name, ())
            if each.uid in holding and not each.leaving and (why := self._obstacle(each))
        )
