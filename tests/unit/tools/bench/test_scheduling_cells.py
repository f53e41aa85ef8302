"""What a scheduler is told in each way of scheduling."""

from pathlib import Path

import pytest
import yaml

from tools.bench.scheduling_cells import BASE, CELLS, Who
from tools.clusters.shipped import DEPLOY

URL = "http://127.0.0.1:1"
FILE = Path("kubeconfig")


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_compared_with_the_same_pods_and_nodes(name: str) -> None:
    cell = CELLS[name]
    beside = {who: CELLS[other] for who, other in ((Who.EMPTY, cell.empty), (Who.NOBODY, cell.none)) if other}
    for who, other in beside.items():
        assert (other.who, other.pods, other.share) == (who, cell.pods, cell.share)


@pytest.mark.parametrize("name", [name for name, cell in CELLS.items() if cell.who is Who.NUMALIGN])
def test_the_empty_extender_is_asked_the_same(name: str) -> None:
    cell = CELLS[name]
    if cell.empty:
        # Nothing is ever evicted here, so nobody is asked about that.
        assert set(CELLS[cell.empty].verbs) == {*cell.verbs} - {"preempt"}
        assert CELLS[cell.empty].whole == cell.whole


def test_what_is_measured_as_the_default_is_what_is_shipped() -> None:
    shipped = yaml.safe_load((DEPLOY / "schedulers" / "kubeadm" / "bind.yaml").read_text())["extenders"][0]
    [told] = BASE["numalign-bind"].configuration(FILE, URL)["extenders"]
    alike = {
        key for key in shipped if key not in {"urlPrefix", "enableHTTPS", "tlsConfig", "managedResources"}
    }
    assert {key: told[key] for key in alike} == {key: shipped[key] for key in alike}
