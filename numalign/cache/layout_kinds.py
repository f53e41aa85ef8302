"""
Kinds of layouts: layouts of one table that do not differ in anything that matters to a question.

Which kinds there are depends only on the requested resources. So they are found once for these resources, and
so are their traits.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from numalign.cache.arrays import Bools, Ints, Rows
from numalign.cache.columns import Columns
from numalign.cache.layout import KubeletConfig, Layout
from numalign.model.intent import Policy, Scope
from numalign.model.node import CpuManager, MemoryManager, Node


class LayoutKind(NamedTuple):
    """All of a layout that matters to a question about some resources.

    Of these resources `given` are those that managers of these kubelets allocate, `devices` those of which a
    node has any by hardware, `unplaced` those of which some are between zones or on none, `uncertain` those
    whose zones are not known for certain, and `listed` those that its zones may allocate. With
    `totals_known`, a node has none of what it does not list.
    """

    config: KubeletConfig
    single_zone: bool
    given: frozenset[str]
    devices: frozenset[str]
    unplaced: frozenset[str]
    uncertain: frozenset[str]
    listed: frozenset[str]
    totals_known: bool

    @classmethod
    def of(cls, layout: Layout, asked: frozenset[str]) -> "LayoutKind":
        """Return the kind of a layout with regard to these resources."""
        return cls(
            layout.config,
            len(layout.ids) == 1,
            frozenset(filter(layout.gives_out, asked)),
            layout.devices & asked,
            layout.unplaced & asked,
            layout.uncertain & asked,
            layout.listed & asked,
            layout.totals is not None,
        )

    @property
    def together(self) -> bool:
        """Whether these kubelets decide about a pod as a whole."""
        return self.config.scope is Scope.POD and self.config.policy is not Policy.NONE


class Trait(Enum):
    """What can be true of a kind of layouts, whatever is requested."""

    STRICT = "strict"
    """The kubelet refuses what it cannot align."""
    SINGLE = "single"
    """Only one zone will do."""
    SILENT = "silent"
    """The kubelet aligns nothing."""
    NEAR = "near"
    """Hints for devices include only zones with a device."""
    WHOLE_CORES = "whole cores"
    """CPUs are allocated only in whole cores."""
    KEEPS_CPUS = "keeps CPUs"
    """There is a CPU manager that allocates CPUs."""
    KEEPS_MEMORY = "keeps memory"
    """There is a memory manager that allocates memory."""
    TOGETHER = "together"
    """The kubelet decides about a pod as a whole."""
    TOTALS_KNOWN = "totals known"
    """A node has none of what it does not list."""


_HAS: Mapping[Trait, Callable[[LayoutKind], bool]] = MappingProxyType(
    {
        Trait.STRICT: lambda kind: kind.config.strict,
        Trait.SINGLE: lambda kind: kind.config.policy is Policy.SINGLE_NUMA_NODE,
        Trait.SILENT: lambda kind: kind.config.policy is Policy.NONE,
        Trait.NEAR: lambda kind: kind.config.near,
        Trait.WHOLE_CORES: lambda kind: kind.config.whole_cores,
        Trait.KEEPS_CPUS: lambda kind: kind.config.cpu_manager is CpuManager.STATIC,
        Trait.KEEPS_MEMORY: lambda kind: kind.config.memory_manager is MemoryManager.STATIC,
        Trait.TOGETHER: lambda kind: kind.together,
        Trait.TOTALS_KNOWN: lambda kind: kind.totals_known,
    }
)


class LayoutKinds:
    """The kinds of the layouts of a table, each with an example; their traits are arrays by kind.

    They are valid for one `era` of the columns.
    """

    def __init__(self, columns: Columns, asked: frozenset[str]) -> None:
        self.era = columns.era
        numbers, examples = dict[LayoutKind, int](), list[Node]()
        of_layout = []
        for layout, node in columns.layouts_with_examples():
            kind = None if layout is None else LayoutKind.of(layout, asked)
            if kind is not None and kind not in numbers:
                numbers[kind] = len(examples)
                examples.append(node)
            of_layout.append(-1 if kind is None else numbers[kind])
        self.kinds: tuple[LayoutKind, ...] = tuple(numbers)
        self.examples: tuple[Node, ...] = tuple(examples)
        self._of_layout: Ints = np.array(of_layout, dtype=np.int16)
        self._some = frozenset(trait for trait, has in _HAS.items() if any(map(has, numbers)))
        self._every = frozenset(trait for trait, has in _HAS.items() if all(map(has, numbers)))
        self._columns = columns
        self._traits: dict[Trait | str, Bools] = {}
        self._placed = -1
        self._rows: Ints = self._of_layout
        self._by_row: dict[Trait | str, Bools] = {}

    def trait(self, trait: Trait) -> Bools:
        """Return which kinds have it."""
        if trait not in self._traits:
            self._traits[trait] = np.array([_HAS[trait](kind) for kind in self.kinds])
        return self._traits[trait]

    def any(self, trait: Trait) -> bool:
        """Return whether any kind has it."""
        return trait in self._some

    def all(self, trait: Trait) -> bool:
        """Return whether all kinds have it."""
        return trait in self._every

    def given(self, name: str) -> Bools:
        """Return for which kinds a resource is allocated."""
        if name not in self._traits:
            self._traits[name] = np.array([name in kind.given for kind in self.kinds])
        return self._traits[name]

    def of_rows(self, rows: Rows | None) -> Ints:
        """Return the kind of each of these rows of the table, or of all."""
        if rows is not None:
            kinds: Ints = self._of_layout.take(self._columns.layout_of(rows))
            return kinds
        self._follow()
        return self._rows

    def with_trait(self, trait: Trait, rows: Rows | None) -> Bools:
        """Return which of these rows of the table, or of all, have it."""
        return self._looked_up(trait, self.trait(trait), rows)

    def giving(self, name: str, rows: Rows | None) -> Bools:
        """Return on which of these rows of the table, or of all, a resource is allocated."""
        return self._looked_up(name, self.given(name), rows)

    def _looked_up(self, key: Trait | str, values: Bools, rows: Rows | None) -> Bools:
        if rows is not None:
            some: Bools = values.take(self.of_rows(rows))
            return some
        self._follow()
        if key not in self._by_row:
            every = values.take(self._rows)
            every.setflags(write=False)
            self._by_row[key] = every
        return self._by_row[key]

    def _follow(self) -> None:
        """Look rows up again if nodes came, went or changed since."""
        if self._placed != self._columns.placed:
            self._placed, self._by_row = self._columns.placed, {}
            self._rows = self._of_layout.take(self._columns.layout_of())
