"""A pod is mutated, then validated as mutated; an invalid response is an error."""

import asyncio
import json
from typing import Any

import pytest

from examples.demo.calls import BadAnswer, PodOutcome, Post, admit, admit_all
from tests.unit.examples.demo.conftest import fake
from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table

POD = manifest("a", "1", namespace="default")
PATCH = [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": {}}}]
CAUSES = {"causes": [{"field": "spec", "message": "wrong"}]}
DENIAL = {"allowed": False, "status": {"message": "numalign: no", "details": CAUSES}}


async def test_validated_pod_is_the_mutated_one() -> None:
    requests: list[tuple[str, Any]] = []
    answer = await admit(fake(patch=PATCH, requests=requests), POD, uid="u")
    calls = [(path, request["uid"]) for path, request in requests]
    assert calls == [("/mutate", "u-m"), ("/validate", "u-v")]
    assert "affinity" not in requests[0][1]["object"]["spec"]
    assert requests[1][1]["object"] == answer.stored
    assert answer.stored is not None
    assert answer.stored["spec"]["affinity"] == {"nodeAffinity": {}}


OUTCOMES: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"admitted"}),
    ({"patch": PATCH, "validation": {"warnings": ["w"]}}, {"admitted", "patched", "warned"}),
    ({"patch": PATCH, "validation": DENIAL}, {"denied"}),
]


@pytest.mark.parametrize(("answers", "outcome"), OUTCOMES, ids=lambda value: str(sorted(value)))
async def test_outcome_in_words(answers: dict[str, Any], outcome: set[str]) -> None:
    assert (await admit(fake(**answers), POD, uid="u")).outcome == outcome


async def test_denial_has_message_and_causes() -> None:
    answer = await admit(fake(validation=DENIAL), POD, uid="u")
    assert (answer.stored, answer.message, answer.causes) == (None, "numalign: no", ("spec: wrong",))


def responding(status: int, body: object) -> Post:
    async def post(_path: str, _body: bytes) -> tuple[int, bytes]:
        await asyncio.sleep(0)
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()

    return post


INVALID = [
    ("error",       500, {"error": "internal"}, '/mutate answered 500: {"error"'),
    ("no JSON",     200, b"<html>", "/mutate gave no answer to review u-m: <html>"),
    ("no object",   200, [1], "gave no answer"),
    ("other uid",   200, {"response": {"uid": "x", "allowed": True}}, "gave no answer"),
    ("no decision", 200, {"response": {"uid": "u-m", "allowed": "yes"}}, "gave no answer"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "message"), table(INVALID))
async def test_invalid_response_is_an_error(status: int, body: object, message: str) -> None:
    with pytest.raises(BadAnswer) as raised:
        await admit(responding(status, body), POD, uid="u")
    assert message in raised.value.message


async def test_patch_that_does_not_fit_is_an_error() -> None:
    wrong = [{"op": "replace", "path": "/spec/affinity", "value": {}}]
    with pytest.raises(BadAnswer, match="replace /spec/affinity does not fit the object"):
        await admit(fake(patch=wrong), POD, uid="u")


async def test_all_pods_are_reviewed_with_limited_concurrency() -> None:
    requests: list[tuple[str, Any]] = []
    inner, running, most = fake(requests=requests), 0, 0

    async def post(path: str, body: bytes) -> tuple[int, bytes]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return await inner(path, body)

    answers: list[PodOutcome] = []
    await admit_all(post, [POD] * 10, at_once=3, done=answers.append)
    assert (len(answers), most) == (10, 3)
    assert len({request["uid"] for _, request in requests}) == 20


async def test_first_of_many_errors_is_raised() -> None:
    with pytest.raises(BadAnswer):
        await admit_all(responding(500, {}), [POD] * 10, at_once=4, done=lambda _: None)
