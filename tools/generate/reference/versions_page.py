"""docs/reference/kubelet-versions.md: what kubelets do differently from one minor version to the next."""

from kubectl_numa.kubelet_versions import ROWS
from tools.generate.reference.tables import cell, code, table

HEAD = """# Differences between versions of the kubelet

What kubelets of Kubernetes 1.32 to 1.37, and of the pre-release 1.38.0-beta.0, do differently from the minor
version before: in verdicts, affinities or CPU IDs. Each change comes with its pull request and a smallest
case that shows it: a node, and a pod that arrives there. The results are predictions, and the tests of
`tests/kubelet/oracle` compare each with the managers of these kubelets. 1.38 may still change.

`kubectl numa versions` prints this list. In its JSON, `case` has the lines for `kubectl numa replay`:

```sh
kubectl numa versions -o json | jq -c '.[] | select(.change == "own-size") | .case[]' | kubectl numa replay
```

[The kubelet](../explanation/kubelet.md#what-changes-between-versions) has the changes beside the managers.

"""


def page() -> str:
    rows = []
    for row in ROWS:
        what = f"{cell(row.what)} ([#{row.pull}]({row.url}))"
        rows.append((row.since, code(row.change), what, row.effect, cell(row.before), cell(row.after)))
    return HEAD + table(("since", "change", "what", "effect", "before", "after"), rows)
