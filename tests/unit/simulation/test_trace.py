"""A trace is read from the published lists or from tables of shapes, with all mistakes reported at once."""

from collections import Counter
from pathlib import Path

import pytest

from kubectl_numa.demo import DATA
from kubectl_numa.demo.openb import shapes
from numalign.model.errors import BadInput, cut
from numalign.simulation import tables
from numalign.simulation import trace as traces
from numalign.simulation.tables import TableLayout, read_table
from numalign.simulation.trace import MIB, TraceNode, TracePod, read_trace
from tests.worlds.notation import table

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,1024,2,T4\nb,4000,512,0,\n"
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
a,1000,64,1,500,V100M16|V100M32,LS
b,2000,64,0,0,,BE
c,3000,64,2,1000,,Guaranteed
"""


def lists(folder: Path, nodes: str = NODES, pods: str = PODS) -> tuple[Path, Path]:
    files = folder / "nodes.csv", folder / "pods.csv"
    for file, text in zip(files, (nodes, pods), strict=True):
        file.write_text(text, encoding="utf-8")
    return files


def test_published_lists_are_read(tmp_path: Path) -> None:
    trace = read_trace(*lists(tmp_path))
    assert trace.nodes == [TraceNode(8000, 1024 * MIB, 2, "T4"), TraceNode(4000, 512 * MIB)]
    assert trace.pods == [
        TracePod(1000, 64 * MIB, 1, 500, frozenset({"V100M16", "V100M32"})),
        TracePod(2000, 64 * MIB, guaranteed=False),
        TracePod(3000, 64 * MIB, 2, 1000),
    ]


def test_row_with_a_count_is_repeated(tmp_path: Path) -> None:
    pods = "cpu_milli,memory_mib,num_gpu,gpu_milli,burstable,count\n1000,64,1,500,1,3\n"
    trace = read_trace(*lists(tmp_path, pods=pods))
    whole = [TracePod(1000, 64 * MIB, 1, 500, guaranteed=guaranteed) for guaranteed in (True, True, False)]
    assert trace.pods == whole


def test_bundled_tables_have_all_nodes_and_pods() -> None:
    trace = read_trace(DATA / shapes.NODES, DATA / shapes.PODS)
    assert (len(trace.nodes), len(trace.with_gpus().nodes), len(trace.pods)) == (1523, 1213, 8152)
    assert sum(node.gpus for node in trace.nodes) == 6212
    assert sum(pod.gpu_milli for pod in trace.pods) == 6_086_800
    assert Counter(pod.guaranteed for pod in trace.pods) == {True: 4654, False: 3498}


def test_mistakes_of_both_tables_are_reported_together(tmp_path: Path) -> None:
    nodes = "cpu_milli,memory_mib,gpu\n8000,x,2\n8000,1,33\n"
    rows = ("1,1,1,0,0,1", "1,1,1,1001,0,1", "1,1,2,500,0,1", "1,1,33,1000,0,1", "1,1,0,0,2,1")
    pods = "\n".join(("cpu_milli,memory_mib,num_gpu,gpu_milli,burstable,count", *rows))
    with pytest.raises(BadInput) as caught:
        read_trace(*lists(tmp_path, nodes, pods))
    assert [str(mistake).removeprefix(f"{tmp_path}/") for mistake in caught.value.mistakes] == [
        "nodes.csv:2: memory_mib is 'x': a whole number is needed",
        "pods.csv:2: gpu_milli is 0: with one GPU it is 1 to 1000",
        "pods.csv:3: gpu_milli is 1001: with one GPU it is 1 to 1000",
        "pods.csv:4: gpu_milli is 500: with several GPUs it is 1000",
        "pods.csv:5: num_gpu is 33: the maximum is 32",
        "pods.csv:6: burstable is 2: more than there are pods",
    ]


def test_too_many_nodes_or_gpus_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="gpu is 33: the maximum is 32"):
        read_trace(*lists(tmp_path, "cpu_milli,memory_mib,gpu\n8000,1,33\n"))
    monkeypatch.setattr(traces, "MOST_NODES", 1)
    with pytest.raises(BadInput, match="more than 1 in all: a smaller trace is needed"):
        read_trace(*lists(tmp_path))


# Tables of any layout.

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
