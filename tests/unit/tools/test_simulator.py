"""The simulator of nodes: its command line, and kubelets that refuse pods as real ones do."""

from typing import Any

import pytest

from tests.worlds.notation import table
from tools.clusters.sim.__main__ import fleet, main
from tools.clusters.sim.accounts import held, refusal, requests

Json = dict[str, Any]
GPU, NIC = "nvidia.com/gpu", "example.com/nic"

INVALID = [
    ("no such shape", "--shape tiny=1", "want numbers of nodes of two-by-four"),
    ("no number", "--shape small", "invalid fleet value: 'small'"),
    ("no node", "--shape small=0", "'small=0': want numbers"),
    ("programs beside own nodes", "--kubeconfig a --with scheduler", "not allowed with argument"),
    ("copy of a given kubeconfig", "--kubeconfig a --write-kubeconfig b", "--write-kubeconfig: not allowed"),
    ("late topologies of real kubelets", "--kubelets v1.37.2 --delay 9", "argument --delay: not allowed"),
    ("kubeconfig", "--kubeconfig /nowhere", "there is no kubeconfig at /nowhere"),
]


def test_numbers_of_shapes_name_the_nodes() -> None:
    names = [("small-00", "small"), ("small-01", "small"), ("two-by-four-00", "two-by-four")]
    assert fleet("small=2,two-by-four=1") == names


@pytest.mark.parametrize(("arguments", "error"), table(INVALID))
def test_invalid_arguments_exit_with_2(
    arguments: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    assert error in capsys.readouterr().err


def container(name: str = "c", *, requested: Json | None = None, **more: object) -> Json:
    return {"name": name, "resources": {"requests": requested or {}}, **more}


def cpus(number: str, **more: object) -> Json:
    return {**container(requested={"cpu": number}), **more}


def pod(*containers: Json, **spec: object) -> Json:
    return {"spec": {"containers": list(containers), **spec}}


def short(of: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    figures = f"{of}, requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{of}", f"Node didn't have enough resource: {figures}"


NODE = {"cpu": 8000, "memory": 2**34, "pods": 3, "ephemeral-storage": 2**40, GPU: 2}
FULL = [pod(cpus("3")), pod(container(requested={"cpu": "3500m", GPU: "2"}))]
SHORT = [
    # what is requested                              of a node with these pods
    ("exactly what is left", {"cpu": "1500m"}, FULL, None),
    ("a thousandth more", {"cpu": "1501m"}, FULL, short("cpu", 1501, 6500, 8000)),
    ("a device that is taken", {GPU: "1"}, FULL, short(GPU, 1, 2, 2)),
    ("a resource that the node does not know", {NIC: "5"}, [], None),
    ("the first of two", {"cpu": "9", "memory": "17Gi"}, [], short("cpu", 9000, 0, 8000)),
    ("one pod too many", {}, [pod(container())] * 3, short("pods", 1, 3, 3)),
]


@pytest.mark.parametrize(("requested", "others", "expected"), table(SHORT))
def test_first_short_resource_is_named(requested: Json, others: list[Json], expected: object) -> None:
    assert refusal(pod(container(requested=requested)), others, NODE) == expected


SIDECAR = cpus("1", restartPolicy="Always")
NEEDED = [
    # the containers of a pod, and its CPUs in thousandths
    ("a larger init container", pod(cpus("2"), initContainers=[cpus("5"), cpus("1")]), 5000),
    ("an init container beside a sidecar", pod(cpus("2"), initContainers=[SIDECAR, cpus("4")]), 5000),
    ("overhead comes on top", pod(cpus("2"), overhead={"cpu": "250m"}), 2250),
    ("the pod as a whole", pod(cpus("2"), resources={"requests": {"cpu": "6"}}), 6000),
    ("a limit without a request", pod({"name": "c", "resources": {"limits": {"cpu": "3"}}}), 3000),
]


@pytest.mark.parametrize(("requesting", "expected"), table(NEEDED))
def test_pod_requests_are_those_needed_at_once(requesting: Json, expected: int) -> None:
    assert requests(requesting)["cpu"] == expected


def test_pod_holds_what_its_running_containers_were_given() -> None:
    given = {
        "ended": {"amounts": {"0": {"cpu": 4000}}},
        "sidecar": {"amounts": {"1": {GPU: 1}}},
        "a": {"amounts": {"0": {"cpu": 2000, GPU: 1}}},
        "b": {"amounts": {"0": {"cpu": 1000}, "0,1": {"memory": 8}}},
        "shares": {"affinity": None, "preferred": True},
    }
    inits = [container("sidecar", restartPolicy="Always"), container("ended")]
    made = pod(container("a"), container("b"), container("shares"), initContainers=inits)
    answer = {"containers": given, "shared": {"amounts": {"1": {"cpu": 500}}}}
    expected = {(0,): {"cpu": 3000, GPU: 1}, (0, 1): {"memory": 8}, (1,): {"cpu": 500, GPU: 1}}
    assert held(made, answer) == expected
