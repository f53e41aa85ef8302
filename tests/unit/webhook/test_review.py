"""The wire: which calls are reviews, what is said of the others, and what is answered."""

import base64
import unicodedata
from http import HTTPStatus
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.model.errors import MOST_MISTAKES, Mistake
from tests.worlds.notation import table
from webhook.patch import Operation
from webhook.review import (
    AdmissionOperation,
    Allowed,
    BadReview,
    Denied,
    GroupVersionKind,
    Patched,
    Review,
    StatusReason,
    encode,
    read,
)

Raw = dict[str, Any]

META, SPEC = {"generateName": "web-"}, {"containers": list[object]()}
POD: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": SPEC}

# As kube-apiserver sends it, members that nobody here reads included.
USER = "system:serviceaccount:kube-system:replicaset-controller"
MEMBER_OF = ("system:serviceaccounts", "system:authenticated")
KIND = {"group": "", "version": "v1", "kind": "Pod"}
RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
REQUEST: Raw = {
    "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": KIND, "resource": RESOURCE, "requestKind": KIND,
    "requestResource": RESOURCE, "namespace": "team", "operation": "CREATE",
    "userInfo": {"username": USER, "uid": "1", "groups": [*MEMBER_OF], "extra": {"x": ["y"]}},
    "object": POD, "oldObject": None, "dryRun": False,
    "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
}  # fmt: skip


def body(*, without: str | None = None, **changes: Any) -> bytes:  # noqa: ANN401 - any JSON
    kept = {key: value for key, value in {**REQUEST, **changes}.items() if key != without}
    document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": kept}
    return orjson.dumps(document)


def refusal(call: bytes) -> tuple[int, str]:
    with pytest.raises(BadReview) as caught:
        read(call)
    return int(caught.value.status), str(caught.value)


def test_call_is_read_with_all_members() -> None:
    assert read(body(name="web-0", subResource="resize", dryRun=True)) == Review(
        uid="705ab4f5-6393-11e8-b7cc-42010a800002", operation=AdmissionOperation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"), sub_resource="resize", namespace="team", name="web-0",
        dry_run=True, username=USER, groups=MEMBER_OF, object=POD, old={}
    )  # fmt: skip


OPTIONAL = [
    ("name", "name", ""), ("subResource", "sub_resource", ""), ("namespace", "namespace", ""),
    ("dryRun", "dry_run", False), ("userInfo", "username", ""), ("userInfo", "groups", ()),
    ("oldObject", "old", {})
]  # fmt: skip


@pytest.mark.parametrize(("member", "field", "empty"), OPTIONAL, ids=[row[1] for row in OPTIONAL])
def test_absent_and_null_are_empty_as_in_go(member: str, field: str, empty: object) -> None:
    assert getattr(read(body(without=member)), field) == empty
    assert getattr(read(body(**{member: None})), field) == empty


def test_unread_members_may_be_nested_deeply() -> None:
    # The library that writes JSON here goes less deep than it reads.
    nested = b'{"a":' * 1000 + b"{}" + b"}" * 1000
    assert read(body(object={"deep": 0}).replace(b'"deep":0', b'"deep":' + nested)).object.keys() == {"deep"}


NO_OBJECT = "must be an AdmissionReview, a JSON object, not"
BAD_BODIES = [
    # what it is             the body                            what is said of it
    ("YAML",                 b"kind: AdmissionReview",           "is not JSON: "),
    ("a number beyond all",  b'{"request": 1e999}',              "is not JSON: "),
    ("nested deep",          b"[" * 5000 + b"]" * 5000,          "is nested deeper than 100 levels"),
    ("null",                 b"null",                            f"{NO_OBJECT} null"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), table(BAD_BODIES))
def test_another_body_is_a_bad_request(call: bytes, text: str) -> None:
    status, message = refusal(call)
    assert status == HTTPStatus.BAD_REQUEST
    assert message.startswith(f"the body {text}")
    assert message == f"the body {text}" or text.endswith(": ")


MISSING_OBJECT = "object: is missing: CREATE and UPDATE require it"
UNKNOWN_VERB = 'operation: must be one of CREATE, UPDATE, DELETE, CONNECT, not "PATCH"'

GROUPS = "userInfo.groups"

