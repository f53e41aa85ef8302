"""Tables of Markdown, as the generated pages have them."""

from collections.abc import Iterable, Sequence


def cell(text: str) -> str:
    """A text in one cell: on one line, with nothing in it that Markdown or HTML would read."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;").replace("*", r"\*")


def code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
