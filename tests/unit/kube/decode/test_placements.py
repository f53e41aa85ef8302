"""What is recorded of a placement: zones by their names, amounts as Kubernetes writes them."""

from numalign.decision.evaluate import evaluate
from numalign.kube.decode import placements
from numalign.model.placement import Placement
from tests.worlds.notation import asks, node


def test_zones_go_by_name_and_amounts_are_quantities() -> None:
    sparse = node("cpu=4 mem=8Gi", "cpu=16 mem=32Gi gpu=2", policy="single-numa-node", ids=(0, 3))
    verdict = evaluate(sparse, asks("cpu=8 mem=1536Mi gpu=1"))
    assert placements.render(sparse, verdict.placement) == [
        {"zones": ["node-3"], "amount": {"cpu": "8", "memory": "1536Mi", "nvidia.com/gpu": "1"}}
    ]


def test_a_block_of_memory_across_zones_is_one_entry() -> None:
    wide = node("cpu=8 mem=8Gi", "cpu=8 mem=8Gi", policy="restricted")
    recorded = placements.render(wide, evaluate(wide, asks("cpu=12 mem=12Gi")).placement)
    assert {"zones": ["node-0", "node-1"], "amount": {"memory": "12Gi"}} in recorded


def test_a_pod_without_resources_has_no_entries() -> None:
    assert placements.render(node("cpu=8 mem=8Gi"), Placement()) == []
