"""The background tasks of the controller for misaligned pods."""

from controller.gates.judging import unjudged
from controller.healing.eviction_limits import EvictionLimits, Rates
from controller.healing.healer import Healer
from controller.healing.marks import MarkWriter
from controller.healing.moves import Moves
from controller.healing.observing import RunningPodAlignments
from controller.healing.owners import Owners
from controller.healing.replacements import BetterPlaces
from controller.placing import Placing
from numalign.kube.compose import Background


def healing_tasks(placing: Placing) -> Background:
    """Return the tasks that report misaligned pods and move them; none unless healing is enabled."""
    if not placing.settings.heal:
        return Background()
    alignments = RunningPodAlignments(placing.state, named=placing.settings.named_namespaces)
    placing.registry.register(alignments)
    owners = Owners()
    marks = MarkWriter(
        api=placing.api,
        state=placing.state,
        alignments=alignments,
        owners=owners,
        leading=placing.leading,
        publish=placing.publish,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
        sleep=placing.sleep,
    )
    moves = Moves(
        state=placing.state,
        alignments=alignments,
        held=placing.held,
        owners=owners,
        publish=placing.publish,
        log=placing.log,
        registry=placing.registry,
        clock=placing.clock,
    )
    healer = Healer(
        api=placing.api,
        state=placing.state,
        alignments=alignments,
        places=BetterPlaces(placing.state, placing.nodes, placing.ranker, placing.fit.fits),
        held=placing.held,
        limits=EvictionLimits(Rates.of(placing.settings), placing.clock()),
        owners=owners,
        moves=moves,
        gates=placing.settings.gates,
        unplaceable=unjudged,
        written_until=marks.written_until,
        leading=placing.leading,
        acts_for=placing.election.acts_for,
        publish=placing.publish,
        log=placing.log,
        clock=placing.clock,
        sleep=placing.sleep,
    )
    placing.watch(alignments.update_pod)
    return Background({"marks": marks.run, "healing": healer.run})
