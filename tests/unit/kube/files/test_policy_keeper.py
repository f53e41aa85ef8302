"""The policy in force: read when a program starts, followed while people edit its file."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from numalign.kube.files.policy import NO_POLICY, ClusterPolicy, parse
from numalign.kube.files.policy_keeper import PolicyKeeper
from tests.worlds.log import RecordedLog


class Keeper:
    """A keeper, its file, and a sleep that lets the file be changed between two looks."""

    def __init__(self, path: Path) -> None:
        self.path, self.log, self.registry = path, RecordedLog(), CollectorRegistry()
        self.policy_keeper = PolicyKeeper(path, log=self.log.log, registry=self.registry)

    def put(self, text: str | None) -> None:
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
            seen.append(self.policy_keeper.now)
            try:
                self.put(next(waiting))
            except StopIteration:
                raise asyncio.CancelledError from None

        with pytest.raises(asyncio.CancelledError):
            await self.policy_keeper.follow(every=10, sleep=sleep)
        return seen

    @property
    def figures(self) -> tuple[float | None, ...]:
        """Whether the file is stale, and the reloads taken and refused."""
        value = self.registry.get_sample_value
        reloads = (value("numalign_policy_reloads_total", {"result": each}) for each in ("taken", "refused"))
        return (value("numalign_policy_stale"), *reloads)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path / "policy.yaml")


FIRST, SECOND, WRONG = "defaults: [{warn: none}]", "defaults: [{warn: restricted}]", "defauts: [{wran: none}]"


async def test_no_file_is_no_policy() -> None:
    log = RecordedLog()
    keeper = PolicyKeeper(None, log=log.log, registry=CollectorRegistry())
    keeper.load()
    assert (keeper.now, log.stream.getvalue()) == (NO_POLICY, "")
    with pytest.raises(ValueError, match="no file"):
        await keeper.follow(every=1)


async def test_a_file_that_changes_is_read_again(keeper: Keeper) -> None:
    keeper.put(FIRST)
    keeper.policy_keeper.load()
    seen = await keeper.follow(SECOND)
    assert seen == [parse(FIRST.encode()), parse(SECOND.encode())]
    assert keeper.figures == (0, 1, 0)
    # A file that stays is not read again.
    assert (await keeper.follow())[0] is seen[1]
    assert keeper.figures == (0, 1, 0)
    assert [line["defaults"][0]["warn"] for line in keeper.log.of("policy.loaded")] == ["none", "restricted"]


@pytest.mark.parametrize("wrong", [WRONG, "", None], ids=["wrong", "empty", "gone"])
async def test_a_wrong_file_changes_nothing(keeper: Keeper, wrong: str | None) -> None:
    keeper.put(FIRST)
    keeper.policy_keeper.load()
    seen = await keeper.follow(wrong)
    assert seen == [parse(FIRST.encode())] * 2
    assert keeper.figures == (1, 0, 1)
    (line,) = keeper.log.of("policy.rejected")
    assert line["path"] == str(keeper.path)
    assert all(str(keeper.path) in mistake for mistake in line["errors"])
    seen = await keeper.follow(SECOND)
    assert seen[-1] == parse(SECOND.encode())
    assert keeper.figures == (0, 1, 1)
