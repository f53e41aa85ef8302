"""Whatever command is given what it cannot use says so in a sentence, and ends with 2."""

from collections.abc import Callable
from errno import ENOENT
from os import strerror
from pathlib import Path

import pytest
from click.testing import Result

from tests.unit.kubectl_numa.objects import manifest
from tests.worlds.notation import table

Write = Callable[..., Path]
Run = Callable[..., Result]

NO_CLUSTER = "there is no kubeconfig at /nowhere/config"
TWICE = "cannot both read standard input"
NO_FORM = ("--output", "xml", "text", "wide", "name", "json", "yaml")
NO_OUTPUT = ("--output", "xml", "text", "json", "yaml")
CHECK, EXPLAIN = "check -f POD --snapshot CLUSTER", "explain -f POD --snapshot CLUSTER"

WRONG = [
    # the mistake                        the command                               what is said
    ("check: nothing named", "check --snapshot CLUSTER", "nothing to check: use -f"),
    ("check: no such file", "check -f none --snapshot CLUSTER", "none: no such file or folder"),
    ("check: a pod as a snapshot",       "check -f POD --snapshot POD",
        "p.yaml: is not a cluster snapshot: it contains 1 Pod"),
    ("check: a snapshot that is none", "check -f POD --snapshot TEXT", "text.yaml"),
    ("check: no cluster", "check -f POD", NO_CLUSTER),
    ("check: one input for two", "check -f - --snapshot -", TWICE),
    ("check: no such policy file", f"{CHECK} --policy none", "none: cannot be read"),
    ("check: a policy that is none", f"{CHECK} --policy POD", "apiVersion: unknown key"),
    ("check: no such match", f"{CHECK} --policy-match same",
        ("--policy-match", "same", "satisfies", "equal")),
    ("check: no such way", f"{CHECK} --unknown-nodes no",
        ("--unknown-nodes", "'no'", "may-fit", "cannot-fit")),
    ("check: no span", f"{CHECK} --remember-shapes week", "a duration is a whole number of s, m, h or d"),
    ("check: a token offline", f"{CHECK} --token t -s https://x", "--server, --token: cannot be used with"),
    ("check: impersonation offline", f"{CHECK} --as jane", "use --created-by to name the user"),
    ("explain: no address", "explain a --server api:6443", '--server: "api:6443" is not a valid address'),
    ("explain: a group of nobody", "explain a --as-group dev", "--as-group: groups can be impersonated only"),
    ("explain: no duration", "explain a --request-timeout soon", "a duration is a number of seconds"),
    ("explain: no authority", "explain a -s https://x --certificate-authority none", "there is no file none"),
    ("explain: neither name nor file",   "explain --snapshot CLUSTER",
        "specify a pod by NAME, a workload by TYPE/NAME, or manifests"),
    ("explain: both",                    "explain a -f POD --snapshot CLUSTER",
        "specify a pod by NAME, a workload by TYPE/NAME, or manifests"),
    ("explain: no such file",            "explain -f none.yaml --snapshot CLUSTER",
        "none.yaml: no such file or folder"),
    ("explain: no such snapshot", "explain -f POD --snapshot none.json", "none.json: cannot be read"),
    ("explain: a pod as a snapshot", "explain -f POD --snapshot POD",
        "not a cluster snapshot: it contains 1 Pod"),
    ("explain: no cluster", "explain -f POD", NO_CLUSTER),
    ("explain: no such pod", "explain a --snapshot CLUSTER", "contains no pod default/a"),
    ("explain: no such type", "explain deplyo/a --snapshot CLUSTER", "did you mean deploy?"),
    ("explain: no name", "explain deploy/ --snapshot CLUSTER", "'deploy/' is not a name: use NAME"),
    ("explain: no such workload", "explain deploy/a --snapshot CLUSTER",
        "contains no deployment.apps default/a: pass its manifest with -f"),
    ("explain: no pods in it", "explain node/big --snapshot CLUSTER", "node/big creates no pods"),
    ("explain: no such strategy", "explain a --strategy Best", ("--strategy", "Best", "LeastNUMANodes")),
    ("explain: no such node", f"{EXPLAIN} --node x", 'node "x" is not in this cluster'),
    ("explain: a node that is hidden", f"{EXPLAIN} --node hidden", 'node "hidden" publishes no topology'),
    ("explain: one input for two", "explain -f - --snapshot -", TWICE),
    ("defrag: neither name nor file", "defrag --snapshot CLUSTER", "specify a pod by NAME, a workload"),
    ("defrag: both", "defrag a -f POD --snapshot CLUSTER", "specify a pod by NAME, a workload"),
    ("defrag: no such file", "defrag -f none --snapshot CLUSTER", "none: no such file or folder"),
    ("defrag: no name of a file", "defrag --filename= --snapshot CLUSTER", "specify a pod by NAME"),
    ("defrag: no such snapshot", "defrag -f POD --snapshot none.json", "none.json: cannot be read"),
    ("defrag: a pod as a snapshot", "defrag -f POD --snapshot POD", "is not a cluster snapshot"),
    ("defrag: no cluster", "defrag -f POD", NO_CLUSTER),
    ("defrag: no pod", "defrag -f NAMESPACE --snapshot CLUSTER", "contains no pod, but must"),
    ("defrag: several pods", "defrag -f SEVERAL --snapshot CLUSTER", "contains 2 pods, but must"),
    ("defrag: no manifest", "defrag -f TEXT --snapshot CLUSTER", "text.yaml"),
    ("defrag: a broken pod", "defrag -f BROKEN --snapshot CLUSTER", "resources.limits.cpu"),
    ("defrag: no such intent", "defrag -f TIGHT --snapshot CLUSTER", '"tight" is not a known value'),
    ("defrag: no such pod", "defrag a --snapshot CLUSTER", "contains no pod default/a"),
    ("defrag: no such node", "defrag -f POD --node x --snapshot CLUSTER", 'node "x" is not in this cluster'),
    ("defrag: a node that is hidden", "defrag -f POD --node hidden --snapshot CLUSTER", "publishes no"),
    ("defrag: no priority", "defrag -f POD --priority high --snapshot CLUSTER", ("--priority", "high")),
    ("defrag: no limit", "defrag -f POD --limit 0 --snapshot CLUSTER", "--limit"),
    ("defrag: one input for two", "defrag -f - --snapshot -", TWICE),
    ("defrag: no such output", "defrag a -o xml", NO_OUTPUT),
    ("nodes: no such node", "nodes x --snapshot CLUSTER", "no such node: x; the nodes are big, small"),
    ("nodes: no such file", "nodes --snapshot none", "none: cannot be read"),
    ("nodes: no cluster", "nodes", NO_CLUSTER),
    ("nodes: no such output", "nodes -o xml", NO_FORM),
    ("nodes: no selector", "nodes -l a=b=c --snapshot CLUSTER", 'expected "," or the end'),
    ("nodes: of another type", "nodes pod/a --snapshot CLUSTER", "pod/a: this command takes only nodes"),
    ("nodes: no node at all", "nodes --snapshot NAMESPACE", "the cluster has neither Nodes nor"),
    ("nodes: a file of something else",  "nodes --snapshot CONFIG",
        "is not a cluster snapshot: it contains 1 Config, and no Node"),
    ("doctor: no such node", "doctor x --snapshot CLUSTER", "no such node: x; the nodes are big, hidden"),
    ("doctor: no such file", "doctor --snapshot none", "none: cannot be read"),
    ("doctor: no cluster", "doctor", NO_CLUSTER),
    ("doctor: no such output", "doctor -o xml", NO_FORM),
    ("doctor: no node at all", "doctor --snapshot NAMESPACE", "the cluster has neither Nodes nor"),
    ("doctor: a file of something else",  "doctor --snapshot POD",
        "is not a cluster snapshot: it contains 1 Pod"),
    ("shapes: no such file", "shapes --snapshot none", "none: cannot be read"),
    ("shapes: no such policy", "shapes --snapshot CLUSTER --policy none", "none: cannot be read"),
    ("shapes: a policy that is none", "shapes --snapshot CLUSTER --policy CLUSTER", "unknown key"),
    ("shapes: no name of a policy", "shapes --snapshot CLUSTER --policy=", "is not a regular file"),
    ("shapes: no cluster", "shapes", NO_CLUSTER),
    ("shapes: no such output", "shapes -o xml", NO_FORM),
    ("shapes: no such command", "shapes import", 'there is no command "import"'),
    ("shapes: an export of no cluster", "shapes export", NO_CLUSTER),
    ("shapes: a place of no file", "shapes export --snapshot CLUSTER -o /nowhere/x",
        f"/nowhere/x: {strerror(ENOENT)}"),
    ("replay: no such file", "replay -f /nowhere/x", f"/nowhere/x: {strerror(ENOENT)}"),
    ("demo: a port that is none", "demo --serve --port 70000", ("--port", "70000")),
    ("no such command", "explian", 'there is no command "explian"'),
]  # fmt: skip


@pytest.mark.parametrize(("command", "sentence"), table(WRONG))
def test_it_is_told_in_a_sentence(
    run: Run, cluster_file: Path, write: Write, command: str, sentence: str | tuple[str, ...]
) -> None:
    files = {
        "CLUSTER": cluster_file,
        "POD": write("p.yaml", manifest("a", "1")),
        "SEVERAL": write("several.yaml", manifest("a", "1"), manifest("b", "1")),
        "BROKEN": write("broken.yaml", manifest("a", "many")),
        "TIGHT": write("tight.yaml", manifest("a", "1", policy="tight")),
        "TEXT": write("text.yaml", "just a sentence"),
        "NAMESPACE": write("namespaces.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: team}}"),
        "CONFIG": write("kubeconfig", "{apiVersion: v1, kind: Config, clusters: []}"),
    }
    result = run(*(files.get(word, word) for word in command.split()))
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    parts = (sentence,) if isinstance(sentence, str) else sentence
    assert [part for part in parts if part not in told] == []
    assert "Traceback" not in result.output
