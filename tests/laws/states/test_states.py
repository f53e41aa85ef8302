"""Every state that docs/reference/admission.md lists, on a snapshot, asked of all three programs."""

import json
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import yaml
from click.testing import CliRunner

from kubectl_numa.cli import program
from numalign.kube.decode import shapes
from numalign.kube.files import documents as files
from numalign.kube.files import policy, snapshot
from numalign.kube.files.policy import NO_POLICY, ClusterPolicy
from numalign.model.node import node_class
from numalign.shapes import ShapeHistory
from tests.laws.states.machines import Json, documents
from tests.laws.states.page import excluded_classes, quotes, rows, scorer_answer, webhook_answer
from tests.laws.states.states import LARGE_NAMES, STATES, State
from tests.worlds.scorer import Scorer
from tests.worlds.webhook import Caller, Webhook

every_state = pytest.mark.parametrize("state", STATES, ids=[one.name for one in STATES])


# The page.


def test_the_page_lists_just_these_states() -> None:
    assert [*rows()] == [one.name for one in STATES]


def test_a_misquoted_message_is_noticed() -> None:
    answer = "denied: `2 have at most 4 GPUs`"
    assert quotes("denied: `2 have at most ... GPUs`", answer)
    assert not quotes("denied: `2 have 4 GPUs`", answer)
    assert not quotes("warning: `2 have at most 4 GPUs`", answer)


# The webhook.


@every_state
async def test_a_webhook_that_saw_the_cluster_change(state: State, tmp_path: Path) -> None:
    webhook = webhook_of(state, tmp_path)
    for machines in (state.before, state.machines):
        webhook.put_bytes(orjson.dumps(documents(machines)))
        await webhook.load()

    async with webhook.open(unknown_nodes=state.unknown_nodes) as caller:
        await expect(state, caller)


@every_state
async def test_a_webhook_that_starts_now(state: State, tmp_path: Path) -> None:
    webhook = webhook_of(state, tmp_path)
    webhook.put_bytes(orjson.dumps(left_behind(state)))
    await webhook.load()

    async with webhook.open(unknown_nodes=state.unknown_nodes) as caller:
        await expect(state, caller)


async def expect(state: State, caller: Caller) -> None:
    """Ask both endpoints for the answers of the state."""
    mutated = await caller.ask("/mutate", state.pod)
    validated = await caller.ask("/validate", state.pod)

    assert mutated["allowed"]
    assert ("patch" in mutated) is state.patched
    assert validated["allowed"] is (state.refused is None)
    if state.refused:
        assert state.refused in validated["status"]["message"]
    expected = [state.warned] if state.warned else []
    warnings = validated.get("warnings", [])
    assert len(warnings) == len(expected), warnings
    assert all(part in text for part, text in zip(expected, warnings, strict=True)), warnings

    row = rows()[state.name]
    assert row.excluded == excluded_classes(mutated)
    answer = webhook_answer(validated)
    assert quotes(row.webhook, answer), answer


def webhook_of(state: State, folder: Path) -> Webhook:
    """A webhook that is told of the state's policy file, and of nothing else yet."""
    webhook = Webhook(folder / "cluster.json")
    webhook.policy.now = written(state)
    return webhook


# kubectl numa.


@every_state
def test_the_command_line(state: State, tmp_path: Path) -> None:
    cluster, pod, policy_file = (tmp_path / name for name in ("cluster.json", "pod.json", "policy.yaml"))
    cluster.write_bytes(orjson.dumps(left_behind(state)))
    pod.write_bytes(orjson.dumps(state.pod))
    policy_file.write_text(yaml.safe_dump(dict(state.policy)))

    run = CliRunner().invoke(
        program,
        [
            *("check", "-o", "json", "-f", str(pod), "--snapshot", str(cluster)),
            *("--policy", str(policy_file), "--unknown-nodes", state.unknown_nodes),
        ],
    )

    (result,) = json.loads(run.stdout)
    assert result["result"] == state.check
    assert run.exit_code == (1 if state.refused else 0)
    assert (state.refused or "") in (result["refusal"] or "")
    assert [text for text in result["warnings"] if (state.warned or "") in text] == result["warnings"]
    assert bool(result["warnings"]) is (state.warned is not None)


# The scorer.


@every_state
async def test_the_scorer(state: State) -> None:
    scorer = Scorer()
    scorer.policy.now = written(state)
    pile = snapshot.build(files.objects([left_behind(state)]), shape_history=book())
    await scorer.state.update_snapshot(pile.snapshot())

    async with scorer.open() as caller:
        ranked = await caller.ask("/v1/rank", {"pod": state.pod})

    answer = {one["name"]: one for one in ranked["nodes"]}
    assert sorted(answer) == sorted(one.name for one in state.machines)
    assert tuple(name for name, one in sorted(answer.items()) if one["fits"]) == state.fits
    row = rows()[state.name]
    of_large = scorer_answer(ranked["nodes"], LARGE_NAMES)
    assert quotes(row.scorer, of_large), of_large
    lasting = [name for name, one in answer.items() if not one["fits"] and not one["permanent"]]
    assert tuple(sorted(lasting)) == state.waits


# What there is.


def written(state: State) -> ClusterPolicy:
    """The policy file of a state, read."""
    return policy.parse(yaml.safe_dump(dict(state.policy)).encode()) if state.policy else NO_POLICY


def book() -> ShapeHistory:
    """An empty one."""
    return ShapeHistory(wall=time.time)


def left_behind(state: State) -> Json:
    """The cluster as it is now, with what a controller wrote into it before: class labels, and shapes."""
    seen = book()
    result = snapshot.build(files.objects([documents(state.before)]), shape_history=seen).snapshot()
    classes = {node.name: node_class(node) for node in result.nodes}
    uids = {one.name: one.uid for one in state.before}
    machines = [
        replace(one, node_class=classes.get(one.name)) if uids.get(one.name) == one.uid else one
        for one in state.machines
    ]
    metadata = {"name": shapes.NAME, "namespace": "numalign-system"}
    data = shapes.encode(seen.to_remember())
    memory = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return documents(machines, memory)
