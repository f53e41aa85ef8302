"""
The same rules for every node at once.

Nodes stand in columns, and a question is put to all of them in a few operations; what was answered is
remembered, and asked again only of nodes that changed. Every answer is what `decision.evaluate` says, node by
node.
"""

from numalign.cache.fleet import Fleet
from numalign.cache.question import Question
from numalign.cache.survey import Group, Survey

__all__ = ["Fleet", "Group", "Question", "Survey"]
