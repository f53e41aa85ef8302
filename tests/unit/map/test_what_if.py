"""What would become of a pod: the answers of the webhook and of nodes, and where replicas would be placed."""

import asyncio
from dataclasses import replace

import pytest
import yaml

from numalign.kube.cluster import ServerChanged
from numalign.map import what_if
from numalign.map.state import MapState
from numalign.map.views import Visible, WhatIfAnswer, WhatIfResult
from numalign.map.what_if import WhatIf
from numalign.model.errors import BadInput
from numalign.model.intent import Policy
from tests.worlds.notation import GPU, bag, node, table
from tests.worlds.objects import all_visible
from tests.worlds.scorer import BOTH, EMPTY, FOUR, HALF, SINGLE, SMALL, Raw, Scorer, on, raw, running

FITS, NOT_NOW, NEVER = WhatIfAnswer.FITS, WhatIfAnswer.NOT_NOW, WhatIfAnswer.NEVER


@pytest.fixture
def scorer() -> Scorer:
    return Scorer()


async def ask(
    scorer: Scorer, made: Raw, replicas: int | None = None, *, visible: Visible = all_visible
) -> WhatIfResult:
    question = WhatIf(MapState(scorer.state))
    return await question.ask(
        yaml.dump(made, Dumper=yaml.CSafeDumper).encode(), visible=visible, replicas=replicas
    )


