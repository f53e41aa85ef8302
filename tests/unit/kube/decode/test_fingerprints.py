"""Which pods a topology accounts for, found out from their fingerprint."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube.decode.fingerprints import MOST_TRIES, Fingerprint, accounted, fingerprint, parse
from numalign.ledger.model import PodName

# The vectors are those of github.com/k8stopologyawareschedwg/podfingerprint (podfingerprint_test.go).


@pytest.mark.parametrize(
    ("pods", "expected"),
    [([], "pfp0v001ef46db3751d8e999"), ([("namespace1", "pod1")], "pfp0v0019e0420efb37746c6")],
    ids=["no pods", "one pod"],
)
def test_a_fingerprint_is_that_of_the_exporters(pods: list[PodName], expected: str) -> None:
    assert fingerprint(pods) == expected
    assert parse(expected, None) == Fingerprint(expected)


def few(prefix: str, count: int) -> list[PodName]:
    return [("team", f"{prefix}-{number}") for number in range(count)]


names = st.tuples(st.sampled_from(["a", "b", "kube-system"]), st.text("abc-é", min_size=1, max_size=4))
crowds = st.lists(names, unique=True, max_size=14)


@given(crowds, st.data())
def test_the_order_of_pods_changes_nothing(pods: list[PodName], data: st.DataObject) -> None:
    assert fingerprint(data.draw(st.permutations(pods))) == fingerprint(pods)


@given(crowds, st.sets(st.integers(0, 13)), st.integers(0, 14))
def test_every_subset_of_pods_is_accounted(pods: list[PodName], chosen: set[int], sure: int) -> None:
    """Fourteen pods have 16,384 subsets; so many tries find every one of them, whichever it is."""
    certain, uncertain = pods[:sure], pods[sure:]
    members = {pod for at, pod in enumerate(uncertain) if at in chosen}
    seen = Fingerprint(fingerprint([*certain, *members]))
    assert accounted(seen, certain, uncertain, tries=2**14) == frozenset(members)


@given(crowds, crowds, crowds)
def test_accounted_pods_have_the_fingerprint(
    seen: list[PodName], certain: list[PodName], uncertain: list[PodName]
) -> None:
    result = accounted(Fingerprint(fingerprint(seen)), certain, uncertain, tries=2**14)
    possible = {*certain} <= {*seen} <= {*certain, *uncertain}
    assert result == ({*seen} - {*certain} if possible else None)


@pytest.mark.parametrize(
    ("members", "tries"),
    [(12, 1), (0, 2), (11, 2 + 12), (1, 2 + 24)],
    ids=["all", "none", "all but one", "one"],
)
def test_likely_pods_are_tried_first(members: int, tries: int) -> None:
    certain, uncertain = few("certain", 80), few("uncertain", 12)
    seen = Fingerprint(fingerprint([*certain, *uncertain[:members]]))
    assert accounted(seen, certain, uncertain, tries=tries) == frozenset(uncertain[:members])


def test_tries_are_limited() -> None:
    uncertain = few("uncertain", 40)
    seen = Fingerprint(fingerprint(uncertain[:20]))
    assert accounted(seen, [], uncertain) is None
    assert accounted(seen, [], uncertain[:20], tries=MOST_TRIES) == frozenset(uncertain[:20])
    assert accounted(seen, [], uncertain[:20], tries=0) is None
