"""
The cluster in memory, with the same rules for all of its nodes at once.

Nodes are in columns, and a question is evaluated for all of them in a few operations; answers are cached, and
computed again only for nodes that changed. For that the columns restate the rules of `kubelet` and
`decision`; laws (`tests/laws`) bind them to `decision.evaluate`, node by node and to the last digit.
"""

from numalign.cache.cluster_cache import ClusterCache
from numalign.cache.question import Question
from numalign.cache.survey import Group, Survey

__all__ = ["ClusterCache", "Group", "Question", "Survey"]
