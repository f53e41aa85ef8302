"""
Logging of refuted records: each pod once, and never more than a line a second.

Any user may have written the annotations of a pod, so a thousand pods with false records must neither flood
the log nor be ignored silently: a gauge counts them all, and a line names as many as fit.
"""

from dataclasses import KW_ONLY, dataclass, field

from numalign.ledger.reservations import Reservations
from numalign.runtime.logs import Log

IN_A_LINE = 20
"""The limit of pods named in one line; the others wait for the next one."""

LONGEST_NAMES = 200
"""The limit of characters for the names of a pod's resources."""


@dataclass(eq=False, slots=True)
class Disbelief:
    """Searches a ledger for pods whose record is impossible."""

    reservations: Reservations
    _: KW_ONLY
    log: Log
    _logged: set[str] = field(init=False, default_factory=set)

    def look(self) -> None:
        """Log pods that were not logged before, as many as fit into a line."""
        refuted = {pod.uid: (node, pod) for node, pod in self.reservations.refuted()}
        self._logged &= refuted.keys()
        new = [uid for uid in refuted if uid not in self._logged][:IN_A_LINE]
        if not new:
            return
        self._logged.update(new)
        lines = [
            f"{'/'.join(pod.name)} on {node}: {', '.join(sorted(pod.refuted))[:LONGEST_NAMES]}"
            for node, pod in map(refuted.__getitem__, new)
        ]
        self.log.warning("record.disbelieved", pods=lines, omitted=len(refuted) - len(self._logged))
