"""
Part two: the nodes and pods of a real GPU cluster, in their full number.

Denied pods are summarized by cause, as single pods would say little among thousands.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from kubectl_numa.demo.reviews import OutcomeCounts, PodOutcome, Post, admit_all
from kubectl_numa.lines import TextWriter

AT_ONCE = 32
"""Concurrent reviews; a busy API server has no more."""

STEPS = 10
CAUSES_SHOWN = 12


async def review(
    manifests: Sequence[Mapping[str, Any]],
    post: Post,
    writer: TextWriter,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[OutcomeCounts, float]:
    """Have every pod reviewed, and show the progress; return the counts, and the duration in seconds."""
    counts, began = OutcomeCounts(), clock()
    with progress(len(manifests), writer, clock=clock) as advance:

        def done(answer: PodOutcome) -> None:
            counts.add(answer)
            advance()

        await admit_all(post, manifests, at_once=AT_ONCE, done=done)
    return counts, clock() - began


@contextmanager
def progress(total: int, writer: TextWriter, *, clock: Callable[[], float]) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal, a line for every tenth in a pipe; call the result once for each pod."""
    if writer.console.is_terminal:
        columns = (TextColumn("  pods"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=writer.console, transient=True) as bar:
            task = bar.add_task("pods", total=total)
            yield lambda: bar.advance(task)
        return
    done, began = 0, clock()

    def advance() -> None:
        nonlocal done
        done += 1
        if done * STEPS // total > (done - 1) * STEPS // total:
            share = done * 100 // total
            writer.write(f"  {share:>3}%  {done:>6,} of {total:,} pods  {clock() - began:5.1f} s")

    yield advance


def show(counts: OutcomeCounts, seconds: float, writer: TextWriter) -> None:
    """Write the outcomes of the pods, the causes of denials, and the duration."""
    words = counts.words
    writer.write("")
    for label, count, style in (
        ("admitted", words["admitted"], "green"),
        ("  untouched", words["untouched"], ""),
        ("  patched", words["patched"], ""),
        ("  warned", words["warned"], ""),
        ("denied", words["denied"], "red"),
    ):
        writer.write(Text.assemble((f"  {label:<12}", style), f"{count:>7,}"))
    _counts("warned, by message (a pod may have several warnings)", counts.warnings, writer)
    _counts("denied, by cause", counts.causes, writer)
    pods = words["reviewed"]
    rate = round(2 * pods / seconds) if seconds else 0
    writer.write(
        "", f"  {2 * pods:,} reviews (mutate, then validate) in {seconds:.1f} s: {rate:,} per second"
    )


def _counts(title: str, counts: Counter[str], writer: TextWriter) -> None:
    if not counts:
        return
    writer.write("", Text(f"  {title}", "bold"))
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    for words, count in ranked[:CAUSES_SHOWN]:
        writer.entry(f"  {count:>7,}  ", words, indent=11)
    others = ranked[CAUSES_SHOWN:]
    if others:
        writer.entry(f"  {sum(count for _, count in others):>7,}  ", f"{len(others)} other causes", indent=11)
