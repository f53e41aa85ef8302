"""Quantities, as Kubernetes reads them (k8s.io/apimachinery, pkg/api/resource)."""

from collections.abc import Callable

import pytest

from numalign.model.errors import BadQuantity
from numalign.model.quantity import LARGEST, millis, render_millis, render_units, units
from tests.worlds.notation import table

READ = [
    # what it shows                         text                   units      millis
    ("a bare number",                       "4",                   4,         4000),
    ("nothing",                             "0",                   0,         0),
    ("zero with a sign is no negative",     "-0.000",              0,         0),
    ("a plus sign",                         "+3",                  3,         3000),
    ("thousandths, rounded up to whole",    "1500m",               2,         1500),
    ("a fraction, rounded up to whole",     "0.1",                 1,         100),
    ("no digit before the point",           ".5",                  1,         500),
    ("billionths, rounded up",              "1n",                  1,         1),
    ("finer than billionths is rounded up", "0.0000000001",        1,         1),
    ("decimal kilo is small",               "2k",                  2000,      2 * 10**6),
    ("E alone is exa",                      "1E",                  10**18,    10**21),
    ("E with a number is an exponent",      "1E3",                 1000,      10**6),
    ("a negative exponent",                 "5e-1",                1,         500),
    ("binary mega",                         "2Mi",                 2**21,     2**21 * 1000),
    ("binary giga with a fraction",         "1.5Gi",               3 * 2**29, 3 * 2**29 * 1000),
    ("the largest there is",                str(LARGEST),          LARGEST,   LARGEST * 1000),
    ("one more, which is capped",           "9223372036854775808", LARGEST,   LARGEST * 1000),
    ("capped by its exponent",              "1e999",               LARGEST,   LARGEST * 1000),
]  # fmt: skip


@pytest.mark.parametrize(("text", "whole", "thousandths"), table(READ))
def test_quantity_is_read_as_kubernetes_reads_it(text: str | int, whole: int, thousandths: int) -> None:
    assert (units(text), millis(text)) == (whole, thousandths)


REFUSED = [
    # what it shows                   text        a part of the answer
    ("a byte habit with its meaning", "4GB",      "did you mean G or Gi?"),
    ("a capital K",                   "4K",       "did you mean k or Ki?"),
    ("an unknown suffix",             "4cores",   "write a number with at most one suffix"),
    ("two points",                    "1.1.1",    "at most one suffix"),
    ("nothing",                       "",         '"" is not a quantity'),
    ("a line end behind",             "4\n",      "is not a quantity"),
    ("a digit of another script",     "٤",        "is not a quantity"),
    ("negative",                      "-1",       '"-1" is negative: an amount is zero or more'),
    ("a boolean",                     True,       "True is not a quantity"),
    ("a float",                       0.5,        "0.5 is not a quantity: write a number"),
    ("an endless text",               "9" * 5000, "is not a quantity"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), table(REFUSED))
def test_invalid_quantity_is_refused_with_the_reason(text: object, message: str) -> None:
    for read in (units, millis):
        with pytest.raises(BadQuantity) as caught:
            read(text)
        assert message in str(caught.value)


POINTED_AT = [("at the suffix", "16GB", 2), ("at the second point", "1.1.1", 3), ("at the end", "-", 1)]


@pytest.mark.parametrize(("text", "at"), table(POINTED_AT))
def test_caret_is_at_the_invalid_place(text: str, at: int) -> None:
    with pytest.raises(BadQuantity) as caught:
        units(text)
    [mistake] = caught.value.mistakes
    assert (mistake.text, mistake.at) == (text, at)


def test_text_of_80_characters_is_read_and_no_longer_one() -> None:
    assert units("0" * 79 + "4") == 4
    with pytest.raises(BadQuantity) as caught:
        units("0" * 5000 + "4")
    assert len(str(caught.value)) < 200
    with pytest.raises(BadQuantity):
        units("0" * 80 + "4")


RENDERED = [
    # what it shows                         render         amount      text
    ("whole CPUs stand bare",               render_millis, 8000,       "8"),
    ("parts of a CPU stand in thousandths", render_millis, 1500,       "1500m"),
    ("the largest suffix that divides",     render_units,  16 * 2**30, "16Gi"),
    ("never rounded to a nicer suffix",     render_units,  2**30 + 1,  "1073741825"),
    ("no bytes",                            render_units,  0,          "0"),
]  # fmt: skip


@pytest.mark.parametrize(("render", "amount", "text"), table(RENDERED))
def test_amount_is_rendered_as_the_shortest_text(
    render: Callable[[int], str], amount: int, text: str
) -> None:
    assert render(amount) == text
