"""
What a run found, as one table and as a page with charts.

Everything here is made of the document of a run and of nothing else, so that the page that is kept with the
sources can be held against the figures that are kept with it.
"""

from collections.abc import Iterator

from bench.charts import chart_file
from bench.figures import markdown, table
from bench.rows import HEAD, Row, digits
from bench.sections import GRID, SECTIONS, Raw, Section, median

INTRODUCTION = """\
Made by `make bench`, in one run, on one machine. [speed.json](speed.json) has every figure and
[bench/README.md](../../bench/README.md) says how each is measured. Times are medians."""


def told(document: Raw) -> Iterator[tuple[str, Section, list[Row]]]:
    """The sections that were measured, with their titles and rows."""
    for section in SECTIONS:
        found = document["parts"].get(section.part)
        if found:
            yield section.title.format_map(found), section, list(section.rows(found))


def text(document: Raw) -> str:
    """For a terminal: one table of everything."""
    lines: list[list[str]] = []
    for title, _, rows in [*told(document), *_grid_of(document)]:
        lines += [["", *[""] * 5], [title.upper(), *[""] * 5], *(row.cells() for row in rows)]
    missing = (f"{part} was not measured: {why}" for part, why in document["missing"].items())
    return "\n".join([_machine(document), table(HEAD, lines), "", *missing, _tally(document)])


def _grid_of(document: Raw) -> list[tuple[str, Section, list[Row]]]:
    columns = document["parts"].get(GRID.part)
    return [(GRID.title, GRID, list(GRID.rows(columns)))] if columns else []


def _tally(document: Raw) -> str:
    judged = [row.met for _, _, rows in told(document) for row in rows if row.met is not None]
    return f"{sum(judged)} of {len(judged)} targets met"


def _machine(document: Raw) -> str:
    return "{cpu}, {cores} cores; Python {python}, NumPy {numpy}".format_map(document["machine"])


def page(document: Raw) -> str:
    """The page, of the same rows."""
    parts = [
        "# How fast it is",
        "",
        INTRODUCTION,
        "",
        f"Machine: {_machine(document)}. {_tally(document)}.",
    ]
    for part, why in document["missing"].items():
        parts += ["", f"Not measured: {part}, {why}."]
    for title, section, rows in told(document):
        said = section.said.format_map(document["parts"][section.part])
        parts += ["", f"## {title}", "", said, "", *markdown(HEAD, (row.cells() for row in rows))]
        for name in section.charts:
            parts += ["", f"![time by {name}]({chart_file(name)})"]
    if document["parts"].get(GRID.part):
        parts += ["", f"## {GRID.title}", "", *_wide_grid(document["parts"][GRID.part])]
    return "\n".join(parts) + "\n"


_GRID_HEAD = (
    *("zones, policy", "nodes", "take it", "verdicts, ms", "in Go", "ratio"),
    *("with scores, ms", "in Go", "ratio", "warm, ms"),
)


def _wide_grid(columns: Raw) -> Iterator[str]:
    """All figures of all cells."""
    yield from markdown(_GRID_HEAD, map(_grid_row, columns["cells"]))


def _grid_row(cell: Raw) -> list[str]:
    takes = "" if cell["needed"] == 1 else f", {cell['needed']} needed"
    row = [f"{cell['zones']} zones, {cell['policy']}{takes}", f"{cell['nodes']:,}", f"{cell['feasible']:,}"]
    for key in ("verdicts_ms", "scores_ms"):
        mine, floor = median(cell[key]), (cell["floor"] or {}).get(key)
        row += [digits(mine), *([digits(floor["median"]), digits(mine / floor["median"])] if floor else "--")]
    return [*row, digits(cell["warm_ms"]["median"])]
