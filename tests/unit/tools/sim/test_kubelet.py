"""In which order a kubelet handles changes of pods that arrive together."""

import pytest

from tools.clusters.sim.kubelet import News, ordered


def there(name: str, *, created: str = "2026-01-01") -> News:
    return News(f"uid-{name}", {"metadata": {"creationTimestamp": created}})


def gone(name: str) -> News:
    return News(f"uid-{name}")


def told(batch: list[News]) -> list[str]:
    return [f"{news.uid}{' ended' if news.ended else ''}" for news in batch]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(
            [there("new"), there("old"), gone("gone")],
            ["uid-gone", "uid-new", "uid-old"],
            id="removed pods, then new ones, then those that are known",
        ),
        pytest.param(
            [there("late", created="2026-01-03"), there("early", created="2026-01-02")],
            ["uid-early", "uid-late"],
            id="new pods by creation",
        ),
        pytest.param(
            [there("b"), there("a")], ["uid-b", "uid-a"], id="of the same second, as they were told"
        ),
        pytest.param([there("new"), gone("new")], [], id="a pod that came and went meanwhile"),
        pytest.param([there("old"), gone("old")], ["uid-old"], id="of a pod only the last news"),
        pytest.param(
            [there("new"), News("uid-old", ended=True)],
            ["uid-old ended", "uid-new"],
            id="a pod that has ended makes room first",
        ),
    ],
)
def test_simultaneous_pods_are_admitted_in_kubelet_order(batch: list[News], expected: list[str]) -> None:
    assert told(ordered(batch, ["uid-old", "uid-gone"])) == expected
