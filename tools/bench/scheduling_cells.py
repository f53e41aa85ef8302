"""
The ways to schedule that are compared, and the configuration of the scheduler in each.

Each way with the scorer of numalign has a counterpart with an extender that does nothing, and one without an
extender. The difference from the first is the cost of numalign; the difference between the two is the cost of
the protocol. In between is an extender that does nothing, but on numalign's server: what it costs more than
the first is the cost of Python.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tools.clusters.controlplane import schedulers
from tools.clusters.controlplane.schedulers import Extender
from tools.clusters.sim.shapes import GPU

Json = dict[str, Any]

ASK = ("filter", "prioritize")
BIND = (*ASK, "bind")


class Who(StrEnum):
    """What the scheduler calls as its extender."""

    NOBODY = "nobody"
    EMPTY = "empty"
    PYTHON = "python"
    NUMALIGN = "numalign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A way to schedule; `empty`, `python` and `none` name the cells to compare it with.

    `verbs` are those that are called, which decides who binds. With `managed` resources, only pods that
    request one of them are sent. `share` is percentageOfNodesToScore, 0 for the scheduler's own choice. If
    `whole`, nodes are sent in full, as to an extender that says it has no node cache. `pods` is a kind of
    pods. If the extender is `apart`, it has a processor for itself, as on a separate host.
    """

    title: str
    who: Who = Who.NOBODY
    verbs: Sequence[str] = ASK
    managed: Sequence[str] = ()
    ignorable: bool = False
    share: int = 0
    whole: bool = False
    pods: str = "device"
    apart: bool = False
    empty: str = ""
    python: str = ""
    none: str = ""

    def extender(self, url: str) -> Json:
        """Return the entry of the extender in a scheduler's configuration."""
        told = Extender(url=url, verbs=self.verbs, ignorable=self.ignorable, managed=self.managed)
        return told.described() | {"nodeCacheCapable": not self.whole}

    def configuration(self, kubeconfig: Path, url: str) -> Json:
        """Return a KubeSchedulerConfiguration, without extenders if there is none to call."""
        told = schedulers.configuration(kubeconfig, extender=None)
        extenders = [] if self.who is Who.NOBODY else [self.extender(url)]
        return told | {"percentageOfNodesToScore": self.share, "extenders": extenders}


_nobody = Cell
_empty = partial(Cell, who=Who.EMPTY, none="none")
_python = partial(Cell, who=Who.PYTHON, none="none")
_ours = partial(Cell, who=Who.NUMALIGN, verbs=(*BIND, "preempt"), empty="empty-bind", none="none")
_rank = partial(_ours, verbs=(*ASK, "preempt"), empty="empty")

BASE: Mapping[str, Cell] = MappingProxyType(
    {
        "none": _nobody(title="no extender"),
        "empty": _empty(title="empty: filter, prioritize"),
        "python": _python(title="empty, in Python: filter, prioritize", empty="empty"),
        "numalign-rank": _rank(title="numalign, --reserve-at prioritize", python="python"),
        "empty-bind": _empty(title="empty: filter, prioritize, bind", verbs=BIND),
        "python-bind": _python(
            title="empty, in Python: filter, prioritize, bind", verbs=BIND, empty="empty-bind"
        ),
        "numalign-bind": _ours(title="numalign, --reserve-at bind (default)", python="python-bind"),
        "none-apart": _nobody(title="no extender, on the other processors", apart=True),
        "empty-apart": _empty(title="empty, on a processor of its own", apart=True, none="none-apart"),
        "numalign-rank-apart": _rank(
            title="numalign, --reserve-at prioritize, on a processor of its own",
            apart=True,
            empty="empty-apart",
            none="none-apart",
        ),
        "empty-bind-apart": _empty(
            title="empty with bind, on a processor of its own", verbs=BIND, apart=True, none="none-apart"
        ),
        "numalign-bind-apart": _ours(
            title="numalign, on a processor of its own",
            apart=True,
            empty="empty-bind-apart",
            none="none-apart",
        ),
    }
)
"""Cells that targets apply to. Those that are compared run one after another, as conditions change."""

VARIANTS: Mapping[str, Cell] = MappingProxyType(
    {
        "empty-filter": _empty(title="empty: filter", verbs=("filter",)),
        "numalign-filter": _rank(title="numalign: filter", verbs=("filter",), empty="empty-filter"),
        "numalign-filter-bind": _ours(title="numalign: filter, bind", verbs=("filter", "bind"), empty=""),
        "numalign-ignorable": _rank(title="numalign, --reserve-at prioritize, ignorable", ignorable=True),
        "none-10": _nobody(title="no extender, 10 % of nodes", share=10),
        "empty-bind-10": _empty(title="empty with bind, 10 % of nodes", verbs=BIND, share=10, none="none-10"),
        "numalign-bind-10": _ours(
            title="numalign, 10 % of nodes", share=10, empty="empty-bind-10", none="none-10"
        ),
        "none-100": _nobody(title="no extender, all nodes", share=100),
        "empty-bind-100": _empty(title="empty with bind, all nodes", verbs=BIND, share=100, none="none-100"),
        "numalign-bind-100": _ours(
            title="numalign, all nodes", share=100, empty="empty-bind-100", none="none-100"
        ),
        "empty-whole": _empty(title="empty with bind, nodes sent whole", verbs=BIND, whole=True),
        "numalign-whole": _ours(title="numalign, nodes sent whole", whole=True, empty="empty-whole"),
        "plain-none": _nobody(title="pods without device, no extender", pods="plain"),
        "plain-empty": _empty(
            title="pods without device, empty with bind", verbs=BIND, pods="plain", none="plain-none"
        ),
        "plain-numalign": _ours(
            title="pods without device, numalign", pods="plain", empty="plain-empty", none="plain-none"
        ),
        "plain-managed": _ours(
            title="pods without device, numalign, managedResources",
            pods="plain",
            managed=(GPU,),
            empty="plain-empty",
            none="plain-none",
        ),
    }
)
"""Cells that may cost less, or more."""

CELLS: Mapping[str, Cell] = MappingProxyType({**BASE, **VARIANTS})
