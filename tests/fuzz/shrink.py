"""Makes a failing program smaller: deletes statements, and unwraps blocks, as long as it still fails."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Place = tuple[int, str]  # the node's number in walking order, and the field that holds a list of statements

_LISTS = ("body", "orelse", "finalbody", "handlers", "cases")


def _places(tree: ast.Module) -> Iterator[tuple[Place, list[ast.stmt]]]:
    for number, node in enumerate(ast.walk(tree)):
        for name in _LISTS:
            statements = getattr(node, name, None)
            if isinstance(statements, list) and statements:
                yield (number, name), statements


def _list_at(tree: ast.Module, place: Place) -> list[ast.stmt]:
    for number, node in enumerate(ast.walk(tree)):
        if number == place[0]:
            return getattr(node, place[1])
    raise LookupError(place)


def _source(tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        for name in ("body",):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and not statements and not isinstance(node, ast.Module):
                statements.append(ast.Pass())
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            node.finalbody = [ast.Pass()]
            node.orelse = []
        if isinstance(node, ast.Match) and not node.cases:
            return None
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(text, "<shrunk>", "exec")
    except (SyntaxError, ValueError):
        return None
    return text


def _without(source: str, place: Place, start: int, end: int) -> str | None:
    tree = ast.parse(source)
    statements = _list_at(tree, place)
    removed = statements[start:end]
    if all(isinstance(node, ast.Pass) for node in removed):
        return None
    del statements[start:end]
    return _source(tree)


def _unwrapped(source: str, place: Place, index: int) -> Iterator[str]:
    """The program with a compound statement replaced by one of its bodies."""
    node = _list_at(ast.parse(source), place)[index]
    for name in ("body", "orelse", "finalbody"):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ExceptHandler, ast.match_case)):
            return
        inner = getattr(node, name, None)
        if isinstance(inner, list) and inner:
            tree = ast.parse(source)
            _list_at(tree, place)[index : index + 1] = copy.deepcopy(inner)
            text = _source(tree)
            if text is not None:
                yield text


def shrink(source: str, still_fails: Callable[[str], bool], attempts: int = 600) -> str:
    """A smaller program for which `still_fails` holds; gives up after so many attempts."""
    left = attempts
    text = _source(ast.parse(source))
    if text is None or not still_fails(text):
        return source
    best = text
    progress = True
    while progress and left > 0:
        progress = False
        # The largest lists first, in halves, quarters, ... single statements; from the end, so that definitions outlive their uses.
        for place, statements in sorted(_places(ast.parse(best)), key=lambda found: -len(found[1])):
            size = len(statements)
            while size >= 1 and left > 0:
                start = max(0, len(statements) - size)
                while left > 0:
                    candidate = _without(best, place, start, start + size)
                    if candidate is not None and len(candidate) < len(best):
                        left -= 1
                        if still_fails(candidate):
                            best = candidate
                            progress = True
                            break
                    if start == 0:
                        break
                    start = max(0, start - size)
                if progress:
                    break
                size //= 2
            if progress:
                break
        if progress:
            continue
        for place, statements in list(_places(ast.parse(best))):
            for index in range(len(statements)):
                for candidate in _unwrapped(best, place, index):
                    if left <= 0:
                        break
                    left -= 1
                    if len(candidate) < len(best) and still_fails(candidate):
                        best = candidate
                        progress = True
                        break
                if progress:
                    break
            if progress:
                break
    return best
