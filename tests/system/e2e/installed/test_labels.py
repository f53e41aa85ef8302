"""Nodes get the label of their class, and pods are kept from the classes that could never align them."""

from http import HTTPStatus

import pytest

from numalign.kube.client import Patch
from tests.system.e2e.clusters import Cluster, admitted, excluded
from tests.system.eventually import eventually
from tools.clusters import fleets, shipped
from tools.clusters.api_requests import gpus, patch, rehearse

pytestmark = pytest.mark.asyncio(loop_scope="session")

PUBLISHED = [kind for kind, shape in fleets.SHAPES.items() if shape.policy]


async def test_dry_run_lists_the_labels_that_nodes_would_get(rehearsal: str) -> None:
    published = [name for kind in PUBLISHED for name in fleets.names(kind)]
    assert [name for name in published if name not in rehearsal] == []
    assert [name for name in fleets.names("new") if name in rehearsal] == []


async def test_pods_avoid_the_classes_of_shapes_that_never_fit(cluster: Cluster) -> None:
    now = await cluster.classes()
    assert len(now) >= 50
    found = {kind: {now[name] for name in fleets.names(kind)} for kind in fleets.SHAPES}
    # Nodes without a topology have none.
    assert found.pop("new") == {None}
    assert {len(classes) for classes in found.values()} == {1}
    assert len(set().union(*found.values()) - {None}) == len(PUBLISHED) == len(found)

    answer = await rehearse(cluster.api, asks=gpus(4))
    assert admitted(answer)
    assert excluded(answer) == set().union(
        *(found[kind] for kind in found if kind not in fleets.WITH_FOUR_GPUS)
    )


async def test_nothing_but_the_label_of_a_node_is_changed(cluster: Cluster) -> None:
    [node] = [node for node in await cluster.store.list("v1", "Node") if node["metadata"]["name"] == "dgx-00"]
    as_made = fleets.node("dgx-00", fleets.SHAPES["dgx"])
    assert node["metadata"]["labels"].items() >= as_made["metadata"]["labels"].items()
    assert node["metadata"]["labels"].keys() - as_made["metadata"]["labels"].keys() == {shipped.LABEL}
    assert node["status"]["allocatable"] == as_made["status"]["allocatable"]
    [ours] = [entry for entry in node["metadata"]["managedFields"] if entry["manager"].startswith("numalign")]
    assert ours["fieldsV1"] == {"f:metadata": {"f:labels": {f"f:{shipped.LABEL}": {}}}}


async def test_a_label_follows_when_a_node_becomes_another(cluster: Cluster) -> None:
    async with cluster.guest("renewed", fleets.SHAPES["cpu"]):
        await cluster.until_labelled("renewed")
        before = (await cluster.classes())["renewed"]
        await cluster.join("renewed", fleets.SHAPES["hgx"])
        now = await eventually(
            cluster.classes, lambda now: now["renewed"] not in {None, before}, "the label was another"
        )
    assert (before, now["renewed"]) == (now["cpu-00"], now["hgx-00"])


async def test_changed_class_label_is_restored(cluster: Cluster) -> None:
    label = (await cluster.classes())["cpu-00"]
    mistaken = {"metadata": {"labels": {shipped.LABEL: "mistaken"}}}
    answer = await patch(cluster.api, "/api/v1/nodes/cpu-00", mistaken, how=Patch.MERGE)
    assert answer.code == HTTPStatus.OK, answer.body
    await eventually(cluster.classes, lambda now: now["cpu-00"] == label, "the label was right again")
