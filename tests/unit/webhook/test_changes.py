"""No change of a pod takes back what its namespace enforces, and every other change is skipped."""

from dataclasses import replace
from typing import Any

import pytest

from numalign.kube.files.policy import parse
from tests.worlds.notation import table
from tests.worlds.webhook import TEAM, UID, Webhook, cluster, raw, review_of
from webhook.handlers import is_change, judge_change
from webhook.review import Denied, SkipReason

SINGLE, RESTRICTED = "single-numa-node", "restricted"
POLICY, VOLCANO, RESOURCES = "numalign.io/policy", "volcano.sh/numa-topology-policy", "numalign.io/resources"

SAME, EXEMPT, BOTH = SkipReason.UNCHANGED, SkipReason.EXEMPT, [POLICY, RESOURCES]
ENFORCED = {"enforce": RESTRICTED}
STRICT, FEW = {POLICY: SINGLE}, {RESOURCES: "cpu"}

DISABLED = {**ENFORCED, "admission": "disabled"}
NONE = {"enforce": "none"}
CHANGES: list[tuple[str, dict[str, str], dict[str, str], dict[str, str], object]] = [
    # what it shows             where     before             after                    weakened
    ("another annotation",      ENFORCED, STRICT,            {**STRICT, "a": "b"},    SAME),
    ("removed",                 ENFORCED, STRICT,            {},                      [POLICY]),
    ("no policy at all",        ENFORCED, STRICT,            {POLICY: "strictly"},    [POLICY]),
    ("looser, and meets it",    ENFORCED, STRICT,            {POLICY: RESTRICTED},    []),
    ("stricter",                ENFORCED, {POLICY: "none"},  STRICT,                  []),
    ("an opt-out",              ENFORCED, {},                {POLICY: "none"},        [POLICY]),
    ("Volcano's is removed",    ENFORCED, {VOLCANO: SINGLE}, {},                      [VOLCANO]),
    ("Volcano's is an opt-out", ENFORCED, {},                {VOLCANO: "none"},       [VOLCANO]),
    ("less is aligned",         ENFORCED, STRICT,            {**STRICT, **FEW},       [RESOURCES]),
    ("all is lost",             ENFORCED, STRICT,            FEW,                     BOTH),
    ("the level is none",       NONE,     STRICT,            FEW,                     []),
    ("numalign is off",         DISABLED, STRICT,            {},                      EXEMPT),
]  # fmt: skip


def changed(before: dict[str, str], after: dict[str, str], **more: Any) -> Any:  # noqa: ANN401  as JSON
    old, new = (raw("cpu=2 mem=1Gi gpu=1", annotations=each) for each in (before, after))
    return review_of(new, **{"operation": "UPDATE", "oldObject": old, **more})


@pytest.mark.parametrize(("labels", "before", "after", "weakened"), table(CHANGES))
def test_of_an_existing_pod(
    labels: dict[str, str], before: dict[str, str], after: dict[str, str], weakened: object
) -> None:
    review = changed(before, after, subResource="resize")
    judged = judge_change(review, cluster(labels=labels).policy)

    assert is_change(review)
    if not isinstance(judged, Denied):
        assert weakened in (judged, []), judged
        return
    assert judged.audit == {"verdict": "denied", "state": "below-enforced", "level": RESTRICTED}
    assert f"the annotation {', '.join(weakened)} of" in judged.message  # type: ignore[arg-type]


def test_the_annotations_of_a_binding_come_to_its_pod() -> None:
    kind = {"group": "", "version": "v1", "kind": "Binding"}
    for annotations, admitted in (({"numalign.io/placement": "[]"}, True), (STRICT, True), (FEW, False)):
        review = changed(
            {}, annotations, kind=kind, operation="CREATE", subResource="binding", oldObject=None
        )
        judged = judge_change(review, cluster(labels=ENFORCED).policy)
        assert is_change(review)
        assert (not isinstance(judged, Denied)) is admitted


def test_enforced_policy_file_protects_annotations() -> None:
    policy = parse(b"defaults: [{enforce: restricted}]\nexemptions: {users: [ci]}")
    effective = replace(cluster(labels={}).policy, policy=policy)
    assert isinstance(judge_change(changed(STRICT, {}), effective), Denied)
    assert judge_change(changed(STRICT, {}, userInfo={"username": "ci"}), effective) is EXEMPT


async def test_a_change_is_answered_as_a_review(webhook: Webhook) -> None:
    await webhook.know({}, team=ENFORCED)
    old, new = (raw("cpu=2 mem=1Gi gpu=1", policy=each) for each in (SINGLE, None))
    async with webhook.open() as caller:
        denied = await caller.ask("/validate", new, operation="UPDATE", oldObject=old)
        same = await caller.ask("/validate", old, operation="UPDATE", oldObject=old)

    assert denied["status"]["code"] == 403
    assert f'namespace "{TEAM}" enforces NUMA alignment restricted' in denied["status"]["message"]
    assert same == {"uid": UID, "allowed": True}
