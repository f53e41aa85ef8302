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
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from numalign.model.errors import BadInput
from tools.clusters.builds import ORACLE, RECORDED, managers, versions
from tools.clusters.gotools import BrokenError, UnavailableError
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


def built(version: str) -> Path:
    """The program of a version; without it the script is over, with the exit code that says why."""
    try:
        return asyncio.run(managers(version))
    except (UnavailableError, BrokenError) as error:
        _say(str(error))
        code = os.EX_UNAVAILABLE if isinstance(error, UnavailableError) else os.EX_SOFTWARE
        raise SystemExit(code) from error


def look(managers: Managers, recorded: Json) -> tuple[Counter[str], tuple[Json, Difference] | None]:
    """Put a recording to the rules: counts, and where they disagree if chance does not explain it."""
    counts = Counter(scenarios=1)
    counts["ended"] += "ended" in recorded
    for difference in differences(recorded, counts):
        if not random_here(managers, recorded, difference):
            return counts, (recorded, difference)
        counts["random"] += 1
    return counts, None


def smallest(managers: Managers, scenario: Json, first: Difference) -> Json:
    """The smallest scenario found in time that still disagrees."""
    end = monotonic() + SHRINKING

    def holds(candidate: Json) -> bool:
        if monotonic() > end:
            return False
        try:
            _, found = look(managers, record(managers, candidate))
        except (Hung, Ended, Mistaken, BadInput, LookupError, ValueError):
            # Smaller is not always sound: what no longer is a scenario shows nothing.
            return False
        # To disagree about the start of a kubelet is another matter than to disagree about a pod.
        return found is not None and (found[1].what == "start") == (first.what == "start")

    return shrink(scenario, holds)


def table(tallies: Mapping[str, Counter[str]]) -> str:
    """What was looked at, a line a kind. `reordered` and `random` are what only chance explains."""
    rows = [*sorted(tallies.items()), ("all", sum(tallies.values(), Counter[str]()))]
    lines = [f"{'kind':<12}" + "".join(f"{name:>11}" for name in COLUMNS)]
    lines += [f"{kind:<12}" + "".join(f"{counts[name]:>11}" for name in COLUMNS) for kind, counts in rows]
    return "\n".join(lines)


def as_test(recorded: Json, difference: Difference) -> str:
    """A recording as a test that fails for as long as the rules disagree with it."""
    literal = pprint.pformat(recorded, width=108, compact=True, sort_dicts=False)
    return f"""\
from collections import Counter
from tools.generate.recordings.compare import differences

# {difference.mode}, step {difference.step}, {difference.what}:
#   ours   {json.dumps(difference.ours)}
#   theirs {json.dumps(difference.theirs)}
SCENARIO = {literal}


def test_{recorded["name"].replace("-", "_")}() -> None:
    assert list(differences(SCENARIO, Counter())) == []"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.generate.recordings.search")
    parser.add_argument("--minutes", type=float, default=5.0)
    chance = random.SystemRandom().randrange(10**6)
    parser.add_argument("--seed", type=int, default=chance, help="the first one; at random if not given")
    usual = f"of Kubernetes; {RECORDED} if not given"
    parser.add_argument("--version", choices=versions(ORACLE), default=RECORDED, help=usual)
    parser.add_argument("--kinds", default="", help="joined by commas; every kind if not given")
    options = parser.parse_args(arguments)
    known = scenarios.kinds(options.version)
    kinds = options.kinds.split(",") if options.kinds else known
    if strange := sorted({*kinds} - {*known}):
        parser.error(f"no such kind: {', '.join(strange)}; there are {', '.join(known)}")
    with Managers(built(options.version)) as managers:
        _say(f"seed {options.seed}, kubelet {options.version}")
        every = ((seed, kind) for seed in itertools.count(options.seed) for kind in kinds)
        tallies: dict[str, Counter[str]] = defaultdict(Counter)
        start = due = monotonic()
        for seed, kind in every:
            now = monotonic()
            if now > start + 60 * options.minutes:
                break
            if now > due:
                due = now + EVERY
                _say(f"{sum(one['scenarios'] for one in tallies.values())} scenarios, no disagreement")
            try:
                counts, found = look(managers, drawn(managers, seed, kind, options.version))
            except (Ended, Hung, Mistaken) as error:
                _say(f"{kind}-{seed}: {str(error).splitlines()[0]}")
                return os.EX_SOFTWARE
            tallies[kind].update(counts)
            if found:
                _say(f"{table(tallies)}\ndisagreement in {found[0]['name']}; making it smaller")
                small = smallest(managers, *found)
                # A disagreement that chance brought about can stay away for once.
                again = look(managers, record(managers, small))[1] or found
                sys.stdout.write(f"{as_test(*again)}\n")
                return 1
    if not tallies:
        _say("no scenario was compared: give it more minutes")
        return os.EX_SOFTWARE
    sys.stdout.write(f"{table(tallies)}\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
