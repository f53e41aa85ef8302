"""The comment above a bundled pod is parsed into the expected outcome."""

import pytest

from examples.demo import bundled
from examples.demo.bundled import BadStory, Story

NODES = {"cpu-1", "dgx-1", "dgx-2", "legacy-1"}


EXPECTED = [
    ("denied; no node could.", "denied", set()),
    ("admitted; nothing to keep away from.", "admitted", set()),
    ("admitted, patched; keeps away from cpu-1 (no GPU, not dgx-1) and legacy-1.", "admitted patched",
        {"cpu-1", "legacy-1"}),
    ("admitted, patched, warned; keeps away from all known nodes except dgx-1 and dgx-2.",
        "admitted patched warned", {"cpu-1", "legacy-1"}),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "outcome", "away"), EXPECTED)
def test_expected_outcome_is_parsed(expected: str, outcome: str, away: set[str]) -> None:
    story = Story({}, "", expected)
    assert story.outcome == {*outcome.split()}
    assert story.keeps_away_from(NODES) == away


def test_every_bundled_pod_has_an_expected_outcome() -> None:
    stories = list(bundled.stories(bundled.read(bundled.PODS)))
    assert len(stories) == 22
    words = {"admitted", "patched", "warned", "denied"}
    assert all(story.shows and story.outcome and story.outcome <= words for story in stories)
    assert stories[0].manifest["metadata"]["name"] == "inference-7b"
    assert stories[0].expected.endswith("legacy-1 (aligns nothing).")


def test_pod_without_a_comment_is_a_mistake() -> None:
    with pytest.raises(BadStory, match=r"pods.yaml, document 2: needs a comment"):
        list(bundled.stories("# Shows: a.\n# Expected: denied.\nkind: Pod\n---\nkind: Pod\n"))
