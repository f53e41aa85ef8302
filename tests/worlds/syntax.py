"""The syntax trees of sources, which several tests read: to parse and walk all takes a second."""

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def walked(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))
