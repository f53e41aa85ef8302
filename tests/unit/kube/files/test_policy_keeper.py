"""The policy in force: read when a program starts, followed while people edit its file."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.files.policy import NO_POLICY, BadPolicy, ClusterPolicy, parse
from numalign.kube.files.policy_keeper import PolicyKeeper
from tests.worlds.log import RecordedLog


class Kept:
    """A keeper, its file, and a sleep that lets the file be changed between two looks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told = RecordedLog()
        self.registry = CollectorRegistry()
        self.keeper = PolicyKeeper(path, log=self.told.log, registry=self.registry)

    def put(self, text: str | None) -> None:
        """Replace the file in one step; None takes it away."""
        if text is None:
            self.path.unlink()
            return
        new = self.path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.path)

    async def follow(self, *texts: str | None) -> list[ClusterPolicy]:
        """What is in force before each of these changes, and after the last."""
        waiting = iter(texts)
        seen: list[ClusterPolicy] = []

        async def sleep(seconds: float) -> None:
            assert seconds == 10
            seen.append(self.keeper.now)
            try:
                self.put(next(waiting))
            except StopIteration:
                raise asyncio.CancelledError from None

        with pytest.raises(asyncio.CancelledError):
            await self.keeper.follow(every=10, sleep=sleep)
        return seen

    @property
    def figures(self) -> tuple[float | None, ...]:
        """Whether the file is stale, and the reloads taken and refused."""
        told = self.registry.get_sample_value
        reloads = (told("numalign_policy_reloads_total", {"result": each}) for each in ("taken", "refused"))
        return (told("numalign_policy_stale"), *reloads)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "policy.yaml")


FIRST, SECOND, WRONG = "defaults: [{warn: none}]", "defaults: [{warn: restricted}]", "defauts: [{wran: none}]"


def test_without_a_file_nothing_is_asked() -> None:
    told = RecordedLog()
    keeper = PolicyKeeper(None, log=told.log, registry=CollectorRegistry())

    keeper.load()

    assert keeper.now is NO_POLICY
    assert told.stream.getvalue() == ""


async def test_there_must_be_a_file_to_follow_one() -> None:
    keeper = PolicyKeeper(None, log=RecordedLog().log, registry=CollectorRegistry())

    with pytest.raises(ValueError, match="no file"):
        await keeper.follow(every=1)


def test_a_wrong_file_at_the_start_is_refused_with_all_mistakes(kept: Kept) -> None:
    kept.put("defauts: 1\nexemptions: 2")

    with pytest.raises(BadPolicy) as raised:
        kept.keeper.load()

    assert len(raised.value.mistakes) == 2


async def test_a_file_that_changes_is_read_again(kept: Kept) -> None:
    kept.put(FIRST)
    kept.keeper.load()

    seen = await kept.follow(SECOND)

    assert seen == [parse(FIRST.encode()), parse(SECOND.encode())]
    assert kept.figures == (0, 1, 0)
    assert [line["defaults"][0]["warn"] for line in kept.told.of("policy.loaded")] == ["none", "restricted"]


@pytest.mark.parametrize("wrong", [WRONG, "", None], ids=["wrong", "empty", "gone"])
async def test_a_wrong_file_changes_nothing_until_it_is_mended(kept: Kept, wrong: str | None) -> None:
    kept.put(FIRST)
    kept.keeper.load()

    seen = await kept.follow(wrong)

    assert seen == [parse(FIRST.encode())] * 2
    assert kept.figures == (1, 0, 1)
    (line,) = kept.told.of("policy.rejected")
    assert line["path"] == str(kept.path)
    assert all(str(kept.path) in mistake for mistake in line["errors"])

    seen = await kept.follow(SECOND)

    assert seen[-1] == parse(SECOND.encode())
    assert kept.figures == (0, 1, 1)


async def test_a_file_that_was_never_loaded_is_followed_from_nothing(kept: Kept) -> None:
    assert await kept.follow(FIRST) == [NO_POLICY, parse(FIRST.encode())]


async def test_a_file_that_stays_is_not_read_again(kept: Kept) -> None:
    kept.put(FIRST)
    kept.keeper.load()
    policy = kept.keeper.now

    await kept.follow()

    assert kept.keeper.now is policy
    assert kept.figures == (0, 0, 0)
