"""The vectors are those of the definition's own tests (k8stopologyawareschedwg/podfingerprint)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.clusters.sim.fingerprints import fingerprint

NAMES = st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=6)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], "pfp0v001ef46db3751d8e999", id="no pod at all"),
        pytest.param([("namespace1", "pod1")], "pfp0v0019e0420efb37746c6", id="one pod"),
    ],
)
def test_known_sets_have_known_fingerprints(pods: list[tuple[str, str]], expected: str) -> None:
    assert fingerprint(pods) == expected


@given(NAMES, st.randoms(use_true_random=False))
def test_the_order_of_pods_does_not_matter(pods: list[tuple[str, str]], rng: object) -> None:
    shuffled = list(pods)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # Hypothesis types it as object
    assert fingerprint(shuffled) == fingerprint(pods)
