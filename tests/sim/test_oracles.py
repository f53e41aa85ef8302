"""What becomes of a simulation whose managers do not do as they should; a script stands in their place."""

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.oracle.managers import Hung, Managers
from harness.sim.kubelet import as_named_by_uid
from harness.sim.oracles import Oracle, SimulationError, oracles
from harness.sim.shapes import SimNode
from tests.sim.stand_ins import pod

Json = dict[str, Any]

SCRIPT = """#!{python} -SE
import json, sys
for text in sys.stdin:
    line = json.loads(text)
    if "node" in line:
        name = line["node"]["name"]
        answer = {{"refused": "too many zones"}} if name == "odd" else {{"node": name}}
    elif "create" in line:
        name = line["create"]["metadata"]["name"]
        if name == "uid-ends":
            sys.exit("no memory")
        answer = {{"panicked": "nil map"}} if name == "uid-panics" else {{"pod": name, "admitted": True}}
    else:
        continue
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    script = tmp_path / "managers"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    return script


async def test_every_node_has_managers_of_its_own(binary: Path) -> None:
    machines = [SimNode("a", "small"), SimNode("b", "two-by-four")]
    async with oracles(machines, binary=binary) as managers:
        assert managers.keys() == {"a", "b"}
        for one in managers.values():
            assert await one.create(as_named_by_uid(pod("x"))) == {"pod": "uid-x", "admitted": True}
            await one.delete("uid-x")


async def test_a_kubelet_that_does_not_start_ends_it(binary: Path) -> None:
    with pytest.raises(SimulationError, match="the kubelet of odd does not start: too many zones"):
        async with oracles([SimNode("fine", "small"), SimNode("odd", "small")], binary=binary):
            pass


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("panics", "the kubelet of a panicked: nil map", id="panic"),
        pytest.param("ends", "the managers of a: exit code 1: no memory", id="end"),
    ],
)
async def test_managers_that_fall_over_a_pod_end_it(binary: Path, name: str, said: str) -> None:
    async with oracles([SimNode("a", "small")], binary=binary) as managers:
        with pytest.raises(SimulationError, match=said):
            await managers["a"].create(as_named_by_uid(pod(name)))


class Silent(Managers):
    """Managers that never answer."""

    def create(self, pod: Mapping[str, Any]) -> Json:
        """Gives up at once."""
        raise Hung(f"no answer to {pod['metadata']['name']} in 30 s")


async def test_managers_that_do_not_answer_end_it(binary: Path) -> None:
    with Silent(binary) as silent, ThreadPoolExecutor() as threads:
        oracle = Oracle(SimNode("a", "small"), silent, threads)
        with pytest.raises(SimulationError, match="the managers of a: no answer to uid-x in 30 s"):
            await oracle.create(as_named_by_uid(pod("x")))


def test_managers_know_a_pod_by_its_uid_and_what_decides() -> None:
    asked = as_named_by_uid(pod("x", annotations={"a": "b"}))
    assert asked["metadata"] == {"name": "uid-x", "namespace": "team", "uid": "uid-x"}
    assert asked["status"] == {}
    told = pod("x")
    told["status"]["qosClass"] = "Burstable"
    assert as_named_by_uid(told)["status"] == {"qosClass": "Burstable"}
