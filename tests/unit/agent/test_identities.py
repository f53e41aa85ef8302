"""A pod of the list is the one of its name, as far as nothing speaks against it."""

from dataclasses import replace

import pytest

from agent.identities import identified
from agent.observation import AskingContainer, ListedContainer, Observation
from numalign.model.machine import read_list, render_list
from tests.unit.agent.observations import GPU, checkpoints, container, gpus, listed, memory, observation, pod


def uids(seen: Observation) -> list[str | None]:
    return [each.pod.uid if each.pod else None for each in identified(seen)]


def test_a_name_that_one_pod_has_tells_who_it_is() -> None:
    web = listed("web", container("main", "1-2"))
    assert uids(observation(pod("1", "web"), pod("2", "db"), listed=[web])) == ["1"]


def test_what_the_checkpoints_say_otherwise_is_another_pod() -> None:
    web = listed("web", container("main", "1-2"))
    saved = checkpoints({"2": {"main": "5-6"}})
    assert uids(observation(pod("2", "web"), listed=[web], saved=saved)) == [None]


def test_pods_of_one_name_differ_by_their_resources() -> None:
    old, new = listed("web", container("main", "1-2")), listed("web", container("main", "5-6"))
    saved = checkpoints({"1": {"main": "1-2"}, "2": {"main": "5-6"}})
    both = [pod("2", "web"), pod("1", "web")]
    assert uids(observation(*both, listed=[old, new], saved=saved)) == ["1", "2"]
    assert uids(observation(*both, listed=[new], saved=saved)) == ["2"]


def test_devices_tell_them_apart_as_well() -> None:
    held = {"1": {"main": [gpus("gpu0")]}, "2": {"main": [gpus("gpu1")]}}
    web = listed("web", container("main", devices=[gpus("gpu1")]))
    both = [pod("1", "web"), pod("2", "web")]
    assert uids(observation(*both, listed=[web], saved=checkpoints(devices=held))) == ["2"]


@pytest.mark.parametrize("saved", [None, checkpoints()], ids=["unread", "of neither"])
def test_indistinguishable_pods_of_one_name_are_left_out(saved: None) -> None:
    web = listed("web", container("main"))
    assert uids(observation(pod("1", "web"), pod("2", "web"), listed=[web], saved=saved)) == [None]


def test_two_entries_of_one_name_are_never_one_pod() -> None:
    web = listed("web", container("main", "1-2"))
    saved = checkpoints({"1": {"main": "1-2"}})
    assert uids(observation(pod("1", "web"), listed=[web, web], saved=saved)) == [None, None]
    assert uids(observation(pod("1", "web"), listed=[web, web])) == [None, None]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_hold_nothing(phase: str) -> None:
    """Kubelets before 1.34 go on listing them."""
    web = listed("web", container("main", "1-2"))
    assert uids(observation(pod("1", "web", phase), listed=[web])) == []
    assert uids(observation(pod("1", "web", phase), pod("2", "web", "Pending"), listed=[web])) == ["2"]


def test_unknown_pod_holds_its_listed_amounts() -> None:
    web = listed("web", container("main", "1-2"))
    [found] = identified(observation(listed=[web]))
    assert (found.pod, render_list(found.cpus)) == (None, "1-2")


def test_finished_init_containers_keep_cpus_and_devices() -> None:
    web = listed("web", container("main", "1", devices=[gpus("gpu0")]))
    saved = checkpoints(
        {"1": {"setup": "1-2", "main": "1"}}, {"1": {"setup": [gpus("gpu0", "gpu1")], "main": [gpus("gpu0")]}}
    )
    [found] = identified(observation(pod("1", "web", init=["setup"]), listed=[web], saved=saved))

    assert render_list(found.cpus) == "1-2"
    assert found.devices == (gpus("gpu0"), gpus("gpu1"))


def test_without_checkpoints_init_resources_are_unknown() -> None:
    web = listed("web", container("main", "1"))
    assert uids(observation(pod("1", "web", init=["setup"]), listed=[web])) == [None]


