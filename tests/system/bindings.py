"""The Binding of a pod to a node, as schedulers send it."""

from tools.clusters.api_requests import Json


def binding(name: str, node: str, **metadata: object) -> Json:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}
