"""
Search for a scenario in which the rules and the kubelet disagree.

    python -m tools.generate.recordings.search --minutes 5 [--seed N] [--version v1.34.4] [--kinds
    plain,groups]

Agreement with recordings only shows that nobody has recorded the mistake yet. So this draws new scenarios of
every kind until the time is up, on one processor: start it once for each, with a seed of its own. It makes
the first disagreement as small as it can and prints it as a test that fails. The exit code is 0 if there was
none, 1 if there was one, 69 without Go, and 70 if the search itself failed or compared nothing.
"""

import argparse
import asyncio
import itertools
import json
import os
import pprint
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from numalign.model.errors import BadInput
from tools.clusters.gotools import BrokenError, UnavailableError
from tools.clusters.oracle.build import USUAL, find, versions
from tools.clusters.oracle.managers import Ended, Hung, Managers, Mistaken
from tools.generate.recordings import scenarios
from tools.generate.recordings.compare import Difference, differences, drawn, random_here, record
from tools.generate.recordings.shrink import shrink

Json = dict[str, Any]

EVERY = 5.0
"""Seconds between two lines of progress."""

SHRINKING = 120.0
"""Seconds after which a disagreement is small enough."""

COLUMNS = ("scenarios", "decisions", "admitted", "refused", "chosen", "reordered", "random", "ended")


@dataclass(frozen=True, slots=True)
class Search:
    """What to draw, with which program, and until when (in the time of `monotonic`)."""

    binary: Path
    version: str
    kinds: tuple[str, ...]
    seed: int
    end: float


def built(version: str) -> Path:
    """The program of a version; without it the script is over, with the exit code that says why."""
    try:
        return asyncio.run(find(version))
    except UnavailableError as missing:
        _say(str(missing))
        raise SystemExit(os.EX_UNAVAILABLE) from missing
    except BrokenError as broken:
        _say(str(broken))
        raise SystemExit(os.EX_SOFTWARE) from broken


def look(managers: Managers, recorded: Json) -> tuple[Counter[str], Json | None]:
    """Put a recording to the rules; it comes back if they disagree and chance does not explain it."""
    counts = Counter(scenarios=1)
    counts["ended"] += "ended" in recorded
    for difference in differences(recorded, counts):
        if not random_here(managers, recorded, difference):
            return counts, recorded
        counts["random"] += 1
    return counts, None


def disagreement(managers: Managers, scenario: Json) -> tuple[Json, Difference] | None:
    """The recording of a scenario and its first disagreement, if there is one."""
    recorded = record(managers, scenario)
    for difference in differences(recorded, Counter()):
        if not random_here(managers, recorded, difference):
            return recorded, difference
    return None


def smallest(managers: Managers, scenario: Json, *, seconds: float = SHRINKING) -> Json:
    """The smallest scenario found in this time that still disagrees."""
    end = monotonic() + seconds
    first = disagreement(managers, scenario)

    def holds(candidate: Json) -> bool:
        if monotonic() > end or first is None:
            return False
        try:
            told = disagreement(managers, candidate)
        except (Hung, Ended, Mistaken, BadInput, LookupError, ValueError):
            # Smaller is not always sound: what no longer is a scenario shows nothing.
            return False
        # To disagree about the start of a kubelet is another matter than to disagree about a pod.
        return told is not None and (told[1].what == "start") == (first[1].what == "start")

    return shrink(scenario, holds)


