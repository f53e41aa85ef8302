"""What flags of measurements say."""

from argparse import ArgumentTypeError

import pytest

from tools.bench import command_line


def test_numbers_stay_in_their_order() -> None:
    assert command_line.numbers()("500,100") == (500, 100)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "a whole number above zero is needed"),
        ("-1", "a whole number above zero is needed"),
        ("1,", "'': a whole number above zero is needed"),
        ("7", "6 is the most"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(ArgumentTypeError, match=said):
        command_line.numbers(most=6)(text)
