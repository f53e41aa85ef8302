"""
Logging of records that are not believed: each pod once, and never more than a line a second.

What stands on a pod may have been written by anybody, so a thousand pods with false records must neither
flood the log nor be passed over in silence: a gauge counts them all, and a line names as many as fit.
"""

from numalign.ledger.reservations import Reservations
from numalign.runtime.logs import Log

IN_A_LINE = 20
"""Pods that are named in one line; the others wait for the next one."""

LONGEST_NAMES = 200
"""Characters of the names of a pod's resources."""


class Disbelief:
    """Looks through a ledger for pods whose record says what cannot be."""

    def __init__(self, reservations: Reservations, *, log: Log) -> None:
        self._reservations = reservations
        self._log = log
        self._logged: set[str] = set()

    def look(self) -> None:
        """Name those that were not named before, as many as fit into a line."""
        refuted = {pod.uid: (node, pod) for node, pod in self._reservations.refuted()}
        self._logged &= refuted.keys()
        new = [uid for uid in refuted if uid not in self._logged][:IN_A_LINE]
        if not new:
            return
        self._logged.update(new)
        lines = [
            f"{'/'.join(pod.name)} on {node}: {', '.join(sorted(pod.refuted))[:LONGEST_NAMES]}"
            for node, pod in map(refuted.__getitem__, new)
        ]
        self._log.warning("record.disbelieved", pods=lines, more=len(refuted) - len(self._logged))
