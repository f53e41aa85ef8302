"""Webhook, scorer and `kubectl numa` read a pod alike, whatever its namespace asks and whatever is wrong."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubectl_numa.cli import program
from numalign.kube.decode.pod_reader import PodReader
from numalign.model.errors import BadInput
from tests.unit.scorer.conftest import Scorer, documents, snapshot
from tests.unit.webhook.conftest import Raw, asked, cluster, raw
from tests.worlds.notation import node, table
from webhook.subject import InvalidPod, ReviewedPod, subject

SINGLE = "single-numa-node"
TEAM = "team"
BIG = node("cpu=16 mem=64Gi gpu=4", "cpu=16 mem=64Gi gpu=4", policy=SINGLE)
Labels = dict[str, str]

INVALID = "invalid"
NOTHING = "none"


def annotated(**words: str) -> Raw:
    made = raw("cpu=4 mem=1Gi gpu=1", annotations={f"numalign.io/{key}": text for key, text in words.items()})
    return {**made, "metadata": {**made["metadata"], "namespace": TEAM, "name": "p", "uid": "u"}}


def by_webhook(pod: Raw, labels: Labels, _folder: Path) -> str:
    try:
        found = subject(asked(pod), cluster([BIG], labels=labels).snapshot, reader=PodReader())
    except InvalidPod:
        return INVALID
    return found.request.policy if isinstance(found, ReviewedPod) else NOTHING


def by_scorer(pod: Raw, labels: Labels, _folder: Path) -> str:
    scorer = Scorer()
    asyncio.run(scorer.state.update_snapshot(snapshot({"a": BIG}, team=labels)))
    try:
        return scorer.subject(pod).question.intent.policy
    except BadInput:
        return INVALID


def by_command(pod: Raw, labels: Labels, folder: Path) -> str:
    full = {f"numalign.io/{key}": text for key, text in labels.items()}
    cluster, manifest = folder / "cluster.json", folder / "pod.json"
    cluster.write_text(json.dumps({"kind": "List", "items": documents({"a": BIG}, team=full)}))
    manifest.write_text(json.dumps(pod))
    answer = CliRunner().invoke(
        program, ["explain", "-f", str(manifest), "--snapshot", str(cluster), "--output", "json"]
    )
    if answer.exit_code == 2:
        return INVALID
    [explained] = json.loads(answer.stdout)
    return explained["intent"]["policy"] if explained["intent"] else NOTHING


DEFAULT, DISABLED = {"default": SINGLE}, {"admission": "disabled"}

READ = [
    # what it shows                                  the pod                         labels     what it asks
    ("a scope, and a default gives it a policy",     annotated(scope="pod"),         DEFAULT,   SINGLE),
    ("a scope that nobody gives a policy",           annotated(scope="pod"),         {},        INVALID),
    ("a slip where nobody looks",                    annotated(policy="singel"),     DISABLED,  NOTHING),
    ("a key that nobody knows where nobody looks",   annotated(polcy=SINGLE),        DISABLED,  NOTHING),
    ("a policy where nobody looks",                  annotated(policy=SINGLE),       DISABLED,  NOTHING),
    ("a slip",                                       annotated(policy="singel"),     {},        INVALID),
    ("a slip, and a default",                        annotated(policy="singel"),     DEFAULT,   INVALID),
    ("silence",                                      annotated(),                    {},        NOTHING),
    ("silence, and a default",                       annotated(),                    DEFAULT,   SINGLE),
    ("opting out of a default",                      annotated(policy="none"),       DEFAULT,   NOTHING),
]  # fmt: skip


@pytest.mark.parametrize("program_reads", [by_webhook, by_scorer, by_command])
@pytest.mark.parametrize(("pod", "labels", "policy"), table(READ))
def test_every_program_reads(
    pod: Raw,
    labels: Labels,
    policy: str,
    program_reads: Callable[[Raw, Labels, Path], str],
    tmp_path: Path,
) -> None:
    assert program_reads(pod, labels, tmp_path) == policy
