"""
Who somebody is, and what they may do: asked of the API server, which alone knows.

A token is shown to it (TokenReview), and of whoever that is it is asked what they may do
(SubjectAccessReview). What is not said plainly counts as no.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numalign.kube.client import ObjectWriter
from numalign.kube.decode.parts import Part
from numalign.kube.errors import UnknownToken

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

ANONYMOUS = "system:anonymous"
UNAUTHENTICATED = "system:unauthenticated"
"""The group of those who showed nothing."""

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class KubeUser:
    """Somebody whom an API server knows, as it told it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """Something that one may do: a verb on a resource, in a `namespace` or, if that is empty, in all."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""


async def authenticate(api: ObjectWriter, token: str, *, audience: str = "") -> KubeUser:
    """Whose token this is, if it was made for an `audience`, by default that of the API server.

    Raises `UnknownToken` where the API server does not know it, and other `ClusterError`s.
    """
    spec = {"token": token} | ({"audiences": [audience]} if audience else {})
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    status = Part(await api.create(TOKEN_REVIEWS, body, what="tokenreviews"))["status"]
    user = _user(status["user"])
    if status["authenticated"].value is not True or not user.name:
        raise UnknownToken(_reason(status))
    # An API server that knows nothing of audiences takes any token (k8s.io/api/authentication/v1).
    if audience and audience not in [part.text() for part in status["audiences"].elements()]:
        raise UnknownToken(f"the token was not issued for the audience {audience}")
    if user.name == ANONYMOUS or UNAUTHENTICATED in user.groups:
        raise UnknownToken("the token belongs to no user")
    return user


async def allowed(api: ObjectWriter, user: KubeUser, permission: Permission) -> bool:
    """Return whether a user may do something; raises `ClusterError`."""
    spec: dict[str, Any] = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in (user.extra or {}).items()},
        "resourceAttributes": {
            "verb": permission.verb,
            "group": permission.group,
            "resource": permission.resource,
            "namespace": permission.namespace,
        },
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status = Part(await api.create(ACCESS_REVIEWS, body, what="subjectaccessreviews"))["status"]
    return status["allowed"].value is True and status["denied"].value is not True


def _user(part: Part) -> KubeUser:
    extra = {
        key: tuple(value.text() for value in values.elements()) for key, values in part["extra"].members()
    }
    groups = tuple(group.text() for group in part["groups"].elements())
    return KubeUser(part["username"].text(), part["uid"].text(), groups, extra)


def _reason(status: Part) -> str:
    """Return what the API server says of a token that it does not know."""
    reason = " ".join(status["error"].text().split())
    return f"the API server does not accept the token{f': {reason[:_SHOWN]}' if reason else ''}"