NOT_A_REVIEW: list[tuple[str, Raw, str]] = [
    # what it is             members of the request        what is said of it
    ("null for uid",         {"uid": None},                "uid: is missing"),
    ("no operation",         {"without": "operation"},     "operation: is missing"),
    ("a book for uid",       {"uid": "u" * 129},           "uid: is longer than 128 characters"),
    ("another operation",    {"operation": "PATCH"},       UNKNOWN_VERB),
    ("a text for kind",      {"kind": "Pod"},              'kind: must be an object, not "Pod"'),
    ("half a kind",          {"kind": {"kind": "Pod"}},    "kind.version: is missing"),
    ("a text for groups",    {"userInfo": {"groups": "a"}}, f'{GROUPS}: must be a list, not "a"'),
    ("a text for dryRun",    {"dryRun": "no"},             'dryRun: must be true or false, not "no"'),
    ("null to update",       {"object": None, "operation": "UPDATE"}, MISSING_OBJECT),
    ("a list for object",    {"object": [POD]},            "object: must be an object, not a list"),
    ("a text for object",    {"object": "p" * 99},         f'object: must be an object, not "{"p" * 61}..."'),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "lines"), table(NOT_A_REVIEW))
def test_invalid_request_is_unprocessable(changes: Raw, lines: str) -> None:
    assert refusal(body(**changes)) == (HTTPStatus.UNPROCESSABLE_ENTITY, f"request.{lines}")


def test_every_mistake_of_a_call_is_listed() -> None:
    call = orjson.dumps({"apiVersion": "v1", "request": {**REQUEST, "uid": "", "kind": {}, "object": None}})

    assert refusal(orjson.dumps({"kind": "Pod", "request": [1]}))[1].splitlines() == [
        "apiVersion: is missing", "kind: must be 'AdmissionReview', not \"Pod\"",
        "request: must be an object, not a list",
    ]  # fmt: skip
    assert refusal(call)[1].splitlines() == [
        "apiVersion: must be 'admission.k8s.io/v1', not \"v1\"", "kind: is missing",
        "request.uid: is empty", "request.kind.version: is missing", "request.kind.kind: is missing",
        "request.object: is missing: CREATE and UPDATE require it"
    ]  # fmt: skip


def test_a_body_of_nothing_but_mistakes_gets_a_short_answer() -> None:
    first, *others = refusal(body(userInfo={"groups": [1] * 100_000}))[1].splitlines()
    assert first == f"request.{GROUPS}[0]: must be a string, not a number"
    assert len(others) == MOST_MISTAKES


texts = st.text(max_size=5)
anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(texts, inner)),
    max_leaves=10,
)


@given(member=st.sampled_from([*REQUEST, "subResource", "name"]), value=anything)
def test_any_value_is_read_or_refused_with_its_place(member: str, value: object) -> None:
    changes: Raw = {member: value}
    try:
        places = ["request", read(body(**changes)).uid]
    except BadReview as refused:
        places = [mistake.where for mistake in refused.mistakes]

    assert all(places)
    assert places[0].startswith("request")


@given(st.binary())
def test_any_bytes_are_answered(noise: bytes) -> None:
    assert refusal(noise)[1]


# Answers.


ADD = Operation("add", "/spec/affinity", {"nodeAffinity": {}})


def response(answer: bytes) -> Raw:
    review: Raw = orjson.loads(answer)
    assert {key: review[key] for key in review if key != "response"} == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
    }
    return dict(review["response"])


