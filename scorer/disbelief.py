"""
Telling of records that are not believed: each pod once, and never more than a line a second.

What stands on a pod may have been written by anybody, so a thousand pods with false records must neither
flood the log nor be passed over in silence: a gauge counts them all, and a line names as many as fit.
"""

from numalign.ledger.model import AssignedPod
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
        self._told: set[str] = set()

    def look(self) -> None:
        """Name those that were not named before, as many as fit into a line."""
        there = {each.uid: (place, each) for place, each in self._reservations.refuted()}
        self._told &= there.keys()
        new = [uid for uid in there if uid not in self._told][:IN_A_LINE]
        if new:
            self._told.update(new)
            more = len(there) - len(self._told)
            self._log.warning("record.disbelieved", pods=[_shown(*there[uid]) for uid in new], more=more)


def _shown(place: str, assigned_pod: AssignedPod) -> str:
    names = ", ".join(sorted(assigned_pod.refuted))
    return f"{'/'.join(assigned_pod.name)} on {place}: {names[:LONGEST_NAMES]}"
