"""
What people reported of kubelets and published of their clusters: every program says what a kubelet does.

Each file of `cases` is one report: its `source`, what it is `about`, a `snapshot` of a cluster and `pods`, or
`events` for `replay`, and what is right:

* `expected`, by pod: the `verdict` at admission (`admit`, with warnings or without, `warn`, `deny`, `bad` if
  it cannot be read, `invalid` if the API server refuses it, so that no server of ours sees it) and phrases
  that it `says`; by name of the `nodes` the zones that the pod gets, or `fits`, `later`, `never`, or
  `unknown` without a topology; the `amount` that is aligned there, and phrases of `why` it does not fit.
* `replay`: parts of the answers, and phrases that they say. Amounts are in millicores, bytes and counts.
* `notes` and `unsaid`: phrases of the messages about all documents.
* `reviews` that the webhook allows, the details of what `doctor` finds by node, and the answer of `defrag`.

`not_yet` says by command why it is still wrong: remove it with the mistake.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.laws.reports import programs
from tests.laws.reports.programs import Answer, Answers, NodeAnswer

Raw = dict[str, Any]

CASES = Path(__file__).parent / "cases"
# libyaml reads them ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Case:
    """One report, and a folder for the files that commands read."""

    report: Raw
    folder: Path

    @property
    def expected(self) -> dict[str, Raw]:
        """What is right, by pod."""
        expected: dict[str, Raw] = self.report["expected"]
        return expected

    @property
    def documents(self) -> list[Raw]:
        """The pods and workloads."""
        documents: list[Raw] = self.report["pods"]
        return documents

    @property
    def pods(self) -> Path:
        """The pods and workloads, as a file."""
        return self._file("pods.yaml", yaml.safe_dump_all(self.documents))

    @property
    def stored(self) -> Mapping[str, Raw]:
        """What is right of the pods that the API server accepts."""
        return {name: right for name, right in self.expected.items() if right.get("verdict") != "invalid"}

    @property
    def snapshot(self) -> Path:
        """The cluster, as a file."""
        items = self.report["snapshot"]
        if isinstance(items, str):
            return CASES / items
        return self._file("cluster.json", _json({"apiVersion": "v1", "kind": "List", "items": items}))

    @property
    def events(self) -> Path:
        """What happens to a node, as a file."""
        return self._file("events.jsonl", "\n".join(map(_json, self.report["events"])))

    def wrong_messages(self, messages: str) -> Iterator[str]:
        """What messages about all documents lack, and what they must not say."""
        yield from (f"{messages} lacks {one}" for one in self.report.get("notes", ()) if one not in messages)
        yield from (f"{messages} says {one}" for one in self.report.get("unsaid", ()) if one in messages)

    def _file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def replay(case: Case) -> Iterator[str]:
    answers, messages = programs.replayed(case.events)
    for right, answer in zip_longest(case.report["replay"], answers, fillvalue=Raw()):
        parts = {name: value for name, value in right.items() if name != "says"}
        if not contains(answer, parts) or not has_phrases(answer.get("message"), right.get("says", ())):
            yield f"{answer} is not {right}; {messages}"


def check(case: Case) -> Iterator[str]:
    answers, messages = programs.checked(case.pods, case.snapshot, case.documents)
    yield from differences(case.expected, answers)
    yield from case.wrong_messages(messages)


def explain(case: Case) -> Iterator[str]:
    answers, messages = programs.explained(case.pods, case.snapshot, case.documents)
    yield from differences(case.expected, answers)
    yield from case.wrong_messages(messages)


def scorer(case: Case) -> Iterator[str]:
    yield from differences(case.stored, programs.ranked(case.snapshot, case.documents, case.stored))


def webhook(case: Case) -> Iterator[str]:
    reviews = case.report.get("reviews", [])
    answers, allowed = programs.reviewed(case.snapshot, case.documents, reviews)
    yield from differences({name: _of_review(name, right) for name, right in case.stored.items()}, answers)
    yield from (f"{review} is denied" for review, allows in zip(reviews, allowed, strict=True) if not allows)


def doctor(case: Case) -> Iterator[str]:
    findings = programs.diagnosed(case.snapshot)
    for node, right in case.report["doctor"].items():
        details = findings[node]
        if details.keys() != right.keys() or not all(right[one] in details[one] for one in right):
            yield f"{node} has {details}, not {right}"


def defrag(case: Case) -> Iterator[str]:
    if (answer := programs.defragmented(case.pods, case.snapshot)) != case.report["defrag"]:
        yield f"it is {answer}, not {case.report['defrag']}"


COMMANDS: Mapping[str, tuple[Callable[[Case], Iterator[str]], ...]] = {
    "replay": (replay,),
    "expected": (check, explain, scorer, webhook),
    "doctor": (doctor,),
    "defrag": (defrag,),
}
"""What is wrong with the answer of each command, by the part of a case that says what is right."""


def differences(expected: Mapping[str, Raw], answers: Answers) -> Iterator[str]:
    """Where answers about pods are not what is expected."""
    for name, right in expected.items():
        # A review is of a workload as a whole.
        answer = answers.get(name) or answers.get(name.split()[0]) or Answer("nothing", "")
        if answer.verdict not in _VERDICTS.get(right.get("verdict"), {answer.verdict}):
            yield f"{name}: {answer.verdict} ({answer.text}), not {right['verdict']}"
        if answer.text is not None and not has_phrases(answer.text, right.get("says", ())):
            yield f"{name}: {answer.text}, not {right['says']}"
        if answer.nodes is not None:
            of_node = {node: answer.nodes.get(node, NodeAnswer("nothing")) for node in right.get("nodes", ())}
            yield from (f"{name}: {one}" for one in _wrong_nodes(right, of_node))


_VERDICTS: Mapping[str | None, set[str | None]] = {
    "admit": {"admit", "warn", None},
    "warn": {"warn", None},
    "deny": {"deny", None},
    "bad": {"bad"},
    "invalid": {"bad"},
}
"""The verdicts that are right; a scorer has none of a pod that it can read."""


def _of_review(name: str, right: Raw) -> Raw:
    """What is right in a review: it denies what cannot be read, and only warns of workloads."""
    verdict = right.get("verdict")
    return {**right, "verdict": "deny" if verdict == "bad" else "warn" if "/" in name else verdict}


def _wrong_nodes(right: Raw, answers: Mapping[str, NodeAnswer]) -> Iterator[str]:
    for name, answer in answers.items():
        chance = right["nodes"][name]
        fits = answer.chance == "fits"
        if chance not in (answer.chance, [*answer.zones] if fits else None):
            yield f"{name} is {answer}, not {chance}"
        if fits and right.get("amount", answer.amount) != answer.amount:
            yield f"{name} aligns {answer.amount}, not {right['amount']}"
        if not fits and not has_phrases(answer.why, right.get("why", ())):
            yield f"{name} {answer.why}, not {right['why']}"


def contains(answer: object, right: object) -> bool:
    """Whether an answer is right, and maybe says more."""
    if isinstance(answer, dict) and isinstance(right, dict):
        return all(name in answer and contains(answer[name], value) for name, value in right.items())
    return answer == right


def has_phrases(text: str | None, phrases: Iterable[str]) -> bool:
    """Whether a text says all that it must."""
    return all(phrase in (text or "") for phrase in phrases)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _cases() -> Iterator[Any]:
    for path in sorted(CASES.glob("*.yaml")):
        report = yaml.load(path.read_bytes(), LOADER)  # noqa: S506  a safe loader
        for part, commands in COMMANDS.items():
            for ask in commands if part in report else ():
                late = report.get("not_yet", {}).get(ask.__name__)
                marks = pytest.mark.xfail(reason=late, raises=AssertionError) if late else ()
                yield pytest.param(report, ask, marks=marks, id=f"{path.stem}-{ask.__name__}")


@pytest.mark.parametrize(("report", "ask"), [*_cases()])
def test_programs_say_what_a_kubelet_does(
    report: Raw, ask: Callable[[Case], Iterator[str]], tmp_path: Path
) -> None:
    assert [*ask(Case(report, tmp_path))] == []
