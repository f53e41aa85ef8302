"""
The same rules for every node at once.

Nodes that can ever hold the same pods are one shape and are asked once; what was answered is remembered
until a node changes its shape. Every answer is what `rules.evaluate` says, node by node.
"""

from numalign.fleet.fleet import Fleet, Question
from numalign.fleet.survey import Group, Survey

__all__ = ["Fleet", "Group", "Question", "Survey"]
