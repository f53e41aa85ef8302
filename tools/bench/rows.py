"""Figures, what they are compared with, and their targets, as rows of a table."""

import math
from dataclasses import dataclass

MET, MISSED = "met", "MISSED"


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, what it is compared with, and its target: a minimum if `over`, else a maximum."""

    what: str
    found: float
    unit: str
    beside: float | None = None
    beside_what: str = ""
    target: float | None = None
    over: bool = False

    @property
    def ratio(self) -> float | None:
        """The figure divided by the one it is compared with; None if either was not measured."""
        if not self.beside or math.inf in {self.found, self.beside}:
            return None
        return self.found / self.beside

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is none."""
        if self.target is None:
            return None
        return self.found >= self.target if self.over else self.found <= self.target

    def cells(self) -> list[str]:
        """Return the cells of a table row."""
        amount = "" if self.beside is None else f"{shown(self.beside, self.unit)} "
        ratio = "" if self.ratio is None else f"{digits(self.ratio)}"
        sign = "≥" if self.over else "≤"
        target = "" if self.target is None else f"{sign} {shown(self.target, self.unit)}"
        met = {True: MET, False: MISSED, None: ""}[self.met]
        return [self.what, shown(self.found, self.unit), amount + self.beside_what, ratio, target, met]


HEAD = ("", "measured", "compared with", "ratio", "target", "")


def digits(value: float) -> str:
    """Return a number with three significant digits or all before the point; infinity is `too long`."""
    if math.isinf(value):
        return "too long"
    if value >= 100:  # noqa: PLR2004 - three digits
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1 else f"{float(f'{value:.3g}'):.10g}"


def shown(value: float, unit: str) -> str:
    """Return a number with its unit, if it has one."""
    return digits(value) if math.isinf(value) else f"{digits(value)} {unit}".rstrip()
