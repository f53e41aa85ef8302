"""`kubectl numa replay`: events on one node, and a predicted admission for each created pod."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click
import orjson

from kubectl_numa import events, replaying
from kubectl_numa.manifests import STDIN
from kubectl_numa.replaying import Session
from numalign.kube.command_line import FILE, Trouble
from numalign.model.errors import BadInput


@click.command(
    epilog="""\b
Events, one per line:
  {"node": {"name", "nrt", "kubeletVersion", "kubeletConfig", "machine", "labels"}}
      start over with this node, without pods; requires its name, and its
      topology (nrt) or its machine
  {"create": POD}
      ask the kubelet to admit this v1 Pod; the only event with an answer
  {"observed": {"pod", "admitted", "containers", "shared", "free"}}
      what really happened to a pod, which replaces the prediction; fields as in
      an answer, plus what each set of zones has free afterwards, if known
  {"delete": NAME}
      the pod was deleted
\b
Answers, one per line:
  {"pod", "admitted", "reason", "message", "containers", "shared", "known", "doubts"}
      reason, message: why the kubelet rejects the pod, as a code and a sentence
      containers: {NAME: {"affinity", "preferred", "cpus", "amounts", "choices"}}
      shared: what is allocated to the pod as a whole, for its containers to share
      known: how much is known about the node
      doubts: unknown facts that could change the answer
  Amounts are listed by set of zones, as in {"0,1": {"cpu": 4000, "memory": 8589934592}},
  in millicores, bytes and counts. Choices are resources for which the kubelet may
  pick another device that serves as well.
\b
Examples:
  kubectl numa replay -f examples/data/events.jsonl
  kubectl numa replay < events.jsonl
  kubectl numa replay -f events.jsonl | jq 'select(.admitted | not)'
"""
)
@click.option(
    "-f",
    "--filename",
    "file",
    default=STDIN,
    metavar="FILE",
    type=FILE,
    help="File with the events; - is standard input, the default.",
)
def replay(*, file: str) -> None:
    """Predict a kubelet's admission of one pod after another, and correct it by what really happened.

    Events are JSON, one value per line. Each created pod is answered by one line of JSON before the next
    event is read, so that another program can write events and read answers in turn. Exit code 2 for a line
    that cannot be read.
    """
    if file != STDIN:
        with Path(file).open("rb") as lines:
            _converse(lines)
    elif sys.stdin is None:
        raise Trouble("standard input is closed")
    else:
        _converse(sys.stdin.buffer)


def _converse(lines: Iterable[bytes]) -> None:
    session: Session | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            session, answer = replaying.follow(session, events.read(line))
        except BadInput as error:
            raise Trouble("\n".join(f"line {number}: {mistake}" for mistake in error.mistakes)) from error
        if answer:
            # A reader may wait for this line before it writes the next one; click flushes.
            click.echo(orjson.dumps(answer.to_json()))