def test_patch_is_base64_of_json_operations() -> None:
    carried = response(encode("u", Patched(operations=(ADD,))))
    patch = orjson.loads(base64.b64decode(carried.pop("patch"), validate=True))
    assert carried == {"uid": "u", "allowed": True, "patchType": "JSONPatch"}
    assert patch == [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": {}}}]


def test_empty_patch_is_omitted() -> None:
    assert encode("u", Patched(operations=())) == encode("u", Allowed())


CODES = {StatusReason.FORBIDDEN: 403, StatusReason.INVALID: 422}
"""None of them is one that clients take for "try again"."""


@pytest.mark.parametrize("reason", StatusReason)
def test_a_refusal_has_the_code_of_its_reason(reason: StatusReason) -> None:
    assert response(encode("u", Denied(reason=reason, message="numalign: no."))) == {
        "uid": "u",
        "allowed": False,
        "status": {"code": CODES[reason], "reason": reason.value, "message": "numalign: no."},
    }


CUTS = [
    # how it ends                     the message                          what is left
    ("whole, at the limit",           "a" * 900,                           "a" * 900),
    ("at the last sentence",          "b" * 600 + ". C. " + "d" * 300,     "b" * 600 + ". C."),
    ("not at an early sentence",      "No. " + "b" * 880 + " " + "c" * 99, "No. " + "b" * 880 + "…"),
    ("within a word of great length", "e" * 901,                           "e" * 899 + "…"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "left"), table(CUTS))
def test_a_long_refusal_ends(message: str, left: str) -> None:
    denied = Denied(reason=StatusReason.FORBIDDEN, message=message)
    assert response(encode("u", denied))["status"]["message"] == left


@given(st.lists(st.sampled_from(["a ", "b. ", "\n", "c" * 100, "d" * 440]), max_size=20).map("".join))
def test_denial_is_short_and_keeps_its_beginning(message: str) -> None:
    denied = Denied(reason=StatusReason.FORBIDDEN, message=message)
    cut = response(encode("u", denied))["status"]["message"]
    assert len(cut) <= 900
    assert message.startswith(cut.removesuffix("…"))
    assert cut == message or len(cut) >= 450


WARNINGS = [
    # what happens                the warnings              what is carried
    ("nothing to say",            ("", " \n"),              []),
    ("said twice",                ("a", "b", "a"),          ["a", "b"]),
    ("control characters",        ("a\n  b\x00c\x7f\u0085d\te",), ["a b c d e"]),
    ("a long word",               ("a" * 257,),             ["a" * 255 + "…"]),
    ("too long",                  ("a" * 200 + " " + "b" * 99,), ["a" * 200 + "…"]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "carried"), table(WARNINGS))
def test_warnings(lines: tuple[str, ...], carried: list[str]) -> None:
    assert response(encode("u", Allowed(warnings=lines))).get("warnings", []) == carried


def test_warnings_go_with_a_refusal_and_a_patch_too() -> None:
    denied = Denied(reason=StatusReason.FORBIDDEN, message="no", warnings=("w",), audit={"verdict": "v"})
    patched = Patched(operations=(ADD,), warnings=("w",), audit={"verdict": "v"})
    for answer in (response(encode("u", denied)), response(encode("u", patched))):
        assert (answer["warnings"], answer["auditAnnotations"]) == (["w"], {"verdict": "v"})


def test_warnings_beyond_the_budget_are_counted() -> None:
    answered = response(encode("u", Allowed(warnings=tuple(f"{n:0256}" for n in range(40)))))
    assert answered["warnings"] == [*(f"{n:0256}" for n in range(15)), "25 more warnings are not shown"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=400), max_size=60))
def test_the_api_server_never_cuts_or_drops_a_warning(lines: list[str]) -> None:
    carried = response(encode("u", Allowed(warnings=tuple(lines)))).get("warnings", [])
    assert all(0 < len(warning) <= 256 for warning in carried)
    assert sum(map(len, carried)) <= 4096
    assert "Cc" not in {unicodedata.category(character) for warning in carried for character in warning}


def test_causes_show_field_and_printable_text() -> None:
    where = "metadata.annotations[numalign.io/policy]"
    causes = (Mistake(where, "unknown", "singel", 0), Mistake("\x1b[2J", "no\x07"), Mistake("x", "y" * 5000))
    message = "a\x1b[31mred\nline"
    denied = Denied(reason=StatusReason.INVALID, message=message, causes=(*causes, *causes[-1:] * 999))
    status = response(encode("u", denied))["status"]

    first, second, *others = status["details"]["causes"]
    assert status["message"] == "a [31mred\nline"
    assert first == {
        "reason": "FieldValueInvalid", "field": where, "message": "unknown\n  singel\n  ^"
    }  # fmt: skip
    assert (second["field"], second["message"]) == (" [2J", "no ")
    assert [len(each["message"]) for each in others] == [900] * 30


@pytest.mark.parametrize("key", ["numalign.io/verdict", "", "-x", "x" * 64, "a b"])
def test_invalid_audit_key_is_an_error(key: str) -> None:
    with pytest.raises(ValueError, match="audit annotations cannot have the keys"):
        Patched(operations=(), audit={"verdict": "fine", key: "v"})
