"""
Laws of one answer: webhook, scorer, `kubectl numa` and the map say the same of one pod on one cluster.

Each is asked as its callers ask it: the webhook with a review, the scorer with a pod and names of nodes,
`check`, `explain` and `defrag` with a manifest, the map with a text that somebody pastes. They share what
reads, what counts and what decides; that none of them goes past it is what is tried here.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kubectl_numa.checking import CheckResult
from kubectl_numa.explanation import Explanation
from numalign.cache.admission import AdmissionState
from numalign.cache.pod_question import StatedBy
from numalign.decision.doubts import SENTENCES
from numalign.map.views import HeldInZones, WhatIfAnswer, WhatIfNode, WhatIfResult
from numalign.map.what_if import ANSWERS
from numalign.model.constraints import unmet_now
from numalign.model.intent import Intent, Policy, Scope
from numalign.model.resources import parse
from numalign.scheduling.node_explanation import Chance, NodeExplanation
from tests.laws.clusters import KINDS, Case, Machine, case, node, plain_pod, topology
from tests.laws.fleets import drawn, seeded
from tests.laws.programs import Answers, Programs
from tests.worlds.notation import GPU
from tests.worlds.thoroughness import Thoroughness, thoroughness
from webhook.handlers import warnings as shown

AT_ONCE = 2 if thoroughness() is Thoroughness.SAMPLE else 5
"""Cases that are made from one seed: with those of `make laws`, 10,000 of them in some ten minutes."""

SPEAKER = "numalign: "


@pytest.fixture(scope="module")
def programs() -> Iterator[Programs]:
    """All programs, which are asked of one cluster after another."""
    with asyncio.Runner() as runner:
        made = Programs(runner)
        yield made
        made.close()


def differences(answers: Answers) -> Iterator[str]:
    """Wherever two programs contradict each other."""
    yield from _of_webhook_and_check(answers)
    if answers.checked.pod and answers.explained:
        yield from _of_scorer_and_explain(answers, answers.explained)
    yield from _of_explain_and_map(answers.explained, answers.what_if)
    yield from _of_what_is_free(answers)


def _of_webhook_and_check(answers: Answers) -> Iterator[str]:
    checked, webhook = answers.checked, answers.webhook
    if webhook.refusal is None and checked.result is CheckResult.BAD:
        # What nobody asks numalign about is the API server's to refuse.
        if answers.scored.subject and answers.scored.subject.question.intent.binding:
            yield f"the webhook admits what check cannot read: {checked.refusal}"
        return
    refusal = None if checked.refusal is None else f"{SPEAKER}{checked.refusal}"
    if webhook.refusal != refusal:
        yield f"the webhook refuses with {webhook.refusal!r}, check with {refusal!r}"
    warnings = tuple(shown(checked.pod.decision)) if checked.pod and refusal is None else ()
    if webhook.warnings != warnings:
        yield f"the webhook warns of {webhook.warnings}, check of {warnings}"


def _of_scorer_and_explain(answers: Answers, explained: Explanation) -> Iterator[str]:
    cluster, scored = explained.pod, answers.scored
    if cluster.exempt and cluster.exempt.startswith("users"):
        # Who made a pod is forgotten when it comes to be scheduled.
        return
    if scored.subject is None:
        yield "the scorer cannot read what the others read"
        return
    read = replace(scored.subject.question, demand=scored.subject.demand)
    if read != cluster.question:
        yield f"the scorer reads {read}, the others {cluster.question}"
        return
    if scored.subject.opted_out != (
        cluster.by is StatedBy.POD and cluster.question.intent.policy is Policy.NONE
    ):
        yield f"the scorer takes the pod for one that opted out: {scored.subject.opted_out}"
    yield from _of_nodes(answers, explained)
    yield from filter(None, map(_of_rules, explained.answers))


def _of_explain_and_map(explained: Explanation | None, cluster: WhatIfResult | None) -> Iterator[str]:
    if explained is None or cluster is None:
        if explained or cluster:
            yield f"explain reads {explained}, the map {cluster}"
        return
    (template,) = cluster.templates
    decision, webhook = explained.pod.decision, (template.refusal, template.warnings)
    if webhook != (decision.refusal, decision.all_warnings):
        yield f"the map says that the webhook says {webhook}, explain says {decision}"
    if template.exempt != explained.pod.exempt:
        yield f"to the map the pod is exempt as {template.exempt}, to explain as {explained.pod.exempt}"
    theirs = {answer.node.name: _shown(answer) for answer in explained.answers}
    ours = {answer.name: answer for answer in template.nodes}
    if ours != theirs:
        yield f"the map shows {ours}, explain {theirs}"
    fits = {answer.name for answer in template.nodes if answer.answer is WhatIfAnswer.FITS}
    if {placed.node for placed in cluster.placed} - fits or (fits and not cluster.placed):
        yield f"the map places the pod on {cluster.placed}, and it fits on {fits}"


def _shown(explained: NodeExplanation) -> WhatIfNode:
    """What the map would show of an answer."""
    placement = explained.placement or []
    names = {zone.name: zone.id for zone in explained.node.zones}
    return WhatIfNode(
        explained.node.name,
        explained.node_class,
        ANSWERS[explained.chance],
        explained.reason or "",
        explained.score,
        tuple(HeldInZones(tuple(answer["zones"]), parse(answer["amount"])) for answer in placement),
        tuple(sorted({names[zone] for answer in placement for zone in answer["zones"]})),
        tuple(SENTENCES[doubt] for doubt in explained.doubts),
    )


def _of_rules(explained: NodeExplanation) -> str | None:
    """Where a node is not explained as the rules see it that tell what it has."""
    free_by_program, verdict = explained.answer.refusal, explained.verdict
    shown = (
        (True, True, False)
        if free_by_program is None
        else (False, free_by_program.answered, free_by_program.permanent)
    )
    if shown != (verdict.admitted, verdict.answered, verdict.permanent):
        return f"explain shows {free_by_program} of a node of which the rules say {verdict}"
    if explained.doubts != verdict.doubts:
        return f"explain doubts {explained.doubts}, the rules {verdict.doubts}"
    return None


def _of_nodes(answers: Answers, explained: Explanation) -> Iterator[str]:
    where, fit = explained.pod.constraints, {*answers.scored.filtered.fit}
    # What pods request beside what zones have, a scheduler counts itself.
    may_go = {
        answer.node.name
        for answer in explained.answers
        if not answer.short and unmet_now(where, answer.node.name, answer.node.attributes) is None
    }
    shown = {answer.node.name for answer in explained.answers if answer.chance is Chance.FITS}
    if shown != fit & may_go:
        yield f"explain shows that it fits on {shown}, the scorer on {fit & may_go}"
    # A resource that nobody lists is refused by its name, where the policy wants that, and not for nodes.
    decided = answers.checked.pod.decision.state if answers.checked.pod else None
    if answers.checked.result is not CheckResult.NEVER or decided is not AdmissionState.NEVER:
        return
    if fit & may_go:
        yield f"the webhook refuses as never what fits on {fit & may_go}"
    chances = {answer.chance for answer in explained.answers} | {answer.chance for answer in explained.absent}
    if chances - {Chance.NEVER}:
        yield "the webhook refuses as never what explain shows for later"


def _of_what_is_free(answers: Answers) -> Iterator[str]:
    explained, advice = answers.explained, answers.defrag
    free_by_program = dict(answers.free)
    if explained is not None and advice is not None:
        fits = {answer.node.name for answer in explained.answers if answer.chance is Chance.FITS}
        if fits != {*advice.fitting}:
            yield f"explain shows that it fits on {fits}, defrag on {advice.fitting}"
        free_by_program["explain"] = {
            answer.node.name: [zone.free.get(GPU, 0) for zone in answer.node.zones]
            for answer in explained.answers
        }
    for program, free in free_by_program.items():
        if free != free_by_program["scorer"]:
            yield f"{program} has {free} free, the scorer {free_by_program['scorer']}"


# What they disagreed about once.


def well(*, namespace: dict[str, str] | None = None, **annotations: str) -> Case:
    """One node in health, and a pod that fits there, with these annotations and labels of its namespace."""
    machine = Machine("n0", KINDS[0])
    labels = {f"numalign.io/{key}": value for key, value in (namespace or {}).items()}
    return Case(
        items=[
            node(machine),
            topology(machine),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": labels}},
        ],
        namespace="team",
        pod=plain_pod({f"numalign.io/{key}": value for key, value in annotations.items()}),
    )


def test_a_default_gives_a_policy_to_a_pod_with_a_scope(programs: Programs) -> None:
    answers = programs.ask(well(namespace={"default": "single-numa-node"}, scope="pod"))

    assert [*differences(answers)] == []
    assert (answers.webhook.refusal, answers.checked.result) == (None, CheckResult.OK)
    assert answers.scored.subject is not None
    assert answers.scored.subject.question.intent == Intent(Policy.SINGLE_NUMA_NODE, scope=Scope.POD)
    assert answers.scored.filtered.fit == ["n0"]


def test_a_wrong_policy_in_a_disabled_namespace_is_ignored(programs: Programs) -> None:
    answers = programs.ask(well(namespace={"admission": "disabled"}, policy="singel-numa-node"))

    assert [*differences(answers)] == []
    assert (answers.webhook.refusal, answers.checked.result) == (None, CheckResult.OK)
    assert answers.scored.filtered.fit == ["n0"]


def test_a_pod_for_a_bare_node_alone_is_not_denied(programs: Programs) -> None:
    small = Machine("small", KINDS[3], shown="node")
    large = Machine("large", KINDS[0], taints=({"key": "dedicated", "effect": "NoSchedule"},))
    lonely = replace(
        well(policy="single-numa-node"), items=[node(small)], before=[node(large), topology(large)]
    )
    answers = programs.ask(lonely)

    assert [*differences(answers)] == []
    assert answers.webhook.refusal is None
    assert len(answers.webhook.warnings) == 1


def present(name: str, gpus: str, **status: str) -> dict[str, Any]:
    """A pod that was bound to the node."""
    made = plain_pod({"numalign.io/policy": "single-numa-node"})
    resources = {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": gpus}}
    spec = {"nodeName": "n0", "containers": [{"name": "main", "resources": resources}]}
    metadata = {**made["metadata"], "name": name, "uid": f"uid-of-{name}"}
    return {**made, "metadata": metadata, "spec": spec, "status": status}


def test_what_new_pods_hold_is_not_free(programs: Programs) -> None:
    """They are newer than the last report of the exporter, to which all is free."""
    new = replace(
        well(policy="single-numa-node"), pods=[present(name, "4", phase="Running") for name in "ab"]
    )
    answers = programs.ask(new)

    assert [*differences(answers)] == []
    assert answers.free["scorer"] == {"n0": [0, 0]}
    assert answers.scored.filtered.fit == []


def test_what_the_exporter_has_counted_counts_once(programs: Programs) -> None:
    old = present("a", "2", phase="Running", startTime="2026-11-01T00:00:00Z")
    lone = well(policy="single-numa-node")
    [place, free_by_program, namespace] = lone.items
    for resource in free_by_program["zones"][0]["resources"]:
        resource["available"] = "2" if resource["name"] == GPU else resource["available"]
    answers = programs.ask(replace(lone, items=[place, free_by_program, namespace], pods=[old]))

    assert [*differences(answers)] == []
    assert answers.free["scorer"] == {"n0": [2, 4]}


# Whatever is drawn.


@given(drawn(case))
def test_all_programs_answer_alike(programs: Programs, cluster: Case) -> None:
    answers = programs.ask(cluster)
    event(answers.checked.result)

    assert [*differences(answers)] == []


@given(st.integers(0, 2**32))
def test_all_programs_answer_many_cases_alike(programs: Programs, seed: int) -> None:
    for at in range(AT_ONCE):
        cluster = seeded(case, seed + at)
        assert [*differences(programs.ask(cluster))] == [], f"seed {seed + at}"
