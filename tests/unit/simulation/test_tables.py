"""Tables of a trace: their rows, and all mistakes at once."""

from pathlib import Path

import pytest

from numalign.model.errors import BadInput, cut
from numalign.simulation import tables
from numalign.simulation.tables import TableLayout, read_table
from tests.worlds.notation import table

LAYOUT = TableLayout({"cpu": None, "count": 1}, {"model": None, "remark": "-"})


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        read_table(written(folder, text), LAYOUT)
    return [str(mistake).removeprefix(str(folder / "table.csv")) for mistake in caught.value.mistakes]


def test_row_has_the_columns_of_the_layout_and_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "# counted\nmodel,other,cpu\nA10,x,4000\n")
    (row,) = read_table(path, LAYOUT)
    assert row.where == f"{path}:3"
    assert row.figures == {"cpu": 4000, "count": 1}
    assert row.words == {"model": "A10", "remark": "-"}
    (row,) = read_table(written(tmp_path, "\ufeffcpu,model\n1,a\n"), LAYOUT)
    assert row.figures["cpu"] == 1


NONE = [': there is no column "cpu"', ': there is no column "model"']
WHOLE = ":{}: cpu is '{}': a whole number is needed".format
LONG = "9" * 400
WRONG = [
    ("an empty file", "", NONE),
    ("others", "a,b\n1,2\n", NONE),
    ("a header alone", "cpu,model\n", [": there is no row under the header"]),
    ("every row with what is wrong in it", "cpu,model,count\n1.5,a,1\n-1,b,2\n٣,c,1\n7\n", [
        *(WHOLE(2, "1.5"), WHOLE(3, "-1"), WHOLE(4, "٣")),
        *(":5: count is missing: the row is cut off", ":5: model is missing: the row is cut off")]),
    ("more digits than any amount has", f"cpu,model\n{LONG},a\n", [WHOLE(2, cut(LONG, 64))]),
    ("a column twice", "cpu,model,cpu,other,other\n1,a,2,b,c\n", [': there are 2 columns "cpu": keep one']),
    ("a comma in a number", "cpu,model\n4,000,a\n", [":2: the row has more fields than the header"]),
    # The reason that follows is the library's.
    ("an open quote", 'cpu,model\n"1,a\n', [": not a CSV file: "]),
    ("not UTF-8", "cpu,model\n\udcff,a\n", [": not a CSV file in UTF-8: "]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), table(WRONG))
def test_every_mistake_of_a_table_is_reported(text: str, expected: list[str], tmp_path: Path) -> None:
    for mistake, beginning in zip(mistakes(tmp_path, text), expected, strict=True):
        assert mistake == beginning or (beginning.endswith(": ") and mistake.startswith(beginning))


def test_too_many_rows_or_bytes_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "cpu,model\n1,a\n2,b\n"
    monkeypatch.setattr(tables, "MOST_ROWS", 1)
    assert mistakes(tmp_path, text) == [": more than 1 rows"]
    monkeypatch.setattr(tables, "MOST_BYTES", 4)
    assert mistakes(tmp_path, text) == [": larger than 0 MiB"]
