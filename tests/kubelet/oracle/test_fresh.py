"""The rules against the kubelet on scenarios that nobody has seen before: each run draws others.

Agreement with the recordings alone could be agreement with files. The seed is shown when something is wrong;
`python -m tools.generate.recordings.search --seed N` makes a disagreement small.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.worlds.opt_in import ORACLE
from tools.clusters import builds
from tools.clusters.oracle.managers import Managers
from tools.generate.recordings import scenarios
from tools.generate.recordings.compare import drawn
from tools.generate.recordings.search import as_test, look

# The first test may have to build the program.
pytestmark = [pytest.mark.oracle, pytest.mark.timeout(1800)]

SCENARIOS = 60
SEED = random.SystemRandom().randrange(10**6)


@pytest.fixture(scope="module", params=builds.versions(builds.ORACLE))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def managers(version: str) -> Iterator[Managers]:
    with ORACLE.or_skipped():
        binary = asyncio.run(builds.managers(version))
    with Managers(binary) as started:
        yield started


def test_rules_agree_with_the_kubelet_on_new_scenarios(managers: Managers, version: str) -> None:
    counts: Counter[str] = Counter()
    kinds = scenarios.kinds(version)
    for seed in range(SEED, SEED + SCENARIOS // len(kinds)):
        for kind in kinds:
            counted, difference = look(managers, drawn(managers, seed, kind, version))
            counts.update(counted)
            assert difference is None, f"seed {seed}, {kind}\n{as_test(*difference)}"
    # What chance excuses is rare, one decision in three thousand, though two to a scenario: were it frequent,
    # a mistake could hide among it.
    assert counts["random"] <= counts["decisions"] // 100
    assert counts["decisions"] > 3 * SCENARIOS
    assert counts["decisions"] > counts["admitted"] > 0