def deployment(pod: Raw, **spec: object) -> Raw:
    """A Deployment of such pods."""
    template = {"metadata": {"annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "team"},
        "spec": {"template": template, **spec},
    }


async def test_each_node_has_an_answer_and_a_reason(scorer: Scorer) -> None:
    await scorer.know({"empty": EMPTY, "full": EMPTY, "small": SMALL}, unknown=["bare"])
    scorer.see(running(on("full", raw("cpu=16 mem=1Gi gpu=4", policy=None), record=BOTH)))
    [template] = (await ask(scorer, raw(FOUR))).templates
    fits, full, small = template.nodes

    assert [each.name for each in template.nodes] == ["empty", "full", "small"]
    assert [each.answer for each in template.nodes] == [FITS, NOT_NOW, NEVER]
    assert (fits.reason, fits.zones, fits.score is not None) == ("", (0,), True)
    [part] = fits.placement
    assert (part.zones, part.amounts) == (("node-0",), bag("cpu=4 mem=1Gi gpu=1"))
    assert full.reason.startswith('container "c0": the node has no cpu and no nvidia.com/gpu free')
    assert (small.score, small.placement) == (None, ())
    assert template.counts == {FITS: 1, NOT_NOW: 1, NEVER: 1, WhatIfAnswer.NOT_ANSWERED: 0}
    assert template.unknown == ("bare",)
    assert (template.intent.policy, template.total[GPU]) == (Policy.SINGLE_NUMA_NODE, 1)


LEFT_OUT = "the settings of its namespace are left out: you may not list pods there"


ASKED = [
    # the label of the namespace, the pod and its policy, who asks, and the answer
    ("below enforce",      "enforce", FOUR,             None,   True,  True,  ()),
    ("never",              "enforce", "cpu=64 mem=1Gi", SINGLE, True,  True,  ()),
    ("admitted",           "enforce", FOUR,             SINGLE, True,  False, ()),
    ("a hidden namespace", "enforce", FOUR,             None,   False, False, (LEFT_OUT,)),
    ("no enforcement",     "default", FOUR,             SINGLE, True,  False, ()),
]  # fmt: skip


@pytest.mark.parametrize(("label", "container", "policy", "visible", "denied", "note"), table(ASKED))
async def test_the_webhook_answers_by_visible_rules(  # noqa: PLR0913  the columns
    scorer: Scorer, label: str, container: str, policy: str | None, note: tuple[str, ...], *,
    visible: bool, denied: bool,
) -> None:  # fmt: skip
    await scorer.know({"a": EMPTY}, team={label: SINGLE})
    [template] = (await ask(scorer, raw(container, policy=policy), visible=lambda _: visible)).templates

    assert (template.refusal is not None, template.notes) == (denied, note)


async def test_a_pod_is_completed_as_the_api_server_does(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    made = raw("cpu=2 mem=1Gi")
    made["spec"]["resources"] = {"requests": {"cpu": "2", "memory": "1Gi"}}
    for server, burstable in ((36, True), (37, False)):
        scorer.state.cluster.apply(ServerChanged(server, frozenset()))
        warnings = (await ask(scorer, made)).templates[0].warnings
        assert any("(the pod is Burstable)" in warning for warning in warnings) is burstable


async def test_an_exempt_pod_is_evaluated(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY}, team={"admission": "disabled"})
    [template] = (await ask(scorer, raw(FOUR))).templates

    assert (bool(template.exempt), template.nodes[0].answer) == (True, FITS)


async def test_replicas_are_placed_until_none_fits(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    scorer.see(running(on("a", raw(FOUR, name="other"), record=HALF)))
    before = scorer.ask(raw(FOUR, name="next"), "a")
    result = await ask(scorer, deployment(raw(FOUR)), 20)

    # One more in the first zone of a, two in the other, and four on b; GPUs end first.
    assert (result.replicas, result.fit_count, result.bounded) == (20, 7, False)
    assert sorted((placed.node, placed.zones) for placed in result.placed) == [
        ("a", ("node-0",)),
        *[("a", ("node-1",))] * 2,
        *[("b", ("node-0",))] * 2,
        *[("b", ("node-1",))] * 2,
    ]
    # Nothing is reserved or remembered.
    assert scorer.reservations.reserved() == ()
    assert scorer.ask(raw(FOUR, name="next"), "a") == before


async def test_a_workload_gives_its_replicas(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    result = await ask(scorer, deployment(raw(FOUR), replicas=3))
    [template] = result.templates

    assert (result.kind, result.name, result.replicas, result.fit_count) == ("Deployment", "web", 3, 3)
    assert template.where == "spec.template"


async def test_templates_share_the_room(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY})
    template = deployment(raw(FOUR))["spec"]["template"]
    jobs = [{"name": role, "template": {"spec": {"template": template}}} for role in ("leader", "worker")]
    workload = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": jobs}}
    workload |= {"metadata": {"name": "train", "namespace": "team"}}

    assert [placed.template for placed in (await ask(scorer, workload, 3)).placed] == [0, 0, 0, 1]


@pytest.mark.parametrize(("bound", "value", "placed"), [("MOST_REPLICAS", 2, 2), ("PLACING_SECONDS", 0.0, 1)])
async def test_placing_is_bounded(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch, bound: str, value: float, placed: int
) -> None:
    monkeypatch.setattr(what_if, bound, value)
    await scorer.know({"a": EMPTY})
    result = await ask(scorer, raw(FOUR), 3)

    assert (result.replicas, result.fit_count, result.bounded) == (3, placed, True)


async def test_a_node_needs_room_in_total(scorer: Scorer) -> None:
    """Pods without a zone have taken what its zones have free."""
    small = node("cpu=8 mem=16Gi gpu=2", "cpu=8 mem=16Gi gpu=2", policy=SINGLE, totals="cpu=6 mem=32Gi gpu=4")
    await scorer.know({"a": small, "b": small})
    scorer.see(running(on("b", raw("cpu=2.5", policy=None))))
    result = await ask(scorer, raw(FOUR), 4)

    assert {each.name: (each.answer, each.reason) for each in result.templates[0].nodes} == {
        "a": (FITS, ""),
        "b": (NOT_NOW, "the node lacks 500m cpu beside what its pods request"),
    }
    assert [placed.node for placed in result.placed] == ["a"]


@pytest.mark.parametrize(
    ("policy", "replicas", "mistake"),
    [
        *((SINGLE, number, "replicas: must be a number from 1 to 2147483647") for number in (0, -1, 2**31)),
        ("singel", 1, r"spec.template.metadata.annotations\[numalign.io/policy\]: "),
    ],
)
async def test_mistakes_have_their_place(scorer: Scorer, policy: str, replicas: int, mistake: str) -> None:
    await scorer.know({"a": EMPTY})

    with pytest.raises(BadInput, match=f"^{mistake}"):
        await ask(scorer, deployment(raw(FOUR, policy=policy)), replicas)


async def test_before_the_first_snapshot_there_is_no_answer(scorer: Scorer) -> None:
    [template] = (await ask(scorer, raw(FOUR))).templates

    assert (template.nodes, template.unknown) == ((), ())
    assert template.warnings == ("NUMA alignment was not checked: no node topology is known",)


async def test_questions_wait_for_each_other(scorer: Scorer) -> None:
    await scorer.know({"a": EMPTY, "b": EMPTY})
    question, text = WhatIf(MapState(scorer.state)), yaml.safe_dump(raw(FOUR)).encode()
    results = await asyncio.gather(*(question.ask(text, visible=all_visible, replicas=5) for _ in range(3)))

    assert [result.fit_count for result in results] == [5, 5, 5]


async def test_only_the_first_nodes_have_details(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "MOST_DETAILED", 2)
    await scorer.know({"a": EMPTY, "b": EMPTY, "c": EMPTY, "small": SMALL})
    first, second, third, small = (await ask(scorer, raw(FOUR))).templates[0].nodes

    assert [bool(each.placement) for each in (first, second, third)] == [True, True, False]
    assert third == replace(first, name="c", placement=(), zones=(), doubts=())
    assert small.reason == "have no NUMA zone with 4 cpu, 1Gi memory and 1 nvidia.com/gpu"
