"""Lengths, levels, letters and places of a drawing."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from numalign.map import drawing
from numalign.map.views import CacheBox, Condition, CoreBox, CpuBox, CpuUse, DeviceBox, HeldInZones, PodOnNode
from numalign.model.resources import Resources, ZoneId
from tests.unit.map.example_views import GPU, node_view, pod, tile, zone


def test_level_grows_with_use() -> None:
    """All is free, most, three quarters, half, a quarter, little, nothing, and less than that."""
    free = {62: [62, 61, 1, 0, -3], 64: [48, 47, 32, 16, 15]}
    levels = {total: [drawing.level(total, each) for each in amounts] for total, amounts in free.items()}

    assert levels == {62: [0, 1, 4, 5, 5], 64: [1, 2, 2, 3, 4]}


@given(total=st.integers(1, 2**50), part=st.integers(0, 2**50), width=st.integers(2, 500))
def test_only_empty_looks_empty_and_only_full_full(total: int, part: int, width: int) -> None:
    part = min(part, total)
    length = drawing.length(part, total, width)

    assert 0 <= length <= width
    assert (length == 0) == (part == 0)
    assert (length == width) == (part == total)


def test_each_zone_has_a_bar_and_a_row() -> None:
    zones = [zone(0, 62, 31), zone(1, 62, 0), zone(2, 62, 62), zone(3, 0, 0)]
    bars, words = drawing.bars(zones, "cpu"), drawing.zone_words(zones, "cpu")

    assert bars.paths == ((2, "M0 3h48"), (5, "M0 9h96"))
    assert bars.lacking == "M0 21h96"
    assert words == "zone 0: 31 of 62, zone 1: 0 of 62, zone 2: 62 of 62, zone 3: 0 of 0"
    first, second = drawing.zone_rows([zone(0, 62, 31), zone(3, 0, 0)], "cpu")
    assert (first.id, first.free, first.level, first.length * 2) == (0, "31", 2, first.track)
    assert (second.id, second.free, second.length) == (3, "", 0)


def test_conditions_have_letters_and_words() -> None:
    ill = tile(conditions=frozenset({Condition.STALE, Condition.MISALIGNED}))

    assert drawing.letters(ill) == "MS"
    assert drawing.words(ill.conditions) == "misaligned, stale"
    assert drawing.MARKS.keys() == set(Condition)
    assert len({letter for letter, _ in drawing.MARKS.values()}) == len(Condition)


def test_forty_pods_differ_in_colour_or_pattern() -> None:
    assert len({(drawing.colour(at), drawing.pattern(at)) for at in range(40)}) == 40


@given(st.lists(st.integers(1, 8), max_size=130))
def test_cpus_do_not_overlap(threads: list[int]) -> None:
    cores = tuple(
        CoreBox(at, tuple(CpuBox(100 * at + one, CpuUse.FREE) for one in range(count)))
        for at, count in enumerate(threads)
    )
    drawn = drawing.cores(CacheBox(0, cores))
    cells = [cell for core in drawn.cores for cell in core.cpus]

    assert len({(cell.x, cell.y) for cell in cells}) == len(cells) == sum(threads)
    for cell in cells:
        assert 0 <= cell.x <= drawn.width - drawing.CPU_WIDTH
        assert 0 <= cell.y <= drawn.height - drawing.CPU_HEIGHT


def test_unknown_use_is_drawn_after_the_pods() -> None:
    pods = [pod(0), pod(1, "trainer-1")]
    cpu = drawing.resource_bars(zone(0, 62, 30), pods)[0]

    assert [(share.pod, share.amount) for share in cpu.held] == [(0, 8000), (1, 8000), (None, 16000)]
    assert [(share.pod, share.amount) for share in cpu.predicted] == [(0, 8000), (1, 8000)]
    assert (cpu.mine, cpu.others) == (16000, 16000)
    assert [share.x for share in cpu.held] == sorted(share.x for share in cpu.held)


def test_amounts_of_several_zones_are_in_no_bar() -> None:
    both = (HeldInZones(("node-0", "node-1"), Resources({"cpu": 8000})),)
    bars = drawing.resource_bars(zone(0, 62, 62), [_holding(both)])

    assert all(bar.held == () for bar in bars)


@given(st.lists(st.integers(0, 2**45), max_size=20), st.integers(1, 2**45))
def test_shares_stay_in_their_bar(amounts: list[int], free: int) -> None:
    pods = [_holding((HeldInZones(("node-0",), Resources({"memory": amount})),)) for amount in amounts]
    for bar in drawing.resource_bars(zone(0, 62, min(free, 62)), pods):
        for share in bar.held:
            assert 0 <= share.x <= drawing.SHARE_WIDTH
            assert share.width >= 1


def test_devices_are_ordered_by_state() -> None:
    box = DeviceBox(GPU, (ZoneId(0),), total=5, healthy=4, free=2)
    pieces = drawing.pieces(box, zone(0), [pod(0)])

    states = [CpuUse.HELD, CpuUse.TAKEN, CpuUse.FREE, CpuUse.FREE, CpuUse.UNKNOWN]
    assert [(piece.state, piece.pod) for piece in pieces] == [*zip(states, [0, *[None] * 4], strict=True)]


@given(
    total=st.integers(0, 64),
    ill=st.integers(0, 64),
    free=st.none() | st.integers(-3, 64),
    taken=st.integers(0, 99),
)
def test_pieces_are_at_most_the_devices(total: int, ill: int, free: int | None, taken: int) -> None:
    box = DeviceBox(GPU, (ZoneId(0),), total, max(total - ill, 0), free)
    holder = _holding((HeldInZones(("node-0",), Resources({GPU: taken})),))

    assert len(drawing.pieces(box, zone(0), [holder])) <= total


def test_devices_of_an_unknown_machine_are_its_zones_own() -> None:
    box = node_view().sockets[0].zones[0]
    bare = type(box)(box.use, (), (), ())

    assert drawing.device_boxes(box) == box.devices
    assert [(each.resource, each.total, each.free) for each in drawing.device_boxes(bare)] == [(GPU, 4, 1)]


def _holding(amounts: tuple[HeldInZones, ...]) -> PodOnNode:
    return replace(pod(0), observed=amounts, predicted=None)
