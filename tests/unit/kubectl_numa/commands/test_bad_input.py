"""Every command answers bad input with a complete sentence and exit code 2."""

from errno import ENOENT
from os import strerror

import pytest

from tests.unit.kubectl_numa.conftest import STORED, Cli
from tests.unit.kubectl_numa.objects import ITEMS, manifest, running
from tests.worlds.notation import table
from tests.worlds.objects import listed

GONE = strerror(ENOENT)
NO_CLUSTER = "there is no kubeconfig at /nowhere/config"
SPAN = "a duration is a whole number of s, m, h or d"
CHECK = "check -f POD --snapshot CLUSTER"
SIMULATE = "simulate --nodes TRACE_NODES --pods TRACE_PODS"

WRONG = [
    # the mistake      the command                               what is said
    ("check: no such policy file", f"{CHECK} --policy none", "none: cannot be read"),
    ("check: no policy", f"{CHECK} --policy POD", "apiVersion: unknown key"),
    ("check: no such match", f"{CHECK} --policy-match same",
        ("--policy-match", "same", "satisfies", "equal")),
    ("check: a token offline", f"{CHECK} --token t -s https://x", "--server, --token: cannot be used with"),
    ("check: impersonation offline", f"{CHECK} --as jane", "use --created-by to name the user"),
    ("explain: no address", "explain a --server api:6443", '--server: "api:6443" is not a valid address'),
    ("explain: a group without a user", "explain a --as-group dev",
        "--as-group: groups can be impersonated only"),
    ("explain: no duration", "explain a --request-timeout soon", "a duration is a number of seconds"),
    ("explain: no authority", "explain a -s https://x --certificate-authority none", "there is no file none"),
    ("explain: neither name nor file", "explain --snapshot CLUSTER",
        "specify a pod by NAME, a workload by TYPE/NAME, or manifests"),
    ("explain: no such type", "explain deplyo/a --snapshot CLUSTER", "did you mean deploy?"),
    ("explain: no name", "explain deploy/ --snapshot CLUSTER", "'deploy/' is not a name: use NAME"),
    ("explain: no such workload", "explain deploy/a --snapshot CLUSTER",
        "contains no deployment.apps default/a: pass its manifest with -f"),
    ("explain: no pods in it", "explain node/big --snapshot CLUSTER", "node/big creates no pods"),
    ("explain: no such node", "explain -f POD --node x --snapshot CLUSTER", '"x" is not in this cluster'),
    ("explain: a node without topology", "explain -f POD --node hidden --snapshot CLUSTER", "publishes no"),
    ("doctor: no node at all", "doctor --snapshot NAMESPACE", "the cluster has neither Nodes nor"),
    ("nodes: no node at all", "nodes --snapshot NAMESPACE", "the cluster has neither Nodes nor"),
    ("simulate: a ratio that is no number", "simulate --nodes TRACE_NODES --pods TRACE_PODS --ratio nan",
        ("--ratio", "nan", "0.01", "10")),
    ("defrag: no name of a file", "defrag --filename= --snapshot CLUSTER", "specify a pod by NAME"),
    ("defrag: no pod", "defrag -f NAMESPACE --snapshot CLUSTER", "contains no pod, but must"),
    ("defrag: several pods", "defrag -f SEVERAL --snapshot CLUSTER", "contains 2 pods, but must"),
    ("defrag: no manifest", "defrag -f TEXT --snapshot CLUSTER", "text.yaml"),
    ("defrag: a broken pod", "defrag -f BROKEN --snapshot CLUSTER", "resources.limits.cpu"),
    ("defrag: no such pod", "defrag a --snapshot CLUSTER", "contains no pod default/a"),
    ("defrag: no such node", "defrag -f POD --node x --snapshot CLUSTER", 'node "x" is not in this cluster'),
    ("defrag: a node without topology", "defrag -f POD --node hidden --snapshot CLUSTER", "publishes no"),
    ("defrag: no priority", "defrag -f POD --priority high --snapshot CLUSTER", ("--priority", "high")),
    ("defrag: no limit", "defrag -f POD --limit 0 --snapshot CLUSTER", "--limit"),
    ("nodes: no such node", "nodes x --snapshot CLUSTER", "no such node: x; the nodes are big, small"),
    ("nodes: no selector", "nodes -l a=b=c --snapshot CLUSTER", 'expected "," or the end'),
    ("nodes: of another type", "nodes pod/a --snapshot CLUSTER", "pod/a: this command takes only nodes"),
    ("nodes: a file of something else", "nodes --snapshot CONFIG",
        "is not a cluster snapshot: it contains 1 Config, and no Node"),
    ("doctor: no such node", "doctor x --snapshot CLUSTER", "no such node: x; the nodes are big, hidden"),
    ("shapes: no name of a policy", "shapes --snapshot CLUSTER --policy=", "is not a regular file"),
    ("shapes: no such command", "shapes import", 'there is no command "import"'),
    ("shapes: an export of no cluster", "shapes export", NO_CLUSTER),
    ("shapes: a place of no file", "shapes export --snapshot CLUSTER -o /nowhere/x",
        f"/nowhere/x: {GONE}"),
    ("replay: no such file", "replay -f /nowhere/x", f"/nowhere/x: {GONE}"),
    ("demo: no port", "demo --serve --port 70000", ("--port", "70000")),
    ("no such command", "explian", 'there is no command "explian"; did you mean explain?'),
    ("check: nothing chosen", "check --snapshot PODS",
        "nothing to check: use -f for manifests, or -A, -n or"),
    ("check: manifests and pods", "check -f x -A --all", "-f checks manifests, but -A, -l and --all select"),
    ("check: a snapshot without pods", "check -A --snapshot CLUSTER",
        "the snapshot contains no pods on nodes: write it with `kubectl numa snapshot --with-pods`"),
    ("pending: a snapshot without pods", "pending --snapshot NODES", "the snapshot contains no pods"),
    ("pods: rejected and misaligned", "pods --rejected --misaligned --snapshot PODS", "that never ran"),
    ("pods: rejected without pods", "pods --rejected --snapshot NODES", "the snapshot contains no pods"),
    ("pods: quota of misaligned", "pods --quota --misaligned --snapshot PODS",
        "--quota lists namespaces: use it only with -n or -A"),
    ("map: neither file nor server", "map --snapshot PODS", "use either --serve"),
    ("map: another format", "map -o map.png --snapshot PODS", "ends in .html or .svg"),
    ("map: no such folder", "map -o /nowhere/map.html --snapshot PODS", f"/nowhere/map.html: {GONE}"),
    ("map: no selector", "map -o - -l a=b=c --snapshot PODS", "labels"),
    ("map: no resource", "map -o - --resource a/b/c --snapshot PODS", "resource"),
    ("map: no such condition", "map -o - --only nice --snapshot PODS", "--only"),
    ("map: standard input is read once", "map --serve --snapshot -", "specify a file, not standard input"),
    ("simulate: no strategies", f"{SIMULATE} --strategies stok,gate,worst",
        ('"stok" is not one of stock, webhook,', "did you mean stock?", '"worst" is not one of')),
    ("simulate: too many zones", f"{SIMULATE} --zones 9", ("--zones", "9", "8")),
    ("simulate: no seed", f"{SIMULATE} --seeds 0", ("--seeds", "50")),
    ("simulate: no folder", f"{SIMULATE} --plots /nowhere/charts", f"/nowhere/charts: {GONE}"),
    ("simulate: no such file", "simulate --nodes TRACE_NODES --pods /nowhere.csv", f"/nowhere.csv: {GONE}"),
    ("simulate: zones of a cluster",
        "simulate --snapshot CLUSTER --pods TRACE_PODS --zones 2 --topology-scope pod",
        "--zones, --topology-scope: needs nodes of a trace (--nodes)"),
    ("simulate: no GPUs", "simulate --snapshot CLUSTER --pods TRACE_PODS", "no node has a GPU"),
    ("simulate: mistakes of both tables", "simulate --nodes BAD_NODES --pods BAD_PODS",
        ('nodes.csv: there is no column "memory_mib"', "memory_mib is 'x': a whole number is needed")),
    ("simulate: an unknown option", f"{SIMULATE} --kubelet-option numa-allocation-stratgy=none",
        ('--kubelet-option: "numa-allocation-stratgy" is not one of prefer-closest-numa-nodes, prefer-most-',
            "did you mean numa-allocation-strategy?")),
    ("simulate: an option without a value", f"{SIMULATE} --kubelet-option numa-allocation-strategy",
        'numa-allocation-strategy is "": write numa-allocation-strategy=VALUE, with none, most-'),
    ("simulate: an option of no value", f"{SIMULATE} --kubelet-option numa-allocation-strategy=most",
        'numa-allocation-strategy is "most": write numa-allocation-strategy=VALUE, with none,'),
    ("simulate: no weights", f"{SIMULATE} --kubelet-option numa-score-weights=cpu=101",
        'numa-score-weights is "cpu=101": write numa-score-weights=VALUE, with weights from 0 to 100'),
    ("simulate: several options",
        (f"{SIMULATE} --kubelet-option x=1 --kubelet-option numa-score-weights=cpu=1"
        " --kubelet-option numa-score-weights=cpu=2"),
        ('"x" is not one of', "numa-score-weights is given twice")),
    ("verify: no timeout", "verify --timeout=soon", SPAN),
    ("completion: no such shell", "completion csh", "'csh' is not one of"),
]  # fmt: skip


