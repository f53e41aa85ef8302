"""What would become of a pod: what the webhook and each node say, and where replicas would come to."""

import asyncio
from dataclasses import replace

import pytest
import yaml

from numalign.kube.cluster_state import Snapshot
from numalign.kube.files.policy import ClusterPolicy
from numalign.map import explained_nodes, what_if
from numalign.map.pods_on_node import everybody
from numalign.map.state import MapState
from numalign.map.views import WhatIfAnswer, WhatIfResult
from numalign.map.what_if import WhatIf
from numalign.model.errors import BadInput
from numalign.model.intent import Policy
from tests.worlds.notation import GPU, bag, node
from tests.worlds.scorer import (
    BOTH,
    EMPTY,
    FOUR,
    HALF,
    LOOSE,
    SINGLE,
    SMALL,
    Raw,
    Scorer,
    on,
    raw,
    running,
)

FITS, NOT_NOW, NEVER = WhatIfAnswer.FITS, WhatIfAnswer.NOT_NOW, WhatIfAnswer.NEVER


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()


async def ask(scorer: Scorer, made: Raw, replicas: int | None = None, **told: object) -> WhatIfResult:
    """What would become of an object, for somebody who sees everything."""
    question = WhatIf(MapState(scorer.state))
    visible = told.pop("visible", everybody)
    assert callable(visible)
    return await question.ask(yaml.safe_dump(made).encode(), visible=visible, replicas=replicas)


def deployment(pod: Raw, **spec: object) -> Raw:
    """A Deployment of such pods."""
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"template": template, **spec},
    }


def answers(result: WhatIfResult) -> dict[str, WhatIfAnswer]:
    """What each node says to the first template."""
    return {each.name: each.answer for each in result.templates[0].nodes}


async def test_each_node_says_whether_the_pod_fits_and_why_not(scorer: Scorer) -> None:
    await scorer.know({"empty": EMPTY, "full": EMPTY, "small": SMALL}, unknown=["bare"])
    scorer.see(running(on("full", raw("cpu=16 mem=1Gi gpu=4", policy=None), record=BOTH)))

    result = await ask(scorer, raw(FOUR))

    (template,) = result.templates
    assert answers(result) == {"empty": FITS, "full": NOT_NOW, "small": NEVER}
    fits, full_now, too_small = template.nodes
    assert (fits.reason, fits.zones, fits.score is not None) == ("", (0,), True)
    assert [(part.zones, part.amounts) for part in fits.placement] == [
        (("node-0",), bag("cpu=4 mem=1Gi gpu=1"))
    ]
    assert full_now.reason.startswith('container "c0": the node has no cpu and no nvidia.com/gpu free')
    assert (too_small.score, too_small.placement) == (None, ())
    assert template.counts == {FITS: 1, NOT_NOW: 1, NEVER: 1, WhatIfAnswer.NOT_ANSWERED: 0}
    assert template.unknown == ("bare",)
    assert (template.intent.policy, template.total[GPU]) == (Policy.SINGLE_NUMA_NODE, 1)


async def test_the_webhook_answers_first(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"enforce": SINGLE})

    refused = (await ask(scorer, raw(FOUR, policy=None))).templates[0].admission
    hopeless = (await ask(scorer, raw("cpu=64 mem=1Gi"))).templates[0].admission
    admitted = (await ask(scorer, raw(FOUR))).templates[0].admission

    assert (refused.denied, hopeless.denied, admitted.denied) == (True, True, False)
    assert refused.refusal
    assert "enforce" in refused.refusal or SINGLE in refused.refusal


@pytest.mark.parametrize(("server", "burstable"), [(36, True), (37, False)])
async def test_a_pod_is_completed_as_the_api_server_would(
    scorer: Scorer, server: int, *, burstable: bool
) -> None:
    await scorer.know({"a": EMPTY})
    scorer.state.snapshot = replace(scorer.state.snapshot or Snapshot(), server=server)
    made = raw("cpu=2 mem=1Gi")
    made["spec"]["resources"] = {"requests": {"cpu": "2", "memory": "1Gi"}}

    warnings = (await ask(scorer, made)).templates[0].admission.warnings

    assert any("(the pod is Burstable)" in warning for warning in warnings) is burstable


async def test_what_a_namespace_asks_is_told_to_those_who_see_it_alone(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"enforce": SINGLE})

    result = await ask(scorer, raw(FOUR, policy=None), visible=lambda _: False)

    (template,) = result.templates
    assert not template.admission.denied
    assert template.notes == ("the settings of its namespace are left out: you may not list pods there",)


async def test_a_pod_in_an_exempt_namespace_is_asked_about_all_the_same(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"admission": "disabled"})

    (template,) = (await ask(scorer, raw(FOUR))).templates

    assert template.admission.exempt
    assert template.nodes[0].answer is FITS


async def test_replicas_are_placed_one_after_the_other_until_none_fits(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(running(on("a", raw(FOUR, name="there"), record=HALF)))

    result = await ask(scorer, deployment(raw(FOUR)), 20)

    # Two on a, whose first zone is half taken, and one more in the other, four on b; GPUs end first.
    assert (result.replicas, result.fit_count, result.bounded) == (20, 7, False)
    assert sorted((placed.node, placed.zones) for placed in result.placed) == [
        ("a", ("node-0",)),
        *[("a", ("node-1",))] * 2,
        *[("b", ("node-0",))] * 2,
        *[("b", ("node-1",))] * 2,
    ]
    assert result.highlighted == {name: frozenset({"node-0", "node-1"}) for name in "ab"}


async def test_a_workload_asks_for_as_many_as_it_says(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})

    result = await ask(scorer, deployment(raw(FOUR), replicas=3))

    assert (result.kind, result.name, result.replicas, result.fit_count) == ("Deployment", "web", 3, 3)
    assert result.templates[0].where == "spec.template"


