"""
The ways to schedule that are compared, and what the scheduler is told in each.

To each way with our scorer belongs the same way with an extender that knows nothing, and the same with none:
what differs from the first is ours, what that differs from the second is the protocol's. An extender that
knows nothing and has our server stands between: what is lost to it is Python's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.controlplane import schedulers
from harness.controlplane.schedulers import Extender
from harness.sim.shapes import GPU

Json = dict[str, Any]

ASK = ("filter", "prioritize")
BIND = (*ASK, "bind")


class Who(StrEnum):
    """Whom the scheduler asks."""

    NOBODY = "nobody"
    EMPTY = "empty"
    PYTHON = "python"
    NUMALIGN = "numalign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A way to schedule. `empty`, `python` and `none` name the cells to compare it with.

    `verbs` are those that are asked, and who binds follows from them. With `managed` resources only pods that
    ask for one of them are asked about. `share` is percentageOfNodesToScore, 0 for what the scheduler thinks
    best. `whole` nodes are sent where an extender says that it keeps none itself. `pods` is a kind of pods.
    Where the extender is `apart`, it has a processor for itself, as on a host of its own.
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
        """As a scheduler is told of it; without anybody to ask there is none."""
        told = Extender(url=url, verbs=self.verbs, ignorable=self.ignorable, managed=self.managed)
        return told.described() | {"nodeCacheCapable": not self.whole}

    def configuration(self, kubeconfig: Path, url: str) -> Json:
        """A KubeSchedulerConfiguration."""
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
"""What the aims are about. Those that are compared stand side by side, as nothing stays the same for long."""

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
"""What would make it cost less, or more."""

CELLS: Mapping[str, Cell] = MappingProxyType({**BASE, **VARIANTS})
