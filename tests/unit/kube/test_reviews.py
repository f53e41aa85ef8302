"""Reviews of tokens and permissions: an unclear answer is a no."""

from typing import Any

import pytest

from numalign.kube import reviews
from numalign.kube.client import Query
from numalign.kube.errors import UnknownToken
from numalign.kube.reviews import KubeUser, Permission

USER = {"username": "ann", "uid": "1", "groups": ["team"], "extra": {"key": ["a", "b"]}}
REFUSED, NO_USER = "does not accept the token", "belongs to no user"
ANN = KubeUser("ann", "1", ("team",), {"key": ("a", "b")})


class Answering:
    """Answers each review with one status, and records its spec."""

    def __init__(self, status: object) -> None:
        self.status = status
        self.spec: dict[str, Any] = {}

    async def create(self, path: str, body: object, query: Query = (), *, what: str) -> object:  # noqa: ARG002
        assert isinstance(body, dict)
        assert body["kind"] == ("TokenReview" if path == reviews.TOKEN_REVIEWS else "SubjectAccessReview")
        self.spec = body["spec"]
        return {"status": self.status}


async def test_the_user_of_a_token() -> None:
    api = Answering({"authenticated": True, "user": USER, "audiences": ["map"]})
    assert await reviews.authenticate(api, "t") == ANN
    assert api.spec == {"token": "t"}
    assert await reviews.authenticate(api, "t", audience="map") == ANN
    assert api.spec == {"token": "t", "audiences": ["map"]}


@pytest.mark.parametrize(("status", "reason"), [
    ({"authenticated": False, "error": "it has\n expired"}, "accept the token: it has expired"),
    ({"authenticated": False, "user": USER}, REFUSED),
    ({"authenticated": "true", "user": USER}, REFUSED),
    ({"authenticated": True}, REFUSED),
    ({"authenticated": True, "user": {"username": 7}}, REFUSED),
    ("nonsense", REFUSED),
    ({"authenticated": True, "user": {"username": "system:anonymous"}}, NO_USER),
    ({"authenticated": True, "user": {**USER, "groups": ["system:unauthenticated"]}}, NO_USER),
])  # fmt: skip
async def test_tokens_without_a_clear_user(status: object, reason: str) -> None:
    with pytest.raises(UnknownToken, match=reason):
        await reviews.authenticate(Answering(status), "t")


@pytest.mark.parametrize("audiences", [None, [], ["api"], "map"])
async def test_tokens_without_the_audience(audiences: object) -> None:
    api = Answering({"authenticated": True, "user": USER, "audiences": audiences})
    with pytest.raises(UnknownToken, match="not issued for the audience map"):
        await reviews.authenticate(api, "t", audience="map")


async def test_a_permission_is_that_of_the_user() -> None:
    api = Answering({"allowed": True})
    assert await reviews.allowed(api, ANN, Permission("list", "pods", namespace="team"))
    attributes = {"verb": "list", "group": "", "resource": "pods", "namespace": "team"}
    user = {"user": "ann", "uid": "1", "groups": ["team"], "extra": {"key": ["a", "b"]}}
    assert api.spec == {**user, "resourceAttributes": attributes}


@pytest.mark.parametrize("status", [{"allowed": True, "denied": True}, {"allowed": "true"}, {}, []])
async def test_permissions_that_are_not_clear(status: object) -> None:
    assert not await reviews.allowed(Answering(status), ANN, Permission("list", "pods"))
