"""Label selectors as they are typed after -l. Many cases are those of kubectl's own reader."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.kube import selectors
from numalign.kube.selectors import EVERYTHING, LONGEST, BadSelector, LabelSelector
from numalign.model.constraints import Operator, Requirement
from tests.worlds.notation import table

IN, NOT_IN, GT, LT = Operator.IN, Operator.NOT_IN, Operator.GT, Operator.LT
EXISTS, ABSENT = Operator.EXISTS, Operator.DOES_NOT_EXIST


@pytest.mark.parametrize(("text", "expected"), table([
    # what it shows                          the text              key, operator, values
    ("an equality",                          "tier=gold",          [("tier", IN, ["gold"])]),
    ("an empty value",                       "tier=",              [("tier", IN, [""])]),
    ("one of several values",                "tier in (a, b)",     [("tier", IN, ["a", "b"])]),
    ("none of several values",               "tier notin (a,b)",   [("tier", NOT_IN, ["a", "b"])]),
    ("an empty value among them",            "tier in (a,)",       [("tier", IN, ["a", ""])]),
    ("more than a number",                   "count>7",            [("count", GT, ["7"])]),
    ("a key that is an operator elsewhere",  "in in (notin)",      [("in", IN, ["notin"])]),
    ("several requirements",                 "a!=b,!c,d",
     [("a", NOT_IN, ["b"]), ("c", ABSENT, []), ("d", EXISTS, [])]),
]))  # fmt: skip
def test_a_selector_reads_as_in_kubectl(text: str, expected: list[tuple[str, Operator, list[str]]]) -> None:
    assert selectors.parse(text).requirements == tuple(
        Requirement(key, operator, frozenset(values)) for key, operator, values in expected
    )


@pytest.mark.parametrize("text", ["", " ", "\t\r\n"])
def test_an_empty_selector_selects_everything(text: str) -> None:
    assert selectors.parse(text) == EVERYTHING
    assert EVERYTHING.matches({})


def test_labels_are_selected_if_all_requirements_hold() -> None:
    labels = {"tier": "gold", "spot": "", "count": "8"}
    assert selectors.parse("tier=gold,spot=,!other,other!=gold,count>7,count<10").matches(labels)
    assert not selectors.parse("tier=gold,!spot").matches(labels)


SEPARATOR, CLOSING = '"," or the end', '"," or ")"'
KEY = "the key of a label"


@pytest.mark.parametrize(("text", "expected", "actual", "at"), table([
    # what it shows                 the text          what is expected, what is there, and where
    ("a value of what is not",      "!x=a",           SEPARATOR,  '"="',      2),
    ("no values",                   "x in ()",        "a value",  '")"',      6),
    ("values without parentheses",  "x in a",         '"("',      '"a"',      5),
    ("values without an end",       "x in (a",        CLOSING,    "the end",  7),
    ("nothing denied",              "!",              KEY,        "the end",  1),
]))  # fmt: skip
def test_syntax_errors_have_their_place(text: str, expected: str, actual: str, at: int) -> None:
    with pytest.raises(BadSelector) as raised:
        selectors.parse(text, where="--selector")
    message = f"expected {expected} instead of {actual}"
    assert str(raised.value) == f"--selector: {message}\n  {text}\n  {' ' * at}^"


@pytest.mark.parametrize(("text", "message"), table([
    # what it shows                 the text      what is said
    ("a number that is none",   "a=b,x<a",   "'a' is not a whole number, which > and < require"),
    ("a key that no label has",     "a=b,-x=c",   "no label can have the key '-x'"),
    ("a value that no label has",   "a=b,x=_",   "no label can have the value '_'"),
]))  # fmt: skip
def test_impossible_requirements(text: str, message: str) -> None:
    with pytest.raises(BadSelector) as raised:
        selectors.parse(text)
    assert str(raised.value) == f"-l: {message}\n  {text}\n      ^"


def test_all_mistakes_are_raised_together() -> None:
    with pytest.raises(BadSelector) as raised:
        selectors.parse("-a=b,c=-d,e f")
    assert [mistake.at for mistake in raised.value.mistakes] == [0, 5, 12]


def test_a_selector_is_limited_in_length() -> None:
    with pytest.raises(BadSelector, match="is 8,193 characters long; at most 8,192 are allowed"):
        selectors.parse("a" * (LONGEST + 1))


@pytest.mark.parametrize("repeated", ["a,", ",", "(", "!", " ", "a in (", "a in (,,,),", "=-"])
def test_the_time_to_parse_is_linear(repeated: str) -> None:
    text = (repeated * LONGEST)[:LONGEST]
    begun = time.process_time()
    try:
        selectors.parse(text)
    except BadSelector as error:
        assert len(str(error)) < 100_000  # noqa: PT017 - most are wrong, and some are not
    assert time.process_time() - begun < 1


KEYS = st.from_regex(r"[a-z]([a-z0-9.-]{0,5}[a-z0-9])?", fullmatch=True)
VALUES = st.one_of(st.just(""), KEYS)
NUMBERS = st.integers(0, 10**9).map(lambda number: frozenset({str(number)}))
COMPARING = st.builds(Requirement, KEYS, st.sampled_from([GT, LT]), NUMBERS)
AMONG = st.builds(
    Requirement, KEYS, st.sampled_from([IN, NOT_IN]), st.frozensets(VALUES, min_size=1, max_size=3)
)
BEING = st.builds(Requirement, KEYS, st.sampled_from([EXISTS, ABSENT]))


@given(st.lists(st.one_of(COMPARING, AMONG, BEING), max_size=4).map(tuple).map(LabelSelector))
def test_a_written_selector_is_parsed_as_the_same(selector: LabelSelector) -> None:
    assert selectors.parse(str(selector)) == selector
