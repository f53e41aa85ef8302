"""Whether a kubelet that has just started knows its pods already."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.observation import KubeletPod, ListedPod, Observation
from agent.starts import CreationTimes, Start, from_the_api_server
from tests.unit.agent.observations import checkpoints, container, listed, observation, pod
from tests.worlds.notation import table

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
        why, start = start.check(each)
        found.append(why)
    return found


STATIC = replace(NEW, static=True)
ENDED = replace(WEB, phase="Failed")
BOTH_OWN, BOTH = look(*own(OLD, WEB), names=["old"]), look(OLD, WEB, names=["old"])
PENDING, LEAVING = replace(OLD, phase="Pending"), replace(NEW, deleted=True)
SAVED = checkpoints({"uid-web": {"app": "2-3"}, "uid-idle": {"app": ""}})
ALONE, GONE = replace(look(), checkpoints=SAVED), replace(look(), checkpoints=checkpoints())
FOUND = replace(look(*own(WEB), names=["web"]), checkpoints=SAVED)
OWN_UID = checkpoints({"uid-of-the-kubelet": {"app": "2-3"}})
MIRROR = replace(WEB, static=True)
HOLDING = listed("web", container("app", "2-3"))
SHARED = replace(listed("web", container("app")), cpus=0b1100)
AS_WHOLE = replace(OWN_UID, pod_cpus={"uid-of-the-kubelet": 0b1100})


def young(created: int) -> Observation:
    return look(OLD, replace(NEW, created=created), names=["old", "new"])


@pytest.mark.parametrize(("known", "looks", "why"), table([
    # what is listed                     known before  looks, and why each is too early
    ("some of the known pods",           KNOWN, [look(OLD, WEB, names=["old"])], [LATE]),
    ("all known pods",                   KNOWN, [look(OLD, WEB, names=["old", "web"])], [""]),
    ("each known pod once",              KNOWN, [look(names=["old"]), look(names=["web"])], [LATE, ""]),
    ("a younger pod, so that older ones were rejected", KNOWN, [young(300)], [""]),
    ("a pod of the same second",         KNOWN, [young(200)], [LATE]),
    ("a pod of unknown age",             KNOWN, [young(0)], [LATE]),
    ("a static pod, which proves nothing", KNOWN, [look(STATIC, names=["new"])], [LATE]),
    ("no known pod of unknown age",      {("team", "web"): 0}, [look(NEW, names=["new"])], [LATE]),
    ("all but an ended pod",             KNOWN, [look(OLD, ENDED, names=["old"])], [""]),
    ("all but the successor of an ended pod", KNOWN, [look(OLD, ENDED, WEB, names=["old"])], [LATE]),
    ("all but a pod that it knows, twice", KNOWN, [BOTH_OWN, BOTH_OWN], [LATE, ""]),
    ("all but a pod of the API server, twice", KNOWN, [BOTH, BOTH], [LATE, LATE]),
    ("running pods at last", None, [look(PENDING, WEB, LEAVING), look(WEB, names=["web"])], [LATE, ""]),
    ("no pod, as none runs",             None, [look(PENDING, LEAVING)], [""]),
    ("no pod, as one is static",         None, [look(MIRROR)], [""]),
    ("pods with CPUs at last",           None, [ALONE, ALONE, FOUND], [LATE, LATE, ""]),
    ("no pod with CPUs, as it is gone",  None, [ALONE, GONE], [LATE, ""]),
    ("no pod with CPUs, but none is awaited", {}, [ALONE], [""]),
    ("a static pod by its CPUs",         None, [observation(MIRROR, listed=[HOLDING], saved=OWN_UID)], [""]),
    ("a static pod with shared CPUs",    None, [observation(MIRROR, listed=[SHARED], saved=AS_WHOLE)], [""]),
]))  # fmt: skip
def test_new_kubelet_lists(known: CreationTimes | None, looks: list[Observation], why: list[str]) -> None:
    assert lacking(Start(known), *looks) == why


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
    known = {(pod.namespace, pod.name): pod.created for pod in before}
    refused = frozenset(pod.name for pod in sent if draw(st.booleans()))
    return Starting(known, sent, refused, [*zip(calls[::2], calls[1::2], strict=False)], draw(st.booleans()))


@given(startings())
def test_list_counts_after_all_known_pods(case: Starting) -> None:
    said = lacking(Start(case.known), *(case.look(*each) for each in case.looks))
    for (at_list, _), early in zip(case.looks, said, strict=True):
        yet_to_come = [pod.name for pod in case.sent[at_list:] if (pod.namespace, pod.name) in case.known]
        assert early or not yet_to_come


@given(startings())
def test_complete_list_is_used(case: Starting) -> None:
    sent = {pod.name for pod in case.sent}
    whole = replace(case, way=True, known={name: at for name, at in case.known.items() if name[1] in sent})
    every = whole.look(len(case.sent), len(case.sent))
    assert lacking(Start(whole.known), every, every)[1] == ""
