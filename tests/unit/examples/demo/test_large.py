"""Many pods: progress, outcomes and duration."""

from collections.abc import Callable
from itertools import count

from rich.console import Console

from examples.demo import large
from examples.demo.large import Reviewed
from examples.demo.tally import OutcomeCounts
from kubectl_numa.lines import TextWriter
from tests.unit.examples.demo.conftest import fake
from tests.unit.kubectl_numa.objects import manifest


async def test_pipe_gets_a_line_for_every_tenth(output: TextWriter, text: Callable[[], str]) -> None:
    pods = [manifest(f"a-{number}", "1", namespace="default") for number in range(40)]
    seconds = count()
    reviewed = await large.review(pods, fake(), output, clock=lambda: float(next(seconds)))
    lines = text().splitlines()
    assert lines[0] == "   10%       4 of 40 pods    1.0 s"
    assert lines[-1] == "  100%      40 of 40 pods   10.0 s"
    assert len(lines) == 10
    assert str(reviewed.counts) == "40 reviewed, 40 admitted (0 patched, 0 warned), 0 denied"
    assert reviewed.seconds == 12


async def test_terminal_gets_a_bar(output: TextWriter, text: Callable[[], str]) -> None:
    terminal = TextWriter(Console(file=output.console.file, width=80, force_terminal=True, color_system=None))
    await large.review([manifest("a", "1", namespace="default")] * 3, fake(), terminal)
    assert "3/3" in text()
    assert "%" not in text()


def test_summary_lists_outcomes_warnings_and_causes(output: TextWriter, text: Callable[[], str]) -> None:
    tally = OutcomeCounts()
    tally.words.update(reviewed=1000, admitted=990, untouched=10, patched=980, warned=5, denied=10)
    tally.causes.update({"too large": 7, "a mistake": 3})
    tally.warnings.update({"later": 5})
    large.show(Reviewed(tally, 4.0), output)
    assert text() == (
        "\n"
        "  admitted        990\n"
        "    untouched      10\n"
        "    patched       980\n"
        "    warned          5\n"
        "  denied           10\n"
        "\n"
        "  warned, by message (a pod may have several warnings)\n"
        "        5  later\n"
        "\n"
        "  denied, by cause\n"
        "        7  too large\n"
        "        3  a mistake\n"
        "\n"
        "  2,000 reviews (mutate, then validate) in 4.0 s: 500 per second\n"
    )


def test_further_causes_are_summed_up(output: TextWriter, text: Callable[[], str]) -> None:
    tally = OutcomeCounts()
    tally.causes.update({f"cause {number}": 100 - number for number in range(large.CAUSES_SHOWN + 3)})
    large.show(Reviewed(tally, 0), output)
    others = sum(100 - number for number in range(large.CAUSES_SHOWN, large.CAUSES_SHOWN + 3))
    assert f"{others:>9,}  3 other causes\n" in text()
