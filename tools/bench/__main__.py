"""
Measure all speeds in one run: a table with ratios and targets, the figures as JSON, a page with charts.

Each part runs in a separate process, so that none has in memory what another left behind, and can be run
alone (`python -m tools.bench.columns --help`). A part that is not available on this machine, for example
without Go, is reported as missing. Slow results do not fail the run; a part that breaks, or that did other
work than it should have, does.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import orjson

from tools.bench import charts, command_line, report

Words = tuple[str, ...]

UNAVAILABLE = "it needs programs that are written in Go, and Go is not available here"


@dataclass(frozen=True, slots=True)
class Part:
    """A program that writes its figures with --json, and its flags for a full and for a quick run."""

    module: str
    flags: Words
    quick: Words


PARTS: Mapping[str, Part] = MappingProxyType(
    {
        "makes": Part("tools.bench.columns", ("--makes", "1,6,36,216"), ("--quick", "--makes", "1,6")),
        "columns": Part("tools.bench.columns", (), ("--quick",)),
        "openb": Part("tools.bench.openb", ("--every", "5"), ("--nodes", "20", "--every", "150")),
        "extender": Part(
            "tools.bench.extender",
            ("--names", "500,100,1000,2000,5000"),
            ("--nodes", "40", "--makes", "6,1", "--names", "10,40", "--templates", "2", "--repeats", "2"),
        ),
        "webhook": Part(
            "tools.bench.webhook",
            (),
            ("--nodes", "20", "--templates", "2", "--rate", "10,20", "--seconds", "0.5"),
        ),
        "churn": Part(
            "tools.bench.churn",
            (),
            ("--nodes", "24", "--makes", "6", "--templates", "2", "--rate", "20", "--seconds", "1"),
        ),
        "binds": Part(
            "tools.bench.cpu_per_pod",
            ("--rate", "100"),
            ("--nodes", "20", "--names", "10", "--warm", "2", "--pods", "4", "--rate", "100"),
        ),
        "coldstart": Part("tools.bench.coldstart", (), ("--nodes", "20", "--pods", "40", "--settling", "0")),
        "rate": Part("tools.bench.scheduling_rate", ("--cells", "base"), ("--quick",)),
        "agent": Part(
            "tools.bench.agent",
            (),
            ("--played", "--pods", "4", "--rate", "4", "--seconds", "1", "--settling", "0"),
        ),
        "commands": Part("tools.bench.commands", (), ("--nodes", "36", "--repeats", "1")),
        "rules": Part("tools.bench.rules", (), ("--repeats", "1", "--resources", "1")),
    }
)

Run = Callable[[Sequence[str]], int]
"""Runs a program to its end; returns its exit code."""


@dataclass(slots=True)
class Outcome:
    """The document of each measured part, why others are missing, and the parts that failed."""

    parts: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def document(self, machine: Mapping[str, object]) -> dict[str, Any]:
        """Return the whole outcome, for a file."""
        return {"machine": dict(machine), "parts": self.parts, "missing": self.missing}


def measure(names: Iterable[str], *, run: Run, quick: bool) -> Outcome:
    """Run these parts, one after another."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            part, file = PARTS[name], Path(folder) / f"{name}.json"
            flags = part.quick if quick else part.flags
            code = run([sys.executable, "-m", part.module, *flags, "--json", str(file)])
            if code == os.EX_UNAVAILABLE:
                outcome.missing[name] = UNAVAILABLE
            elif code or not file.exists():
                outcome.broken.append(name)
            else:
                outcome.parts[name] = orjson.loads(file.read_bytes())
    return outcome


def shown(words: Sequence[str]) -> int:
    """Run a program without its table; report the command and its duration on standard error."""
    began = time.monotonic()
    sys.stderr.write(f"{' '.join(words[1:])}\n")
    code = subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode  # noqa: S603 - our own program
    sys.stderr.write(f"{words[2]}: {time.monotonic() - began:.0f} s\n")
    return code


def machine() -> dict[str, object]:
    """Return what the figures depend on."""
    cpus = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in cpus if line.startswith("model name"))
    return {
        "cpu": next(named, platform.machine()),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def write(document: Mapping[str, Any], page: Path) -> None:
    """Write the page, its charts, and the figures that both are made from."""
    page.write_text(report.page(document), encoding="utf-8")
    page.with_suffix(".json").write_bytes(figures(document))
    for name, drawn in charts.charts(document).items():
        page.with_name(charts.chart_file(name)).write_text(drawn, encoding="utf-8")


def figures(document: Mapping[str, Any]) -> bytes:
    """Return the document as JSON, as it is stored."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def main(arguments: Sequence[str] | None = None, *, run: Run = shown) -> int:
    """Measure as the flags say; return 0 however slow it was, or 1 without writing files if a part failed."""
    chosen = _parser().parse_args(arguments)
    outcome = measure(chosen.only, run=run, quick=chosen.quick)
    document = outcome.document(machine())
    print(report.text(document))
    if outcome.broken:
        sys.stderr.write(f"failed parts: {', '.join(outcome.broken)}; their messages are above\n")
        return 1
    if chosen.json:
        chosen.json.write_bytes(figures(document))
    if chosen.markdown:
        write(document, chosen.markdown)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = command_line.parser("bench", __doc__)
    parser.add_argument(
        "--quick", action="store_true", help="use tiny inputs, only to check that everything works"
    )
    parser.add_argument(
        "--only",
        type=command_line.several(PARTS, "parts"),
        default=tuple(PARTS),
        metavar="NAME,...",
        help=f"parts to run (default: all): {' '.join(PARTS)}",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the page here, with its charts and figures"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
