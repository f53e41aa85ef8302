"""`kubectl numa replay`: one thing after another happens to a node, and each pod gets its answer."""

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
Events, each on a line:
  {"node": {"name", "nrt", "kubeletVersion", "kubeletConfig", "machine", "labels"}}
      start over with this node, empty; all but its name and topology may be
      left out, and the topology too if the machine is told
  {"create": POD}
      the kubelet is asked to admit this v1 Pod; it gets an answer
  {"observed": {"pod", "admitted", "containers", "shared", "free"}}
      what really happened with a pod, in place of what was predicted; as in
      an answer, with what each set of zones has left, if that is known
  {"delete": NAME}
      the pod is gone
\b
Answers, each on a line:
  {"pod", "admitted", "reason", "message", "containers", "shared", "known", "doubts"}
      reason and message: why it is refused, in the kubelet's word and in ours
      containers: {NAME: {"affinity", "preferred", "cpus", "amounts", "choices"}}
      shared: what the containers of a pod that is served as a whole divide
      known: what the answer rests on; doubts: what could make it wrong
  Amounts stand by sets of zones, as in {"0,1": {"cpu": 4000, "memory": 8589934592}}:
  millicores, bytes and pieces. Choices are resources of which the kubelet picks any.
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
    help="The events; - is standard input, which is the default.",
)
def replay(*, file: str) -> None:
    """Predict a kubelet's admission of one pod after another, and take in what it really did.

    Events come as JSON, one value a line. Each pod that is created gets its answer, one line of JSON, written
    before the next line is read, so that another program can converse with it. The exit code is 2 for a line
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
