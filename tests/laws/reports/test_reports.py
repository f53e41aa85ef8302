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

import asyncio
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry

from kubectl_numa.cli import program
from numalign.runtime.settings import load
from scorer.program import ScorerProgram
from scorer.settings import ScorerSettings
from tests.worlds.json_patch import applied
from tests.worlds.log import RecordedLog
from tests.worlds.served import Served
from tests.worlds.webhook import request
from webhook.program import WebhookProgram
from webhook.settings import WebhookSettings

Raw = dict[str, Any]

# What programs say: each is asked in this process, as its callers ask it.

_HERE = ("--bind=127.0.0.1", "--port=0", "--metrics-port=0", "--drain-seconds=0", "--insecure-http")


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """One node: `fits`, `later`, `never` or `unknown`, what the pod gets in which zones, or why not."""

    chance: str
    zones: tuple[int, ...] = ()
    amount: Mapping[str, str] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One pod: `admit`, `warn`, `deny` or `bad`, texts about that, and nodes; None for what is not said."""

    verdict: str | None = None
    text: str | None = None
    nodes: Mapping[str, NodeAnswer] | None = None


UNREAD = "unread"
"""The verdict on a workload whose pods are not in its manifest."""

Answers = Mapping[str, Answer]
"""By name of the pod; by kind, name and template for those of workloads."""


@cache
def command(*arguments: object) -> tuple[str, str]:
    """The output of `kubectl numa`, and its messages; several commands need that of `check`."""
    environment = {"KUBECONFIG": "/nowhere/config"}
    result = CliRunner().invoke(program, [*map(str, arguments)], env=environment, catch_exceptions=False)
    return result.stdout, result.stderr


def replayed(events: Path) -> tuple[list[Raw], str]:
    """What `replay` answers, and its messages."""
    output, messages = command("replay", "-f", events)
    return [*map(orjson.loads, output.splitlines())], messages


def checked(pods: Path, snapshot: Path, documents: Sequence[Raw]) -> tuple[Answers, str]:
    """What `check` says, and its messages."""
    output, messages = command("check", "-f", pods, "--snapshot", snapshot, "-o", "json")
    return dict(_checked(one, documents) for one in orjson.loads(output)), output + messages


def explained(pods: Path, snapshot: Path, documents: Sequence[Raw]) -> tuple[Answers, str]:
    """What `explain` says, and its messages."""
    result, _ = checked(pods, snapshot, documents)
    output, messages = command("explain", "-f", pods, "--snapshot", snapshot, "-o", "json")
    # It names only pods, in the same order, and says nothing of those that it cannot read.
    answers = map(_explained, orjson.loads(output))
    unread = ("bad", UNREAD)
    return {
        name: answer if answer.verdict in unread else next(answers) for name, answer in result.items()
    }, output + messages


def diagnosed(snapshot: Path) -> Mapping[str, Mapping[str, str]]:
    """The findings of `doctor` that have a detail, by name of the node."""
    output, _ = command("doctor", "--snapshot", snapshot, "-o", "json")
    nodes: dict[str, dict[str, str]] = {}
    for node in orjson.loads(output):
        result = nodes.setdefault(node["name"], {})
        for one in node["findings"]:
            if one["detail"]:
                result[one["finding"]] = _text(result.get(one["finding"]), one["detail"])
    return nodes


def defragmented(pods: Path, snapshot: Path) -> str:
    """The answer of `defrag`."""
    output, _ = command("defrag", "-f", pods, "--snapshot", snapshot, "-o", "json")
    answer: str = orjson.loads(output)["answer"]
    return answer


def ranked(snapshot: Path, documents: Sequence[Raw], names: Iterable[str]) -> Answers:
    """What a scorer says of these pods at /v1/rank, also of those that workloads create."""
    pods = {name: _pod(name, documents) for name in names}

    async def ask() -> Answers:
        settings = load(ScorerSettings, argv=[*_HERE, "--snapshot", str(snapshot)], environ={}).settings
        log = RecordedLog()
        async with Served.running(ScorerProgram(settings, log.log, CollectorRegistry()), log) as served:
            return {name: _ranked(*await _sent(served, "/v1/rank", pod)) for name, pod in pods.items()}

    return asyncio.run(ask())


def reviewed(snapshot: Path, documents: Sequence[Raw], others: Sequence[Raw]) -> tuple[Answers, list[bool]]:
    """What a webhook says of objects that are created, and whether it allows `others`.

    As by an API server, it is asked to validate a pod as it has changed it. Each of `others` has the name of
    a pod and members of a review.
    """

    async def ask() -> tuple[Answers, list[bool]]:
        settings = load(WebhookSettings, argv=[*_HERE, "--snapshot", str(snapshot)], environ={}).settings
        log = RecordedLog()
        async with Served.running(WebhookProgram(settings, log.log, CollectorRegistry()), log) as served:
            answers = {_name(one): await _created(served, one) for one in documents}
            return answers, [await _allowed(served, documents, **one) for one in others]

    return asyncio.run(ask())


def _name(document: Raw) -> str:
    """The name of a pod; kind and name of a workload."""
    metadata = document["metadata"]
    name: str = metadata.get("name") or metadata["generateName"]
    return name if document["kind"] == "Pod" else f"{document['kind']}/{name}"


def _pod(name: str, documents: Sequence[Raw]) -> Raw:
    """The pod of this name, or of a template."""
    whose, _, template = name.partition(" ")
    [document] = (one for one in documents if _name(one) == whose)
    if not template:
        return document
    result: Any = document
    for step in re.findall(r"[^.\[\]]+", template):
        result = result[int(step) if isinstance(result, list) else step]
    metadata = {**result.get("metadata", {}), "name": "made"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": result.get("spec", result)}


def _checked(answer: Raw, documents: Sequence[Raw]) -> tuple[str, Answer]:
    verdict = {"never": "deny", "denied": "deny", "bad": "bad"}.get(answer["result"]) or _admitted(answer)
    if answer["kind"] != "Pod" and not answer["template"]:
        verdict = UNREAD
    name = _name(documents[answer["document"] - 1])
    full = f"{name} {answer['template']}" if answer["template"] else name
    return full, Answer(verdict, _text(answer["refusal"], *answer["warnings"]))


def _explained(answer: Raw) -> Answer:
    nodes = {one["name"]: _node(one["verdict"], one["placement"], one["reason"]) for one in answer["nodes"]}
    unknown = {name: NodeAnswer("unknown") for name in answer["unknown"]}
    verdict = "deny" if answer["refusal"] else _admitted(answer)
    return Answer(verdict, _text(answer["refusal"], *answer["warnings"]), {**nodes, **unknown})


def _ranked(status: HTTPStatus, answer: Raw) -> Answer:
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return Answer("bad", answer["error"])
    nodes = {}
    for one in answer["nodes"]:
        chance = "fits" if one["fits"] else "never" if one["permanent"] else "later"
        shown = chance if one.get("known", chance) else "unknown"
        why = one.get("because") or one.get("reason")
        nodes[one["name"]] = _node(shown, one.get("placement"), why)
    return Answer(nodes=nodes)


def _node(chance: str, placement: list[Raw] | None, why: str | None) -> NodeAnswer:
    parts = placement or []
    zones = {
        int(digits) for part in parts for zone in part["zones"] for digits in re.findall("[0-9]+$", zone)
    }
    amount = {name: amount for part in parts for name, amount in part["amount"].items()}
    return NodeAnswer(chance, tuple(sorted(zones)), amount, why or "")


async def _created(served: Served, document: Raw) -> Answer:
    if document["kind"] != "Pod":
        answer = await _response(served, "/validate-workloads", document)
    else:
        changed = await _response(served, "/mutate", document)
        assert changed["allowed"], changed
        patch = orjson.loads(b64decode(changed.get("patch", "W10=")))
        answer = await _response(served, "/validate", applied(document, patch))
    refusal = None if answer["allowed"] else answer["status"]["message"]
    return Answer("deny" if refusal else _admitted(answer), _text(refusal, *answer.get("warnings", ())))


async def _allowed(served: Served, documents: Sequence[Raw], *, pod: str, **changes: str) -> bool:
    document = _pod(pod, documents)
    whose = {"object": None} if changes["operation"] == "DELETE" else {}
    response = await _response(served, "/validate", document, oldObject=document, **changes, **whose)
    allowed: bool = response["allowed"]
    return allowed


async def _response(served: Served, path: str, document: Raw, **changes: object) -> Raw:
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    resource = {"group": group, "version": version, "resource": f"{document['kind'].lower()}s"}
    review = request(document, namespace="default", kind=kind, resource=resource, **changes)
    status, answer = await _sent(served, path, review)
    assert status == HTTPStatus.OK, answer
    response: Raw = answer["response"]
    return response


async def _sent(served: Served, path: str, call: Raw) -> tuple[HTTPStatus, Raw]:
    async with aiohttp.ClientSession() as session, session.post(served.url(path), json=call) as answer:
        return HTTPStatus(answer.status), await answer.json()


def _admitted(answer: Raw) -> str:
    return "warn" if answer.get("warnings") else "admit"


def _text(*parts: str | None) -> str:
    return "\n".join(filter(None, parts))


# What is right.

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
        return dict(self.report["expected"])

    @property
    def documents(self) -> list[Raw]:
        """The pods and workloads."""
        return list(self.report["pods"])

    @property
    def pods(self) -> Path:
        """The pods and workloads, as a file."""
        return self._file("pods.yaml", yaml.dump_all(self.documents, Dumper=yaml.CSafeDumper))

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
    answers, messages = replayed(case.events)
    for right, answer in zip_longest(case.report["replay"], answers, fillvalue=Raw()):
        parts = {name: value for name, value in right.items() if name != "says"}
        if not contains(answer, parts) or not has_phrases(answer.get("message"), right.get("says", ())):
            yield f"{answer} is not {right}; {messages}"


def check(case: Case) -> Iterator[str]:
    answers, messages = checked(case.pods, case.snapshot, case.documents)
    yield from differences(case.expected, answers)
    yield from case.wrong_messages(messages)


def explain(case: Case) -> Iterator[str]:
    answers, messages = explained(case.pods, case.snapshot, case.documents)
    yield from differences(case.expected, answers)
    yield from case.wrong_messages(messages)


def scorer(case: Case) -> Iterator[str]:
    yield from differences(case.stored, ranked(case.snapshot, case.documents, case.stored))


def webhook(case: Case) -> Iterator[str]:
    reviews = case.report.get("reviews", [])
    answers, allowed = reviewed(case.snapshot, case.documents, reviews)
    yield from differences({name: _of_review(name, right) for name, right in case.stored.items()}, answers)
    yield from (f"{review} is denied" for review, allows in zip(reviews, allowed, strict=True) if not allows)


def doctor(case: Case) -> Iterator[str]:
    findings = diagnosed(case.snapshot)
    for node, right in case.report["doctor"].items():
        details = findings[node]
        if details.keys() != right.keys() or not all(right[one] in details[one] for one in right):
            yield f"{node} has {details}, not {right}"


def defrag(case: Case) -> Iterator[str]:
    if (answer := defragmented(case.pods, case.snapshot)) != case.report["defrag"]:
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
    """Yield what each program says of each report; in a sample, of every third report."""
    for number, path in enumerate(sorted(CASES.glob("*.yaml"))):
        report = yaml.load(path.read_bytes(), LOADER)  # noqa: S506  a safe loader
        for part, commands in COMMANDS.items():
            for ask in commands if part in report else ():
                late = report.get("not_yet", {}).get(ask.__name__)
                marks = [pytest.mark.xfail(reason=late, raises=AssertionError)] if late else []
                marks += [pytest.mark.full] if number % 3 else []
                yield pytest.param(path.stem, report, ask, marks=marks, id=f"{path.stem}-{ask.__name__}")


@pytest.mark.parametrize(("name", "report", "ask"), [*_cases()])
def test_programs_say_what_a_kubelet_does(
    name: str, report: Raw, ask: Callable[[Case], Iterator[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / name
    folder.mkdir(exist_ok=True)
    assert [*ask(Case(report, folder))] == []
