"""
The cluster in memory, and the same rules for all of its nodes at once.

Nodes stand in columns, and a question is put to all of them in a few operations; what was answered is
remembered, and asked again only of nodes that changed. For that the columns restate the rules of `kubelet`
and `decision`; laws (`tests/laws`) bind them to `decision.evaluate`, node by node and to the last digit.
"""

from numalign.cache.cluster_cache import ClusterCache
from numalign.cache.question import Question
from numalign.cache.survey import Group, Survey

__all__ = ["ClusterCache", "Group", "Question", "Survey"]