def error(cli: Cli, command: str) -> str:
    """Return the message of a command that cannot use its input."""
    namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: team}}"
    pod_table = "cpu_milli,memory_mib,num_gpu,gpu_milli"
    files = {
        "CLUSTER": cli.cluster(STORED),
        "PODS": cli.write("pods.json", listed(*ITEMS, running("a", 0))),
        "NODES": cli.write("nodes.json", listed(*ITEMS)),
        "POD": cli.write("p.yaml", manifest("a", "1")),
        "SEVERAL": cli.write("several.yaml", manifest("a", "1"), manifest("b", "1")),
        "BROKEN": cli.write("broken.yaml", manifest("a", "many")),
        "TEXT": cli.write("text.yaml", "just a sentence"),
        "NAMESPACE": cli.write("namespaces.yaml", namespace),
        "CONFIG": cli.write("kubeconfig", "{apiVersion: v1, kind: Config, clusters: []}"),
        "TRACE_NODES": cli.write("trace/nodes.csv", "cpu_milli,memory_mib,gpu,count\n32000,65536,4,2\n"),
        "TRACE_PODS": cli.write("trace/pods.csv", f"{pod_table},qos,count\n4000,1024,1,500,LS,6\n"),
        "BAD_NODES": cli.write("nodes.csv", "cpu_milli,gpu\n1,2\n"),
        "BAD_PODS": cli.write("pods.csv", f"{pod_table}\n1,x,2,500\n"),
    }
    result = cli(*(files.get(word, word) for word in command.split()), stdin="{}")

    assert result.exit_code == 2
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


