"""Tables of a trace: their rows, and all mistakes at once."""

from pathlib import Path

import pytest

from numalign.model.errors import BadInput, cut
from numalign.simulation import tables
from numalign.simulation.tables import TableLayout, read_table

LAYOUT = TableLayout({"cpu": None, "count": 1}, {"model": None, "remark": "-"})


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode())
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


def test_byte_order_mark_is_no_part_of_a_column(tmp_path: Path) -> None:
    (row,) = read_table(written(tmp_path, "\ufeffcpu,model\n1,a\n"), LAYOUT)
    assert row.figures["cpu"] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [': there is no column "cpu"', ': there is no column "model"'], id="an empty file"),
        pytest.param(
            "a,b\n1,2\n", [': there is no column "cpu"', ': there is no column "model"'], id="others"
        ),
        pytest.param("cpu,model\n", [": there is no row under the header"], id="a header alone"),
        pytest.param(
            "cpu,model,count\n1.5,a,1\n-1,b,2\n٣,c,1\n7\n",
            [
                ":2: cpu is '1.5': a whole number is needed",
                ":3: cpu is '-1': a whole number is needed",
                ":4: cpu is '٣': a whole number is needed",
                ":5: count is missing: the row is cut off",
                ":5: model is missing: the row is cut off",
            ],
            id="every row with what is wrong in it",
        ),
        pytest.param(
            f"cpu,model\n{'9' * 400},a\n",
            [f":2: cpu is '{cut('9' * 400, 64)}': a whole number is needed"],
            id="more digits than any amount has",
        ),
        pytest.param(
            "cpu,model,cpu,other,other\n1,a,2,b,c\n",
            [': there are 2 columns "cpu": keep one'],
            id="a column twice",
        ),
        pytest.param(
            "cpu,model\n4,000,a\n", [":2: the row has more fields than the header"], id="a comma in a number"
        ),
        pytest.param('cpu,model\n"1,a\n', [": not a CSV file: "], id="an open quote"),
    ],
)
def test_every_mistake_of_a_table_is_reported(text: str, expected: list[str], tmp_path: Path) -> None:
    result = mistakes(tmp_path, text)
    # The reason that follows is the library's.
    assert [
        line if not line.startswith(": not a CSV") else ": not a CSV file: " for line in result
    ] == expected


def test_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"cpu,model\n\xff,a\n")
    with pytest.raises(BadInput, match="not a CSV file in UTF-8"):
        read_table(path, LAYOUT)


def test_too_many_rows_or_bytes_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "cpu,model\n1,a\n2,b\n"
    monkeypatch.setattr(tables, "MOST_ROWS", 1)
    assert mistakes(tmp_path, text) == [": more than 1 rows"]
    monkeypatch.setattr(tables, "MOST_BYTES", 4)
    assert mistakes(tmp_path, text) == [": larger than 0 MiB"]
