"""Whether a kubelet that has just started knows its pods already."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.observation import KubeletPod, ListedPod, Observation
from agent.starts import CreationTimes, Start, from_the_api_server
from tests.unit.agent.observations import checkpoints, container, listed, observation, pod

LATE = "the kubelet does not list its pods yet"


def aged(name: str, created: int) -> KubeletPod:
    return replace(pod(f"uid-{name}", name), created=created)


OLD, WEB, NEW = aged("old", 100), aged("web", 200), aged("new", 300)
KNOWN: CreationTimes = {("team", "old"): 100, ("team", "web"): 200}


def look(*pods: KubeletPod, names: Sequence[str] = ()) -> Observation:
    return observation(*pods, listed=[listed(name) for name in names])


def own(*pods: KubeletPod) -> list[KubeletPod]:
    return [replace(pod, from_kubelet=True) for pod in pods]


def lacking(start: Start, *looks: Observation) -> list[str]:
    """What shows in each of these looks, one after another, that it is too early."""
    found = []
    for each in looks:
        missing = start.seen(each)
        found.append(missing.lacking(each))
        start = missing.after(each)
    return found


@pytest.mark.parametrize("names", [[], ["old"], ["another"]])
def test_a_list_of_some_of_the_known_pods_is_too_early(names: list[str]) -> None:
    assert lacking(Start(KNOWN), look(OLD, WEB, names=names)) == [LATE]


def test_a_list_of_all_known_pods_is_not() -> None:
    assert lacking(Start(KNOWN), look(OLD, WEB, names=["old", "web"])) == [""]


def test_a_pod_that_was_listed_may_go() -> None:
    assert lacking(Start(KNOWN), look(names=["old"]), look(names=["web"])) == [LATE, ""]


@pytest.mark.parametrize(("created", "said"), [(300, ""), (200, LATE), (0, LATE)])
def test_kubelet_lists_older_pods_first(created: int, said: str) -> None:
    young = replace(NEW, created=created)
    assert lacking(Start(KNOWN), look(OLD, young, names=["old", "new"])) == [said]


def test_static_pod_proves_nothing_about_others() -> None:
    static = replace(NEW, static=True)
    assert lacking(Start(KNOWN), look(static, names=["new"])) == [LATE]


def test_pod_of_unknown_age_is_waited_for() -> None:
    assert lacking(Start({("team", "web"): 0}), look(NEW, names=["new"])) == [LATE]


def test_a_pod_that_has_ended_is_not_waited_for() -> None:
    ended = replace(WEB, phase="Failed")
    assert lacking(Start(KNOWN), look(OLD, ended, names=["old"])) == [""]
    assert lacking(Start(KNOWN), look(OLD, ended, WEB, names=["old"])) == [LATE]


def test_unlisted_pod_counts_as_rejected() -> None:
    both = look(*own(OLD, WEB), names=["old"])
    assert lacking(Start(KNOWN), both, both) == [LATE, ""]


def test_a_pod_that_only_the_api_server_has_is_waited_for() -> None:
    both = look(OLD, WEB, names=["old"])
    assert lacking(Start(KNOWN), both, both) == [LATE, LATE]


def test_unknown_start_waits_for_running_pods() -> None:
    pending, leaving = replace(OLD, phase="Pending"), replace(NEW, deleted=True)
    assert lacking(Start(None), look(pending, WEB, leaving), look(WEB, names=["web"])) == [LATE, ""]
    assert lacking(Start(None), look(pending, leaving)) == [""]
    assert lacking(Start(None), look(replace(WEB, static=True))) == [""]


def test_unknown_start_waits_for_pods_with_cpus() -> None:
    saved = checkpoints({"uid-web": {"app": "2-3"}, "uid-idle": {"app": ""}})
    alone, known = look(), look(*own(WEB), names=["web"])

    assert lacking(Start(None), *(replace(each, checkpoints=saved) for each in (alone, alone, known))) == [
        LATE,
        LATE,
        "",
    ]
    # The kubelet forgets a pod that is gone.
    assert lacking(Start(None), replace(alone, checkpoints=saved), replace(alone, checkpoints=checkpoints()))[
        1:
    ] == [""]
    assert lacking(Start({}), replace(alone, checkpoints=saved)) == [""]


def test_a_static_pod_is_known_by_its_cpus() -> None:
    saved = checkpoints({"uid-of-the-kubelet": {"app": "2-3"}})
    mirror = replace(WEB, static=True)
    seen = observation(mirror, listed=[listed("web", container("app", "2-3"))], saved=saved)
    assert lacking(Start(None), seen) == [""]


def test_static_pod_is_recognized_by_shared_cpus() -> None:
    saved = replace(
        checkpoints({"uid-of-the-kubelet": {"app": "2-3"}}), pod_cpus={"uid-of-the-kubelet": 0b1100}
    )
    whole = replace(listed("web", container("app")), cpus=0b1100)
    seen = observation(replace(WEB, static=True), listed=[whole], saved=saved)

    assert lacking(Start(None), seen) == [""]


def test_known_pods_are_listed_and_not_static() -> None:
    static, ended = replace(OLD, static=True), replace(NEW, phase="Succeeded")
    seen = look(static, WEB, ended, aged("bound", 400), names=["old", "web", "new", "gone"])
    assert from_the_api_server(seen) == {("team", "web"): 200}


@dataclass(frozen=True)
class Starting:
    """A kubelet that starts: which pods it was sent, in its order, and how many it had at each call."""

    known: CreationTimes
    sent: list[KubeletPod]
    refused: frozenset[str]
    looks: list[tuple[int, int]]
    way: bool

    def look(self, at_list: int, at_pods: int) -> Observation:
        names = [pod.name for at, pod in enumerate(self.sent[:at_list]) if self._shown(at, at_list)]
        pods = own(*self.sent[:at_pods]) if self.way else self.sent
        return observation(*pods, listed=[ListedPod("team", name, ()) for name in names])

    def _shown(self, at: int, at_list: int) -> bool:
        """It lists the pod that it has just come to before it refuses it."""
        return self.sent[at].name not in self.refused or at == at_list - 1


@st.composite
def startings(draw: st.DrawFn) -> Starting:
    ages = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    before = [aged(f"known-{number}", age) for number, age in enumerate(ages)]
    after = [aged(f"new-{number}", age) for number, age in enumerate(draw(st.lists(st.integers(1, 6))))]
    left = [pod for pod in before if draw(st.booleans())]
    sent = sorted(draw(st.permutations([*left, *after])), key=lambda pod: pod.created)
    calls = sorted(draw(st.lists(st.integers(0, len(sent)), min_size=2, max_size=8)))
    return Starting(
        {(pod.namespace, pod.name): pod.created for pod in before},
        sent,
        frozenset(pod.name for pod in sent if draw(st.booleans())),
        [*zip(calls[::2], calls[1::2], strict=False)],
        draw(st.booleans()),
    )


@given(startings())
def test_list_counts_after_all_known_pods(case: Starting) -> None:
    said = lacking(Start(case.known), *(case.look(*each) for each in case.looks))
    for (at_list, _), early in zip(case.looks, said, strict=True):
        yet_to_come = [pod.name for pod in case.sent[at_list:] if (pod.namespace, pod.name) in case.known]
        assert early or not yet_to_come


@given(startings())
def test_complete_list_is_used(case: Starting) -> None:
    whole = replace(
        case, way=True, known={name: at for name, at in case.known.items() if _was_sent(case, name)}
    )
    every = whole.look(len(case.sent), len(case.sent))
    assert lacking(Start(whole.known), every, every)[1] == ""


def _was_sent(case: Starting, name: tuple[str, str]) -> bool:
    return name[1] in {pod.name for pod in case.sent}