def test_shared_cpus_come_from_checkpoints() -> None:
    whole = listed("whole", container("one", "1-2"), container("two", "1-2"))
    given = checkpoints({"1": {"one": "1-2", "two": "1-2"}})
    saved = replace(given, pod_cpus={"1": read_list("1-3")}, pod_memory={"1": (memory(2, 0),)})

    assert uids(observation(pod("1", "whole"), listed=[whole])) == [None]
    (kept,) = identified(observation(pod("1", "whole"), listed=[whole], saved=saved))
    assert render_list(kept.cpus) == "1-3"


WHOLE = replace(
    listed("whole", container("own", "1"), container("one"), container("two")),
    cpus=read_list("1-3"),
    memory=(memory(2, 0),),
)
"""A pod as kubelets list it since 1.37: the last two containers share what is not the first one's."""

SHARED = {"own": "1", "one": "2-3", "two": "2-3"}


def test_pod_level_listing_is_matched_by_checkpoints() -> None:
    saved = replace(checkpoints({"1": SHARED}), pod_cpus={"1": read_list("1-3")})
    gone = replace(checkpoints({"2": {**SHARED, "own": "5"}}), pod_cpus={"2": read_list("1-3,5")})

    (kept,) = identified(observation(pod("1", "whole"), listed=[WHOLE], saved=saved))
    assert kept.pod == pod("1", "whole")
    assert (render_list(kept.cpus), kept.memory) == ("1-3", (memory(2, 0),))
    assert uids(observation(pod("2", "whole"), listed=[WHOLE], saved=gone)) == [None]


@pytest.mark.parametrize(
    "recorded",
    [
        pytest.param({**SHARED, "own": "1-2"}, id="more CPUs of its own"),
        pytest.param({**SHARED, "one": "4"}, id="shared CPUs that are not the pod's"),
    ],
)
def test_a_container_shares_only_what_its_pod_lists(recorded: dict[str, str]) -> None:
    saved = replace(checkpoints({"1": recorded}), pod_cpus={"1": read_list("1-3")})
    assert uids(observation(pod("1", "whole"), listed=[WHOLE], saved=saved)) == [None]


def test_other_pod_level_record_is_another_pod() -> None:
    saved = replace(checkpoints({"1": SHARED}), pod_cpus={"1": read_list("1-4")})
    assert uids(observation(pod("1", "whole"), listed=[WHOLE], saved=saved)) == [None]


def test_without_checkpoints_pod_level_listing_counts() -> None:
    (kept,) = identified(observation(pod("1", "whole"), listed=[WHOLE]))
    assert kept.pod == pod("1", "whole")
    assert (render_list(kept.cpus), kept.memory) == ("1-3", (memory(2, 0),))


ASKS = AskingContainer("main", cpus=True, memory=True, resources=frozenset({GPU, "ephemeral-storage"}))
GIVEN = container("main", "1-2", blocks=[memory(1, 0)], devices=[gpus("gpu0")])


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param(replace(GIVEN, cpus=0), id="CPUs"),
        pytest.param(replace(GIVEN, memory=()), id="memory"),
        pytest.param(replace(GIVEN, devices=()), id="devices"),
        pytest.param(replace(GIVEN, name="other"), id="a container"),
    ],
)
def test_partly_served_pod_is_not_admitted_yet(lacking: ListedContainer) -> None:
    """A kubelet lists a pod as soon as it hears of it, and gives it one thing after another."""
    asking = replace(pod("1", "web"), phase="Pending", asking=(ASKS,))
    assert uids(observation(asking, listed=[listed("web", GIVEN)])) == ["1"]
    assert uids(observation(asking, listed=[listed("web", lacking)])) == [None]


def test_a_pod_that_runs_has_all_that_it_is_given() -> None:
    """A kubelet that lost its checkpoints gives it no device again."""
    running = replace(pod("1", "web"), phase="Running", asking=(ASKS,))
    assert uids(observation(running, listed=[listed("web", container("main", "1-2"))])) == ["1"]


def test_what_no_manager_gives_out_is_not_waited_for() -> None:
    asking = replace(pod("1", "web"), phase="Pending", asking=(ASKS,))
    seen = observation(asking, listed=[listed("web", container("main"))])
    nothing = replace(seen, kubelet={}, allocatable=replace(seen.allocatable, devices=()))
    assert uids(nothing) == ["1"]
