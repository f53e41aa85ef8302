"""Each status of an API server is an error with a sentence about what to do."""

import pytest

from numalign.kube import errors
from numalign.kube.refusals import refusal


@pytest.mark.parametrize(("status", "error", "words"), [
    (401, errors.Unauthorized, "log in again"),
    (403, errors.Forbidden, "not allowed to patch node a"),
    (404, errors.NotFound, "node a does not exist"),
    (409, errors.Conflict, "another client"),
    (410, errors.Gone, "no longer available"),
    (422, errors.InvalidObject, "node a is not valid"),
    (429, errors.Throttled, "answered 429 for node a"),
    (500, errors.Failing, "answered 500 for node a"),
    (418, errors.Unreachable, "answered 418 for node a"),
])  # fmt: skip
def test_a_status_has_its_error(status: int, error: type[errors.ClusterError], words: str) -> None:
    raised = refusal(status, b'{"message": "no."}', doing="patch", what="node a")
    assert type(raised) is error
    assert words in str(raised)
    assert "(no.)" in str(raised)


@pytest.mark.parametrize(("body", "shown"), [
    (b"", "no reason given"), (b"404 page not found\n", "404 page not found"), (b"[]", "no reason given"),
    (b"\xff", "\N{REPLACEMENT CHARACTER}"), (b'{"message": "%s"}' % (b"long " * 99), "long..."),
], ids=repr)  # fmt: skip
def test_the_reason_is_one_short_line(body: bytes, shown: str) -> None:
    assert shown in str(refusal(500, body, doing="read", what="node a"))
