"""A pod is mutated, then validated as mutated; an invalid response is an error."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from examples.demo.calls import BadAnswer, PodOutcome, Post, admit, admit_all
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table

Fake = Callable[..., Post]

PATCH = [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": {}}}]


@pytest.fixture
def pod() -> dict[str, Any]:
    return manifest("a", "1", namespace="default")


async def test_validated_pod_is_the_mutated_one(fake: Fake, pod: dict[str, Any]) -> None:
    requests: list[tuple[str, Any]] = []
    answer = await admit(fake(patch=PATCH, seen=requests), pod, uid="u")
    assert [(path, request["uid"]) for path, request in requests] == [
        ("/mutate", "u-m"),
        ("/validate", "u-v"),
    ]
    assert "affinity" not in requests[0][1]["object"]["spec"]
    assert requests[1][1]["object"] == answer.stored
    assert answer.stored is not None
    assert answer.stored["spec"]["affinity"] == {"nodeAffinity": {}}


DENIAL = {
    "allowed": False,
    "status": {"message": "numalign: no", "details": {"causes": [{"field": "spec", "message": "wrong"}]}},
}


@pytest.mark.parametrize(
    ("answers", "outcome"),
    table(
        [
            ("admitted", {}, {"admitted"}),
            (
                "patched and warned",
                {"patch": PATCH, "validation": {"warnings": ["w"]}},
                {"admitted", "patched", "warned"},
            ),
            ("patched, yet denied", {"patch": PATCH, "validation": DENIAL}, {"denied"}),
        ]
    ),
)
async def test_outcome_in_words(
    fake: Fake, pod: dict[str, Any], answers: dict[str, Any], outcome: set[str]
) -> None:
    assert (await admit(fake(**answers), pod, uid="u")).outcome == outcome


async def test_denial_has_message_and_causes(fake: Fake, pod: dict[str, Any]) -> None:
    answer = await admit(fake(validation=DENIAL), pod, uid="u")
    assert (answer.stored, answer.message, answer.causes) == (None, "numalign: no", ("spec: wrong",))


def responding(status: int, body: object) -> Post:
    async def post(_path: str, _body: bytes) -> tuple[int, bytes]:
        await asyncio.sleep(0)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()

    return post


@pytest.mark.parametrize(
    ("post", "message"),
    table(
        [
            ("a server's fault", responding(500, {"error": "internal"}), '/mutate answered 500: {"error"'),
            ("no JSON", responding(200, b"<html>"), "/mutate gave no answer to review u-m: <html>"),
            ("no object", responding(200, [1]), "gave no answer"),
            (
                "another review's",
                responding(200, {"response": {"uid": "x", "allowed": True}}),
                "gave no answer",
            ),
            (
                "no decision",
                responding(200, {"response": {"uid": "u-m", "allowed": "yes"}}),
                "gave no answer",
            ),
        ]
    ),
)
async def test_invalid_response_is_an_error(pod: dict[str, Any], post: Post, message: str) -> None:
    with pytest.raises(BadAnswer) as raised:
        await admit(post, pod, uid="u")
    assert message in raised.value.message


async def test_patch_that_does_not_fit_is_an_error(fake: Fake, pod: dict[str, Any]) -> None:
    wrong = [{"op": "replace", "path": "/spec/affinity", "value": {}}]
    with pytest.raises(BadAnswer, match="replace /spec/affinity does not fit the object"):
        await admit(fake(patch=wrong), pod, uid="u")


async def test_all_pods_are_reviewed_with_limited_concurrency(fake: Fake, pod: dict[str, Any]) -> None:
    requests: list[tuple[str, Any]] = []
    inner, under_way, most = fake(seen=requests), 0, 0

    async def post(path: str, body: bytes) -> tuple[int, bytes]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return await inner(path, body)

    answers: list[PodOutcome] = []
    await admit_all(post, [pod] * 10, at_once=3, done=answers.append)
    assert len(answers) == 10
    assert most == 3
    assert len({request["uid"] for _, request in requests}) == 20


async def test_first_of_many_errors_is_raised(pod: dict[str, Any]) -> None:
    with pytest.raises(BadAnswer):
        await admit_all(responding(500, {}), [pod] * 10, at_once=4, done=lambda _: None)
