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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice, permutations

from numalign.cache.question import Question
from numalign.cache.ranking import Ranking, ranks
from numalign.cache.scheduler_cache import SchedulerCache
from numalign.decision import wording
from numalign.kubelet.admit import effective_demand
from numalign.ledger.model import AssignedPod, PodName, Prediction, Stage
from numalign.ledger.rearrangement import Rearrangement
from numalign.ledger.relief import Leaver, Relief, relief
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
class Cluster:
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
    """One pod that moves, and what it would get.

    One that returns to its node comes `after` the pod that it made room for.
    """

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
    cluster: Cluster,
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


_Cost = tuple[int, int, int, tuple[PodName, ...]]


def cost(moved: Sequence[Resident]) -> _Cost:
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
    cluster: Cluster
    wanted: int
    progress: Callable[[str], object]
    effort: Effort
    _newcomers: dict[str, Newcomer | None] = field(default_factory=dict)
    _places: dict[tuple[Question, Constraints], Sequence[str]] = field(default_factory=dict)
    _infeasible: set[str] = field(default_factory=set)
    _unplaced: dict[str, tuple[Resident, ...]] = field(default_factory=dict)

    def run(self, names: Sequence[str]) -> Advice:
        pod, cluster = self.pod, self.cluster
        as_it_is = Rearrangement(cluster.reservations, cluster.now)
        self.progress("evaluating all nodes")
        fitting, candidates, open_end = self._asked(names)
        fitting = [name for name in fitting if as_it_is.fits(name, pod.question.demand)]
        if fitting:
            return Advice(Remedy.FITS, tuple(fitting))
        if not candidates:
            return Advice(Remedy.STUCK, proven=False) if open_end else Advice(Remedy.NEVER)
        self.progress(f"adding up what {len(candidates):,} nodes hold")
        sites = [*filter(None, (self._site(name, as_it_is) for name in candidates))]
        plans = self._exhaustive(sites)
        proven = not self.effort.cut
        if not plans and sites:
            plans, proven = self._greedy(sites), False
        if not plans:
            hindrances = self._hindrances(candidates, as_it_is)
            beyond = any(len(site.relief.leavers) > EXHAUSTIVE for site in sites)
            return Advice(
                Remedy.STUCK,
                hindrances=hindrances,
                candidates=len(candidates),
                proven=not self.effort.cut and not beyond,
            )
        remedy = Remedy.MOVES if plans[0].moves else Remedy.WAITS
        return Advice(remedy, plans=tuple(plans), candidates=len(candidates), proven=proven)

    def _asked(self, names: Sequence[str]) -> tuple[list[str], list[str], bool]:
        """Return the nodes whose zones take the pod now, best first, and those that could with more room.

        And whether others may take it later: those that are cordoned or not ready, or were not evaluated.
        """
        pod, cluster = self.pod, self.cluster
        kept_away = cluster.cache.not_eligible(names, pod.constraints, now=cluster.now)
        open_ = [name for name in names if name not in kept_away]
        batch = cluster.cache.ask(open_, pod.question, now=cluster.now, uid=pod.uid)
        known = batch.rows >= 0
        order = ranks(batch, (Ranking(),)).order(open_)
        taking = [open_[at] for at in order if batch.admitted[at]]
        never = {code for code, why in batch.refusals.items() if why.permanent or not why.answered}
        later = [
            name
            for name, code, there in zip(open_, batch.codes.tolist(), known.tolist(), strict=True)
            if there and code not in never
        ]
        silent = {code for code, why in batch.refusals.items() if not why.answered}
        open_end = any(not away.lasting for away in kept_away.values()) or not silent.isdisjoint(batch.codes)
        return taking, later, open_end

    def _site(self, name: str, as_it_is: Rearrangement) -> _Site | None:
        """Return the node with its movable pods; None if removing all of them would not be enough."""
        pod, residents = self.pod, self.cluster.residents.get(name, ())
        leaving = tuple(each for each in residents if each.leaving)
        rest = self._emptied(name, as_it_is)
        info, free = rest.info(name), rest.free(name)
        if info is None or free is None:
            return None
        movable = {each.uid: each for each in residents if self.obstacle(each) is None}
        cheapest = sorted(movable, key=lambda uid: cost([movable[uid]]))
        gain = relief(info, free, pod.question.demand, pod.question.intent, cheapest)
        least = gain.least()
        return None if least is None else _Site(name, gain, movable, leaving, least)

    def _emptied(self, name: str, as_it_is: Rearrangement) -> Rearrangement:
        """Return the node without the pod itself, and without those that leave anyway."""
        leaving = (each.uid for each in self.cluster.residents.get(name, ()) if each.leaving)
        return as_it_is.leaving(name, (self.pod.uid, *leaving))

    def obstacle(self, resident: Resident) -> str | None:
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
        for size in range(EXHAUSTIVE + 1):
            self.progress(f"searching for {size} pods that could move")
            plans = self._of_size(size, [site for site in sites if site.least <= size])
            if plans:
                return plans
        return []

    def _of_size(self, size: int, sites: Sequence[_Site]) -> list[Plan]:
        options = [
            (cost(site.moved(chosen)), site.name, site, chosen)
            for site in sorted(sites, key=lambda site: (site.least, site.name))
            for chosen in site.relief.choices(size)
            if self.effort.choice() and site.relief.suffices(chosen)
        ]
        plans: dict[str, Plan] = {}
        for _, name, site, chosen in sorted(options, key=lambda option: option[:2]):
            if name not in plans and name not in self._infeasible and (plan := self._plan(site, chosen)):
                plans[name] = plan
            if len(plans) == self.wanted or self.effort.predictions < 0:
                break
        return [*plans.values()]

    def _greedy(self, sites: Sequence[_Site]) -> list[Plan]:
        """Return plans that move more pods: the cheapest until it is enough, less those not needed."""
        plans: list[Plan] = []
        for site in sorted(sites, key=lambda site: (site.least, site.name)):
            if site.name in self._infeasible or len(site.relief.leavers) <= EXHAUSTIVE:
                continue
            chosen = self._enough(site)
            if chosen and (plan := self._plan(site, chosen)):
                plans.append(plan)
            if len(plans) == self.wanted or self.effort.predictions < 0:
                break
        return sorted(plans, key=lambda plan: cost([move.resident for move in plan.moves]))

    def _enough(self, site: _Site) -> list[Leaver]:
        chosen = [*islice(site.relief.leavers, MOST_MOVED)]
        for count in range(site.least, len(chosen) + 1):
            some = chosen[:count]
            if site.relief.suffices(some) and self._let_in(site, some):
                break
        else:
            return []
        for leaver in reversed(some[:]):
            fewer = [each for each in some if each is not leaver]
            if site.relief.suffices(fewer) and self._let_in(site, fewer):
                some = fewer
        return some

    def _without(self, site: _Site, chosen: Sequence[Leaver]) -> Rearrangement:
        as_it_is = Rearrangement(self.cluster.reservations, self.cluster.now)
        gone = (leaver.uid for leaver in chosen)
        return self._emptied(site.name, as_it_is).leaving(site.name, gone)

    def _let_in(self, site: _Site, chosen: Sequence[Leaver]) -> Prediction | None:
        """Return the prediction for the pod after these are gone; None if the node refuses it."""
        return self._predicted(self._without(site, chosen), site.name, self.pod)

    def _predicted(self, then: Rearrangement, name: str, pod: Newcomer) -> Prediction | None:
        question = pod.question
        if not then.fits(name, question.demand) or not self.effort.prediction():
            return None
        prediction = then.predict(name, question.demand, question.intent)
        return prediction if prediction and prediction.verdict.admitted else None

    def _plan(self, site: _Site, chosen: Sequence[Leaver]) -> Plan | None:
        if not all(self._somewhere(site, chosen, leaver) for leaver in chosen):
            self._unplaced.setdefault(site.name, tuple(site.moved(chosen)))
            return None
        prediction = self._let_in(site, chosen)
        if prediction is None:
            if not self._let_in(site, site.relief.leavers):
                self._infeasible.add(site.name)
            return None
        then = self._without(site, chosen).coming(site.name, self.pod.assigned_pod(), prediction)
        moves = self._moves(then, site.moved(chosen), site.name)
        if moves is None:
            self._unplaced.setdefault(site.name, tuple(site.moved(chosen)))
            return None
        return Plan(site.name, prediction, tuple(sorted(moves, key=lambda move: move.after)), site.leaving)

    # Places for the pods that move.

    def _newcomer(self, uid: str) -> Newcomer | None:
        if uid not in self._newcomers:
            self._newcomers[uid] = self.cluster.newcomer(uid)
        return self._newcomers[uid]

    def _elsewhere(self, pod: Newcomer) -> Sequence[str]:
        """Return the nodes that take a pod at present, the best first."""
        key = pod.question, pod.constraints
        if key not in self._places:
            cluster = self.cluster
            names = [*cluster.reservations.node_names()]
            kept_away = cluster.cache.not_eligible(names, pod.constraints, now=cluster.now)
            open_ = [name for name in names if name not in kept_away]
            batch = cluster.cache.ask(open_, pod.question, now=cluster.now)
            order = ranks(batch, (Ranking(),)).order(open_)
            self._places[key] = [open_[at] for at in order if batch.admitted[at]]
        return self._places[key]

    def _may_stay(self, pod: Newcomer, name: str) -> bool:
        """Return whether the pod may return to the node that it left."""
        return not self.cluster.cache.not_eligible([name], pod.constraints, now=self.cluster.now)

    def _somewhere(self, site: _Site, chosen: Sequence[Leaver], leaver: Leaver) -> bool:
        """Return whether a pod may have a place at all; on its own node only by amounts."""
        pod = self._newcomer(leaver.uid)
        if pod is None:
            return False
        if any(name != site.name for name in islice(self._elsewhere(pod), 2)):
            return True
        return site.relief.room_for(chosen, pod.question.demand)

    def _moves(self, then: Rearrangement, moved: Sequence[Resident], home: str) -> list[Move] | None:
        """Return a place for each of them, one after another; None if not all have one."""
        left = Effort(predictions=MOST_TRIES)
        newcomers = [(each, pod) for each in moved if (pod := self._newcomer(each.uid))]
        orders = permutations(newcomers) if len(newcomers) <= EXHAUSTIVE else iter([tuple(newcomers)])
        rearranged = (self._placed(then, order, home, left) for order in orders)
        moves = next((moves for moves in rearranged if moves is not None), None)
        self.effort.cut |= moves is None and left.cut
        return moves

    def _placed(
        self, then: Rearrangement, rest: Sequence[tuple[Resident, Newcomer]], home: str, left: Effort
    ) -> list[Move] | None:
        if not rest:
            return []
        (resident, pod), *others = rest
        tried = 0
        for name in self._options(pod, home):
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

    def _options(self, pod: Newcomer, home: str) -> Iterator[str]:
        """Return where a pod may go, the best first, and its own node last."""
        elsewhere = (name for name in self._elsewhere(pod) if name != home)
        return chain(elsewhere, [home] if self._may_stay(pod, home) else [])

    # Why not.

    def _hindrances(self, candidates: Sequence[str], as_it_is: Rearrangement) -> tuple[Hindrance, ...]:
        """Return the hindrances on as many nodes as requested, those with the smallest first."""
        staying = {name: self._staying(name) for name in candidates}
        nearest = sorted(candidates, key=lambda name: (name not in self._unplaced, len(staying[name]), name))
        return tuple(self._hindrance(name, staying[name], as_it_is) for name in nearest[: self.wanted])

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
            Resident(each.uid, each.name, each.priority, each.created, why, each.leaving)
            for each in self.cluster.residents.get(name, ())
            if each.uid in holding and not each.leaving and (why := self.obstacle(each))
        )

    def _hindrance(self, name: str, staying: tuple[Resident, ...], as_it_is: Rearrangement) -> Hindrance:
        if unplaced := self._unplaced.get(name):
            return Hindrance(name, "", unplaced, staying)
        residents = self.cluster.residents.get(name, ())
        gone = [each.uid for each in residents if each.leaving or not self.obstacle(each)]
        then, question = as_it_is.leaving(name, (self.pod.uid, *gone)), self.pod.question
        prediction = then.predict(name, question.demand, question.intent)
        reason = wording.sentence(prediction.verdict) if prediction and prediction.verdict.refusal else ""
        return Hindrance(name, reason or _lacking(then, name, question), staying=staying)


def _lacking(then: Rearrangement, name: str, question: Question) -> str:
    """Return what the node as a whole lacks, in words; empty if it has enough."""
    short = then.short_of(name, question.demand)
    return f"node {wording.short_as_a_whole(short)}" if short else ""
