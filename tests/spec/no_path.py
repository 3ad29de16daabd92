"""A walker that finds file-system path types in source that must not know them (SEAM-08)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

PATH_TYPES = frozenset({"Path", "PosixPath", "PurePath", "PurePosixPath", "PureWindowsPath", "WindowsPath"})


def path_leaks(source: str, verbs: frozenset[str] = frozenset()) -> list[str]:
    """Where a module imports pathlib or mentions one of its types, quoted annotations included.

    The functions named in ``verbs`` may not speak of ``os.PathLike`` either; elsewhere (a constructor that
    is told where its root is) that is a fair thing to accept.
    """
    tree = ast.parse(source)
    found = [*_imports(tree), *_mentions(tree, PATH_TYPES)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in verbs:
            found += _mentions(node, frozenset({"PathLike"}))
    return [f"line {line} {what}" for line, what in sorted(set(found))]


def functions(source: str) -> set[str]:
    """The names of a module's top-level functions."""
    return {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(alias.name.partition(".")[0] == "pathlib" for alias in names):
                yield node.lineno, "imports pathlib"
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] == "pathlib":
                yield node.lineno, "imports pathlib"
            case ast.Call(args=[ast.Constant(value="pathlib"), *_]):
                yield node.lineno, "imports pathlib"


def _mentions(tree: ast.AST, types: frozenset[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in types:
                yield node.lineno, f"mentions {name}"
            case ast.alias(name=name) if name in types:
                yield node.lineno, f"mentions {name}"
            case ast.arg(annotation=ast.expr() as annotation) | ast.AnnAssign(annotation=annotation):
                yield from _quoted(annotation, types)
            case (
                ast.FunctionDef(returns=ast.expr() as annotation)
                | ast.AsyncFunctionDef(returns=ast.expr() as annotation)
            ):
                yield from _quoted(annotation, types)


def _quoted(annotation: ast.expr, types: frozenset[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                quoted = ast.parse(node.value, mode="eval")
            except SyntaxError:
                continue
            for _, what in _mentions(quoted, types):
                yield node.lineno, what
