"""Requirement IDs on both sides: the table in docs/spec-lines.md, and the markers that tests carry.

The markers are read from the source, so the answer is the same whichever tests a run selects.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_ROW = re.compile(r"^\| ([A-Z]+-\d\d) \| (.+?) \| (\w+) \|$", re.MULTILINE)
_DOCUMENT_ID = re.compile(r"^- \*\*([A-Z]+-\d\d)\*\*", re.MULTILINE)

# A test under one of these proves nothing in `make test`, so it may name a line but does not cover it.
_IDLE = {"lab", "skip", "xfail"}


@dataclass(frozen=True)
class Marker:
    """One ID that one test carries; ``id`` is empty when it is not written out as a text."""

    id: str
    where: str
    covers: bool


def table(text: str) -> dict[str, str]:
    """ID → state, from the requirement table; a repeated ID is an error."""
    rows = _ROW.findall(text)
    states = {row[0]: row[2] for row in rows}
    if len(states) != len(rows):
        raise ValueError("the requirement table names a line twice")
    return states


def document_ids(text: str) -> set[str]:
    """The IDs that the specification itself defines."""
    return set(_DOCUMENT_ID.findall(text))


def tree_markers(root: str) -> list[Marker]:
    """The markers of every test module below a directory."""
    found: list[Marker] = []
    for directory, _, names in os.walk(root):
        for name in sorted(names):
            if name.startswith("test_") and name.endswith(".py"):
                path = os.path.join(directory, name)
                with open(path, encoding="utf-8") as file:
                    found += markers(file.read(), os.path.relpath(path, root))
    return found


def markers(source: str, where: str) -> list[Marker]:
    """The markers of one module, those included that are attached to nothing pytest would run."""
    tree = ast.parse(source)
    attached = dict(_attached(tree.body, _pytestmark(tree.body), idle=False))
    found = []
    for call in _spec_calls(tree):
        arguments: list[ast.expr | None] = [*call.args] or [None]
        for argument in arguments:
            text = argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""
            found.append(Marker(text, f"{where}:{call.lineno}", attached.get(call, False)))
    return found


def problems(states: dict[str, str], found: Iterable[Marker]) -> list[str]:
    """What is wrong between table and tests, one sentence each; empty when they agree."""
    found = list(found)
    covered = {marker.id for marker in found if marker.covers}
    bare = sorted(line for line, state in states.items() if state == "built" and line not in covered)
    wrong = [f"{line} is built but no test carries its ID." for line in bare]
    for marker in found:
        if not marker.id:
            wrong.append(f"{marker.where} gives an ID that is not a plain text; write it out.")
        elif marker.id not in states:
            wrong.append(f"{marker.where} names {marker.id}, which is no line of the table.")
    unknown = sorted(line for line, state in states.items() if state not in ("built", "planned"))
    return wrong + [f"{line} has the state {states[line]!r}; say built or planned." for line in unknown]


def _attached(body: list[ast.stmt], marks: list[ast.expr], *, idle: bool) -> Iterator[tuple[ast.Call, bool]]:
    """The spec calls that reach a test, each with whether that test runs in `make test`."""
    idle = idle or _is_idle(marks)
    for call in _all_spec_calls(marks):
        yield call, not idle
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _attached(node.body, [*node.decorator_list, *_pytestmark(node.body)], idle=idle)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            runs = not (idle or _is_idle(node.decorator_list))
            for call in _all_spec_calls(node.decorator_list):
                yield call, runs


def _pytestmark(body: list[ast.stmt]) -> list[ast.expr]:
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            return node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
    return []


def _is_idle(marks: list[ast.expr]) -> bool:
    return any(_mark_name(mark.func if isinstance(mark, ast.Call) else mark) in _IDLE for mark in marks)


def _all_spec_calls(marks: list[ast.expr]) -> Iterator[ast.Call]:
    for mark in marks:
        yield from _spec_calls(mark)


def _spec_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _mark_name(node.func) == "spec":
            yield node


def _mark_name(node: ast.expr) -> str | None:
    """``x`` of ``pytest.mark.x``."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "mark":
        return node.attr
    return None
