"""Pods of a soak, and how its figures are judged."""

import json

import pytest

from numalign.kube.decode.pod_reader import PodReader
from tools.bench import soak, soak_callers, soak_pods
from tools.bench.soak import Aim, Growth, Look
from tools.bench.soak_callers import Counts
from webhook import review
from webhook.review import Review

MANY = range(400)


def looks(*assigned_pod: int) -> list[Look]:
    """A look each hundredth of a run."""
    return [Look(at, at / 100, {"webhook": each}) for at, each in enumerate(assigned_pod)]


def document(growth: float, *failed: str, reviews: int = 1_000_000) -> soak_pods.Json:
    return {
        "reviews": reviews,
        "resident_mib": {"webhook": {"growth": growth}},
        "outcomes": {"failed": len(failed)} if failed else {},
        "failed": list(failed),
    }


def test_every_template_asks_for_something_else() -> None:
    asked = {
        json.dumps([each["resources"] for each in soak_pods.made(number).pod["spec"]["containers"]])
        for number in MANY
    }
    assert len(asked) == len(MANY) / soak_pods.OF_ONE_TEMPLATE


def test_all_pods_make_sense_but_those_that_are_meant_not_to() -> None:
    made = [soak_pods.made(number) for number in MANY]
    broken = [each for each in made if each.broken]
    assert [each for each in made if PodReader().request(each.pod).mistakes] == broken
    assert len(broken) == len(made) / soak_pods.EVERY["broken"]


@pytest.mark.parametrize("path", [*soak_callers.PATHS, soak_callers.WORKLOADS])
def test_what_is_sent_is_a_review_of_the_pod(path: str) -> None:
    made = soak_pods.made(3)
    read: Review = review.read(soak_pods.review(path, made))
    assert (read.uid, read.namespace) == (made.pod["metadata"]["uid"], made.namespace)
    assert read.kind.kind == ("Deployment" if path == soak_callers.WORKLOADS else "Pod")


def test_growth_is_told_from_the_first_tenth_to_the_end() -> None:
    found = soak.growth(looks(*[50] * 5, *[100] * 6, *[999] * 70, *[104] * 20), "webhook")
    assert found == Growth(100, 999, 104)
    assert found.share == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("figures", "wrong"),
    [
        pytest.param(document(0.049), [], id="little grew"),
        pytest.param(document(0.05), ["the webhook grew by 5.0%"], id="it grew"),
        pytest.param(
            document(0.3, reviews=500_000),
            ["the webhook grew by 30.0% while its caches filled: a tenth of the run is under 100000 reviews"],
            id="it grew in a short run",
        ),
        pytest.param(document(-0.2), [], id="it shrank"),
        pytest.param(document(0, "gone"), ["1 calls failed: gone"], id="a call failed"),
    ],
)
def test_a_run_is_judged_by_growth_and_failures(figures: soak_pods.Json, wrong: list[str]) -> None:
    assert soak.verdict(figures) == wrong


def test_a_run_ends_after_so_many_reviews_or_so_long() -> None:
    counts = Counts()
    counts.calls.update({"mutate": 30, "validate": 20, "filter": 400})
    assert Aim(60, 100).share(counts, 59) == 0.5
    assert Aim(60).share(counts, 15) == 0.25


@pytest.mark.parametrize("flags", [["--minutes", "0"], ["--reviews", "-1"], ["--nodes", "3"]])
def test_flags_that_make_no_sense_are_refused(flags: list[str]) -> None:
    with pytest.raises(SystemExit):
        soak.main(flags)