@pytest.mark.parametrize(("command", "parts"), table(WRONG))
def test_bad_input_is_an_error_in_a_sentence(cli: Cli, command: str, parts: str | tuple[str, ...]) -> None:
    message = error(cli, command)

    assert [part for part in ((parts,) if isinstance(parts, str) else parts) if part not in message] == []


READING = ["nodes", "doctor", "shapes", "pods", "pending", "check -f POD", "explain -f POD", "defrag -f POD"]


@pytest.mark.parametrize("command", READING)
def test_every_command_needs_a_cluster_and_a_known_form(cli: Cli, command: str) -> None:
    no_form = error(cli, f"{command} -o xml")

    assert NO_CLUSTER in error(cli, command)
    assert "none.json: cannot be read" in error(cli, f"{command} --snapshot none.json")
    assert "is not a cluster snapshot: it contains 1 Pod" in error(cli, f"{command} --snapshot POD")
    assert [word for word in ("--output", "xml", "text", "json", "yaml") if word not in no_form] == []


@pytest.mark.parametrize("command", ["check", "explain", "defrag"])
def test_every_command_of_manifests_needs_a_file(cli: Cli, command: str) -> None:
    assert "none: no such file or folder" in error(cli, f"{command} -f none --snapshot CLUSTER")
    assert "cannot both read standard input" in error(cli, f"{command} -f - --snapshot -")
