"""A pod of the list is the one of its name, as far as nothing speaks against it."""

from dataclasses import replace

import pytest

from agent.identities import identified
from agent.observation import AskingContainer, Checkpoints, ListedContainer, MemoryBlock, Observation
from numalign.model.machine import read_list, render_list
from tests.unit.agent.observations import GPU, checkpoints, container, gpus, listed, memory, observation, pod
from tests.worlds.notation import table

WEB, OTHER = listed("web", container("main", "1-2")), listed("web", container("main", "5-6"))
ONE, TWO = pod("1", "web"), pod("2", "web")
BARE = listed("web", container("main"))
APART = checkpoints({"1": {"main": "1-2"}, "2": {"main": "5-6"}})
BY_DEVICE = checkpoints(devices={"1": {"main": [gpus("gpu0")]}, "2": {"main": [gpus("gpu1")]}})
SECOND = listed("web", container("main", devices=[gpus("gpu1")]))
INIT = pod("1", "web", init=["setup"])
WHOLE = replace(
    listed("whole", container("own", "1"), container("one"), container("two")),
    cpus=read_list("1-3"),
    memory=(memory(2, 0),),
)
"""A pod as kubelets list it since 1.37: the last two containers share what is not the first one's."""
SHARED = {"own": "1", "one": "2-3", "two": "2-3"}
# A pod that was served as a whole holds more than older kubelets list, and only checkpoints know how much.
UNLISTED = listed("whole", container("one", "1-2"), container("two", "1-2"))


def whole(cpus: str = "1-3", uid: str = "1", **containers: str) -> Checkpoints:
    return replace(checkpoints({uid: {**SHARED, **containers}}), pod_cpus={uid: read_list(cpus)})


ASKS = AskingContainer("main", cpus=True, memory=True, resources=frozenset({GPU, "ephemeral-storage"}))
GIVEN = container("main", "1-2", blocks=[memory(1, 0)], devices=[gpus("gpu0")])
# A kubelet lists a pod as soon as it hears of it, and gives it one thing after another.
ASKING = replace(ONE, phase="Pending", asking=(ASKS,))


def asking(given: ListedContainer) -> Observation:
    return observation(ASKING, listed=[listed("web", given)])


UNMANAGED = replace(
    asking(container("main")), kubelet={}, allocatable=replace(observation().allocatable, devices=())
)


@pytest.mark.parametrize(("seen", "uids"), table([
    # whose entries are listed                   what is seen, the UIDs of the entries
    ("the only pod of the name",                 observation(ONE, pod("2", "db"), listed=[WEB]), ["1"]),
    ("the predecessor of a pod with other CPUs", observation(TWO, listed=[WEB], saved=APART), [None]),
    ("two of one name and other CPUs", observation(TWO, ONE, listed=[WEB, OTHER], saved=APART), ["1", "2"]),
    ("one of two of other CPUs",                 observation(TWO, ONE, listed=[OTHER], saved=APART), ["2"]),
    ("one of two of other devices", observation(ONE, TWO, listed=[SECOND], saved=BY_DEVICE), ["2"]),
    ("one of two without resources", observation(ONE, TWO, listed=[BARE], saved=checkpoints()), [None]),
    ("twice one pod", observation(ONE, listed=[WEB, WEB], saved=APART), [None, None]),
    # Kubelets before 1.34 go on listing them.
    ("a pod that succeeded",                     observation(pod("1", "web", "Succeeded"), listed=[WEB]), []),
    ("the successor of a pod that failed",
        observation(pod("1", "web", "Failed"), pod("2", "web", "Pending"), listed=[WEB]), ["2"]),
    ("one whose init resources are unread",      observation(INIT, listed=[WEB]), [None]),
    ("one that shares CPUs, unread",             observation(pod("1", "whole"), listed=[UNLISTED]), [None]),
    ("a whole pod", observation(pod("1", "whole"), listed=[WHOLE], saved=whole()), ["1"]),
    ("a whole pod of other CPUs",
        observation(pod("2", "whole"), listed=[WHOLE], saved=whole("1-3,5", "2", own="5")), [None]),
    ("a whole pod of more CPUs", observation(pod("1", "whole"), listed=[WHOLE], saved=whole("1-4")), [None]),
    ("more CPUs of a container",
        observation(pod("1", "whole"), listed=[WHOLE], saved=whole(own="1-2")), [None]),
    ("shared CPUs that are not the pod's",
        observation(pod("1", "whole"), listed=[WHOLE], saved=whole(one="4")), [None]),
    ("a pod with all that it asks for",          asking(GIVEN), ["1"]),
    ("a pod that lacks CPUs",                    asking(replace(GIVEN, cpus=0)), [None]),
    ("a pod that lacks memory",                  asking(replace(GIVEN, memory=())), [None]),
    ("a pod that lacks devices",                 asking(replace(GIVEN, devices=())), [None]),
    ("a pod that lacks a container",             asking(replace(GIVEN, name="other")), [None]),
    ("a pod that asks what no manager gives",    UNMANAGED, ["1"]),
    # A kubelet that lost its checkpoints gives it no device again.
    ("a running pod that lacks devices",
        observation(replace(ONE, phase="Running", asking=(ASKS,)), listed=[WEB]), ["1"]),
]))  # fmt: skip
def test_entries_are_those_of(seen: Observation, uids: list[str | None]) -> None:
    assert [each.pod.uid if each.pod else None for each in identified(seen)] == uids


@pytest.mark.parametrize(("seen", "cpus", "blocks"), table([
    # of whom                          what is seen, the CPUs and the memory
    ("an unknown pod",                 observation(listed=[WEB]), "1-2", ()),
    ("a pod with shared CPUs",         observation(pod("1", "whole"), listed=[UNLISTED],
        saved=replace(whole(one="1-2", two="1-2"), pod_memory={"1": (memory(2, 0),)})),
        "1-3", (memory(2, 0),)),
    ("a whole pod", observation(pod("1", "whole"), listed=[WHOLE], saved=whole()), "1-3", (memory(2, 0),)),
    ("a whole pod, unread", observation(pod("1", "whole"), listed=[WHOLE]), "1-3", (memory(2, 0),)),
]))  # fmt: skip
def test_resources_held_by(seen: Observation, cpus: str, blocks: tuple[MemoryBlock, ...]) -> None:
    [found] = identified(seen)
    assert (found.pod, render_list(found.cpus), found.memory) == (next(iter(seen.pods), None), cpus, blocks)


def test_finished_init_containers_keep_cpus_and_devices() -> None:
    web = listed("web", container("main", "1", devices=[gpus("gpu0")]))
    saved = checkpoints(
        {"1": {"setup": "1-2", "main": "1"}}, {"1": {"setup": [gpus("gpu0", "gpu1")], "main": [gpus("gpu0")]}}
    )
    [found] = identified(observation(pod("1", "web", init=["setup"]), listed=[web], saved=saved))
    assert render_list(found.cpus) == "1-2"
    assert found.devices == (gpus("gpu0"), gpus("gpu1"))