async def test_nothing_is_reserved_and_nothing_remembered(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    before = scorer.ask(raw(FOUR, name="next"), "a")

    await ask(scorer, raw(FOUR, name="asked"), 4)

    assert scorer.reservations.reserved() == ()
    assert not scorer.state.was_asked(raw(FOUR, name="asked")["metadata"]["uid"])
    assert scorer.ask(raw(FOUR, name="next"), "a") == before


async def test_replicas_of_several_templates_share_what_there_is(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    jobs = [
        {"name": role, "template": {"spec": {"template": deployment(raw(FOUR))["spec"]["template"]}}}
        for role in ("leader", "worker")
    ]
    workload = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"replicatedJobs": jobs},
    }

    result = await ask(scorer, workload, 3)

    assert [placed.template for placed in result.placed] == [0, 0, 0, 1]


async def test_more_than_anybody_places_is_bounded(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "MOST_REPLICAS", 2)
    await scorer.know({"a": EMPTY})

    result = await ask(scorer, raw(FOUR), 3)

    assert (result.replicas, result.fit_count, result.bounded) == (3, 2, True)


async def test_placing_ends_after_some_seconds(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "PLACING_SECONDS", 0.0)
    await scorer.know({"a": EMPTY})

    result = await ask(scorer, raw(FOUR), 3)

    assert (result.fit_count, result.bounded) == (1, True)


async def test_a_node_needs_room_as_a_whole_as_well(scorer: Scorer) -> None:
    """Pods of no zone have taken what its zones would give."""
    small = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy=SINGLE, totals="cpu=6 mem=32Gi gpu=4")
    await scorer.know({"a": small, "b": small})
    scorer.see(running(on("b", raw("cpu=2.5", policy=None))))

    result = await ask(scorer, raw(FOUR), 4)

    assert {each.name: (each.answer, each.reason) for each in result.templates[0].nodes} == {
        "a": (FITS, ""),
        "b": (NOT_NOW, "the node lacks 500m cpu beside what its pods request"),
    }
    assert [placed.node for placed in result.placed] == ["a"]


async def test_pods_that_ask_for_nothing_of_their_own_fill_nodes_by_their_requests(scorer: Scorer) -> None:
    loose = node("cpu=8 mem=16Gi", policy="none", totals="cpu=8 mem=16Gi pods=3")
    await scorer.know({"a": loose})

    result = await ask(scorer, raw("cpu=0.5", policy=None), 10)

    assert [(placed.node, placed.zones) for placed in result.placed] == [("a", ())] * 3


async def test_where_a_pod_may_not_go_it_is_not_placed(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": LOOSE})

    result = await ask(scorer, raw(FOUR, spec={"nodeSelector": {"rack": "nowhere"}}), 1)

    assert {each.answer for each in result.templates[0].nodes} == {NEVER}
    assert result.placed == ()


@pytest.mark.parametrize("replicas", [0, -1, 2**31])
async def test_a_number_of_replicas_that_nobody_can_have_is_a_mistake(scorer: Scorer, replicas: int) -> None:
    await scorer.know({"a": EMPTY})

    with pytest.raises(BadInput, match="replicas: must be a number from 1 to 2147483647"):
        await ask(scorer, raw(FOUR), replicas)


async def test_mistakes_of_every_template_have_their_place(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})

    with pytest.raises(BadInput) as caught:
        await ask(scorer, deployment(raw(FOUR, policy="singel")))

    assert [mistake.where for mistake in caught.value.mistakes] == [
        "spec.template.metadata.annotations[numalign.io/policy]"
    ]


async def test_before_the_first_snapshot_nobody_says_anything(scorer: Scorer) -> None:
    (template,) = (await ask(scorer, raw(FOUR))).templates

    assert (template.nodes, template.unknown) == ((), ())
    assert template.admission.warnings == ("NUMA alignment was not checked: no node topology is known",)


async def test_questions_wait_for_each_other(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    question, text = WhatIf(MapState(scorer.state)), yaml.safe_dump(raw(FOUR)).encode()

    several = await asyncio.gather(*(question.ask(text, visible=everybody, replicas=5) for _ in range(3)))

    assert [result.fit_count for result in several] == [5, 5, 5]


async def test_the_policy_file_counts(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    scorer.obey(ClusterPolicy())

    assert not (await ask(scorer, raw(FOUR))).templates[0].admission.denied


async def test_of_nodes_far_down_it_is_told_as_of_many(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explained_nodes, "MOST_DETAILED", 2)
    await scorer.know({"a": EMPTY, "b": EMPTY, "c": EMPTY, "small": SMALL})

    first, second, third, small = (await ask(scorer, raw(FOUR))).templates[0].nodes

    assert [bool(each.placement) for each in (first, second, third)] == [True, True, False]
    assert third == replace(first, name="c", placement=(), zones=(), doubts=())
    assert small.reason == "have no NUMA zone with 4 cpu, 1Gi memory and 1 nvidia.com/gpu"