def run(search: Search) -> Json | None:
    """Search until the time is up, or for the first recording that shows a disagreement.

    BrokenError if the managers failed, or no scenario was compared: that none disagrees then shows nothing.
    """
    tallies: dict[str, Counter[str]] = defaultdict(Counter)
    due = monotonic() + EVERY
    with Managers(search.binary) as managers:
        for seed, kind in ((seed, kind) for seed in itertools.count(search.seed) for kind in search.kinds):
            if monotonic() > search.end:
                break
            try:
                counts, found = look(managers, drawn(managers, seed, kind, search.version))
            except (Ended, Hung, Mistaken) as error:
                raise BrokenError(f"{kind}-{seed}: {search.binary}: {str(error).splitlines()[0]}") from error
            tallies[kind].update(counts)
            if found:
                _say(table(tallies))
                return found
            if monotonic() > due:
                _say(_progress(tallies, search))
                due = monotonic() + EVERY
    if not tallies:
        raise BrokenError("no scenario was compared: give it more minutes")
    sys.stdout.write(f"{table(tallies)}\n")
    return None


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _progress(tallies: dict[str, Counter[str]], search: Search) -> str:
    total: Counter[str] = sum(tallies.values(), Counter())
    share = total["admitted"] / max(1, total["decisions"])
    left = max(0.0, search.end - monotonic())
    counts = f"{total['scenarios']} scenarios, {total['decisions']} decisions, {share:.0%} admitted"
    return f"{counts}, no disagreement; {left:.0f} s left"


def table(tallies: dict[str, Counter[str]]) -> str:
    """What was looked at, a line a kind. `reordered` and `random` are what only chance explains."""
    rows = [*sorted(tallies.items()), ("all", sum(tallies.values(), Counter()))]
    lines = [f"{'kind':<12}" + "".join(f"{name:>11}" for name in COLUMNS)]
    lines += [f"{kind:<12}" + "".join(f"{counts[name]:>11}" for name in COLUMNS) for kind, counts in rows]
    return "\n".join(lines)


def as_test(recorded: Json, difference: Difference) -> str:
    """A recording as a test that fails for as long as the rules disagree with it."""
    name = recorded["name"].replace("-", "_")
    literal = pprint.pformat(recorded, width=108, compact=True, sort_dicts=False)
    return "\n".join(
        (
            "from collections import Counter",
            "from tools.generate.recordings.compare import differences",
            "",
            f"# {difference.mode}, step {difference.step}, {difference.what}:",
            f"#   ours   {json.dumps(difference.ours)}",
            f"#   theirs {json.dumps(difference.theirs)}",
            f"SCENARIO = {literal}",
            "",
            "",
            f"def test_{name}() -> None:",
            "    assert list(differences(SCENARIO, Counter())) == []",
        )
    )


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    binary = built(options.version)
    known = scenarios.kinds(options.version)
    kinds = tuple(options.kinds.split(",")) if options.kinds else known
    if strange := sorted({*kinds} - {*known}):
        _say(f"no such kind: {', '.join(strange)}; there are {', '.join(known)}")
        return os.EX_USAGE
    _say(f"seed {options.seed}, kubelet {options.version}")
    search = Search(binary, options.version, kinds, options.seed, monotonic() + 60 * options.minutes)
    return searched(search)


def searched(search: Search) -> int:
    """Search, and report what was found; return the exit code."""
    try:
        found = run(search)
    except BrokenError as broken:
        _say(str(broken))
        return os.EX_SOFTWARE
    if found is None:
        return 0
    _say(f"disagreement in {found['name']}; making it smaller")
    with Managers(search.binary) as managers:
        small = smallest(managers, found)
        told = disagreement(managers, small) or disagreement(managers, found)
    # A disagreement that chance brought about can stay away for once; what was recorded still shows it.
    sys.stdout.write(f"{as_test(*told) if told else json.dumps(found)}\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.generate.recordings.search")
    parser.add_argument("--minutes", type=float, default=5.0)
    chance = random.SystemRandom().randrange(10**6)
    parser.add_argument("--seed", type=int, default=chance, help="the first one; at random if not given")
    parser.add_argument(
        "--version", choices=versions(), default=USUAL, help=f"of Kubernetes; {USUAL} if not given"
    )
    parser.add_argument("--kinds", default="", help="joined by commas; every kind if not given")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
