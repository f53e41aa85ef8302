"""What browsers send when a form is submitted."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numalign.map import forms
from numalign.model.errors import BadInput

URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"


def part(name: str, content: str, head: str = "") -> str:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n{head}\r\n{content}\r\n'


async def test_both_encodings_have_the_same_fields() -> None:
    parts = part("manifest", "a: b\r\n") + part("replicas", "2") + part("empty", "") + "--x--\r\n"
    urlencoded = await forms.fields(b"manifest=a%3A+b%0D%0A&replicas=2&empty=", URLENCODED)

    assert urlencoded == await forms.fields(parts.encode(), MULTIPART)
    assert urlencoded == {"manifest": b"a: b\r\n", "replicas": b"2", "empty": b""}
    assert await forms.fields(b"a=1&a=2", URLENCODED) == {"a": b"2"}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "--x",
        "--x\r\nnonsense",
        "--y\r\n\r\n--y--",
        "--x\r\n\r\nof no name\r\n--x--",
        part("a", "--y\r\n\r\nz\r\n--y--", "Content-Type: multipart/mixed; boundary=y\r\n") + "--x--",
        "--x\r\n" + "A: b\r\n" * 20_000,
        "".join(part(f"f{number}", "") for number in range(forms.MOST_FIELDS + 1)) + "--x--",
    ],
)
async def test_an_unreadable_form_is_a_mistake(body: str) -> None:
    with pytest.raises(BadInput, match="the form cannot be read"):
        await forms.fields(body.encode(), MULTIPART)


@given(st.binary(max_size=200), st.sampled_from([URLENCODED, MULTIPART, "multipart/form-data", "a/b", ""]))
def test_any_body_is_a_form_or_a_mistake(body: bytes, content_type: str) -> None:
    for data in (body, b"--x\r\n" + body, part("a", "").encode() + body):
        with contextlib.suppress(BadInput):
            assert len(asyncio.run(forms.fields(data, content_type))) <= forms.MOST_FIELDS


def test_invalid_utf_8_is_replaced() -> None:
    assert forms.text({"a": b"x\xff"}, "a") == "x\N{REPLACEMENT CHARACTER}"
    assert forms.text({}, "a") == ""
