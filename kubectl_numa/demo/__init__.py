"""
`kubectl numa demo`: the webhook on bundled clusters.

The real webhook runs as a process of its own, and is called over HTTPS as by an API server; nothing here
decides about a pod. In order:

    webhook -> reviews -> small, large -> story

`DATA` holds nine nodes and 22 pods written by hand, events of one node for `kubectl numa replay`, and counts
of a real GPU cluster, from which `openb` creates nodes and pods.
"""

from pathlib import Path

DATA = Path(__file__).parents[2] / "examples" / "data"
"""The bundled files, in the tree as in the wheel; data/README.md describes each of them."""
