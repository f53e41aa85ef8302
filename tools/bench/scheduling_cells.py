"""
The ways to schedule that are compared, and the configuration of the scheduler in each.

Each way with the scorer of numalign has a counterpart with an extender that does nothing, and one without an
extender. The difference from the first is the cost of numalign; the difference between the two is the cost of
the protocol.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.schedulers import Extender


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A way to schedule; `empty` and `none` name the cells to compare it with.

    `verbs` are those that are called, which decides who binds. If the extender is `apart`, it has a processor
    for itself, as on a separate host.
    """

    title: str
    extender: Literal["", "empty", "numalign"] = ""
    verbs: Sequence[str] = ("filter", "prioritize")
    apart: bool = False
    empty: str = ""
    none: str = ""

    def configuration(self, kubeconfig: Path, url: str) -> dict[str, Any]:
        """Return a KubeSchedulerConfiguration, without extenders if there is none to call."""
        extender = Extender(url=url, verbs=self.verbs) if self.extender else None
        return schedulers.configuration(kubeconfig, extender=extender)


_BIND = ("filter", "prioritize", "bind")
_RANK = ("filter", "prioritize", "preempt")
_empty = partial(Cell, extender="empty", none="none")
_ours = partial(Cell, extender="numalign", verbs=(*_BIND, "preempt"), none="none")
_apart = "on a processor of its own"

CELLS: Mapping[str, Cell] = {
    "none": Cell(title="no extender"),
    "empty": _empty(title="empty: filter, prioritize"),
    "numalign-rank": _ours(title="numalign, --reserve-at prioritize", verbs=_RANK, empty="empty"),
    "empty-bind": _empty(title="empty: filter, prioritize, bind", verbs=_BIND),
    "numalign-bind": _ours(title="numalign, --reserve-at bind (default)", empty="empty-bind"),
    "none-apart": Cell(title="no extender, on the other processors", apart=True),
    "empty-apart": _empty(title=f"empty, {_apart}", apart=True, none="none-apart"),
    "numalign-rank-apart": _ours(
        title=f"numalign, --reserve-at prioritize, {_apart}",
        verbs=_RANK,
        apart=True,
        empty="empty-apart",
        none="none-apart",
    ),
    "empty-bind-apart": _empty(
        title=f"empty with bind, {_apart}", verbs=_BIND, apart=True, none="none-apart"
    ),
    "numalign-bind-apart": _ours(
        title=f"numalign, {_apart}", apart=True, empty="empty-bind-apart", none="none-apart"
    ),
}
"""Cells that are compared run one after another, as conditions change."""
