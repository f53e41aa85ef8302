"""
Kubernetes quantities as exact integers.

`resource.ParseQuantity` of k8s.io/apimachinery reads decimal and binary suffixes and exponents, and keeps at
most nine decimals. Its `Value` and `MilliValue` round up. This module returns the same integers: nothing is a
float, and nothing is rounded except where Kubernetes itself rounds.

No amount is larger than 2^63-1 units: ParseQuantity caps binary amounts there. A larger decimal one is valid
too, but overflows in `Value`, and no kubelet can allocate it (getRequestedResources of the memory manager).
"""

import re
from types import MappingProxyType

from numalign.model.errors import BadQuantity, Mistake, cut

NANO = 10**9
MICRO = 10**6
LARGEST = 2**63 - 1

# An amount has at most 19 digits and nine decimals; a much longer text is an attack.
_LONGEST = 80

# A number with so many digits is below any limit.
_PLAIN_DIGITS = 18
_SHOWN = 32

_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?")

# Suffix -> (factor, divisor). Kubernetes has no other suffixes, and no capital K.
_SUFFIXES = MappingProxyType(
    {
        None: (1, 1),
        "n": (1, 10**9),
        "u": (1, 10**6),
        "m": (1, 10**3),
        "k": (10**3, 1),
        "M": (10**6, 1),
        "G": (10**9, 1),
        "T": (10**12, 1),
        "P": (10**15, 1),
        "E": (10**18, 1),
        "Ki": (2**10, 1),
        "Mi": (2**20, 1),
        "Gi": (2**30, 1),
        "Ti": (2**40, 1),
        "Pi": (2**50, 1),
        "Ei": (2**60, 1),
    }
)

# Common mistakes, and the suffixes that they probably mean.
_LIKELY_SUFFIXES = MappingProxyType(
    {
        "K": "k or Ki",
        "KB": "k or Ki",
        "MB": "M or Mi",
        "GB": "G or Gi",
        "TB": "T or Ti",
        "g": "G or Gi",
    }
)


def units(text: object) -> int:
    """Return whole units (bytes, pieces), rounded up like `Quantity.Value`.

    Raise `BadQuantity` if the text is not a quantity or is negative.
    """
    return _ceiling(_nanos(text), NANO)


def millis(text: object) -> int:
    """Return thousandths (millicores), rounded up like `Quantity.MilliValue`; raise as `units` does."""
    return _ceiling(_nanos(text), MICRO)


def render_units(amount: int) -> str:
    """Return the shortest exact quantity of an amount in units; binary suffixes where they divide it."""
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        factor = _SUFFIXES[suffix][0]
        if amount and amount % factor == 0:
            return f"{amount // factor}{suffix}"
    return str(amount)


def render_millis(amount: int) -> str:
    """Return the shortest exact quantity of an amount in thousandths: `8` or `1500m`."""
    return f"{amount}m" if amount % 1000 else str(amount // 1000)


def _nanos(text: object) -> int:
    """Return an amount in billionths, rounded up from anything finer, as ParseQuantity does."""
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise BadQuantity(
            [Mistake("", f"{text!r} is not a quantity: write a number or a text like 4 or 500m")]
        )
    written = str(text)
    # Most amounts are bytes and pieces, without a suffix.
    if len(written) <= _PLAIN_DIGITS and written.isascii() and written.isdigit():
        return int(written) * NANO
    match = _SHAPE.fullmatch(written) if len(written) <= _LONGEST else None
    if not match or not (match[2] or match[3]):
        raise BadQuantity([_unreadable(written)])
    sign, integer, fraction, suffix = match.groups()
    if sign == "-" and (integer or "0").strip("0") + (fraction or "").strip("0"):
        raise BadQuantity([Mistake("", f'"{written}" is negative: an amount is zero or more')])
    return min(_scaled(integer or "", fraction or "", suffix), LARGEST * NANO)


def _scaled(integer: str, fraction: str, suffix: str | None) -> int:
    digits = int((integer + fraction) or "0")
    if suffix and suffix[0] in "eE" and suffix[1:].lstrip("+-").isdigit():
        # Beyond these exponents an amount is too large, or rounds up to the least, whatever its digits.
        exponent = max(-2 * _LONGEST, min(int(suffix[1:]), _LONGEST))
        factor, divisor = (10**exponent, 1) if exponent >= 0 else (1, 10**-exponent)
    else:
        factor, divisor = _SUFFIXES[suffix]
    return _ceiling(digits * factor * NANO, divisor * 10 ** len(fraction))


def _ceiling(amount: int, divisor: int) -> int:
    return -(-amount // divisor)


def _unreadable(written: str) -> Mistake:
    shown = cut(written, _SHOWN) if len(written) > _LONGEST else written
    number = re.match(r"[+-]?[0-9]*\.?[0-9]*", written[:_LONGEST])
    at = number.end() if number else 0
    suffix = _LIKELY_SUFFIXES.get(written[at:])
    hint = (
        f"; did you mean {suffix}?"
        if suffix
        else ": write a number with at most one suffix, like 4, 500m or 16Gi"
    )
    return Mistake("", f'"{shown}" is not a quantity{hint}', shown, min(at, len(shown)))
