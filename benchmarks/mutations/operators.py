"""The mutation operators: replacements of expressions and statements."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

_SWAPPED: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.RShift: (ast.LShift,),
    ast.LShift: (ast.RShift,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_OPPOSITES = [("min", "max"), ("minimum", "maximum"), ("any", "all"), ("argmin", "argmax"), ("zeros_like", "ones_like")]
_SWAPPED_NAMES = {a: b for pair in _OPPOSITES for a, b in (pair, pair[::-1])}
_KEPT_CALLS = {
    *("bool", "float", "int", "str", "list", "tuple", "dict", "set", "len", "range", "enumerate", "zip", "map", "cast"),
    *("float32", "float64", "int64", "astype", "to", "tolist", "array", "tensor", "asarray", "from_numpy", "encode"),
    "decode",
    *("items", "values", "keys", "super", "field", "dataclass", "property", "lru_cache", "append", "join", "format"),
}
"""Calls that are not left out: conversions, whose argument is often as good, and what only fails without them."""
_KEPT_KEYWORDS = {"strict", "device", "dtype", "non_blocking", "bound"}
"""Arguments that are not left out: they refuse what nobody passes, say where and how numbers are stored, or are a type
variable's."""
_UNTOUCHED_FIELDS = {"annotation", "returns", "decorator_list", "type_comment", "type_params", "bases", "keywords"}
_UNTOUCHED = (ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
"""Nodes that are not changed: texts for people, and statements for type checkers."""


@dataclass(frozen=True)
class Mutation:
    """A change of a module."""

    where: str
    """Qualified name of the function or class, or "module"."""
    line: int
    change: str
    """The change in words, `before → after`, with #2, #3 … for further places of the same change."""
    code: CodeType
    """Code of the whole changed module."""
    names: frozenset[str]
    """Names of the module that the change affects."""

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the mutation, without its line, which may move."""
        return self.where, self.change


def mutations(source: str, filename: str) -> Iterator[Mutation]:
    """Yields every change of a module, top to bottom."""
    tree = ast.parse(source)
    seen: Counter[tuple[str, str]] = Counter()
    names: frozenset[str] = frozenset()
    for where, holder, field, index, node in list(_slots(tree, "module")):
        if holder is tree:
            names = affected(tree, node)
        for replacement in _replacements(node, holder, field):
            change = f"{_text(node)} → {getattr(replacement, 'said', '') or _text(replacement)}"
            seen[where, change] += 1
            number = seen[where, change]
            ast.copy_location(replacement, node)
            ast.fix_missing_locations(replacement)
            _put(holder, field, index, replacement)
            code = compile(tree, filename, "exec")
            _put(holder, field, index, node)
            name = change + (f" #{number}" if number > 1 else "")
            yield Mutation(where, getattr(node, "lineno", 0), name, code, names)


def affected(tree: ast.Module, statement: ast.AST) -> frozenset[str]:
    """Returns the names that a statement of the module binds; of a constant also those made from it further down."""
    names = _bound(statement)
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return frozenset(names)
    for later in tree.body[tree.body.index(statement) + 1 :]:  # type: ignore[arg-type]
        if names & {node.id for node in ast.walk(later) if isinstance(node, ast.Name)}:
            names |= _bound(later)
    return frozenset(names)


def _bound(statement: ast.AST) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _put(holder: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(holder, field, node)
    else:
        getattr(holder, field)[index] = node


def _slots(holder: ast.AST, where: str) -> Iterator[tuple[str, ast.AST, str, int | None, ast.AST]]:
    """Yields (function, parent, field, position in the field, node) for all nodes below `holder` that may be
    changed.
    """
    for field, value in ast.iter_fields(holder):
        if field in _UNTOUCHED_FIELDS and not (field == "keywords" and isinstance(holder, ast.Call)):
            continue
        for index, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(node, ast.AST) or isinstance(node, _UNTOUCHED) or _is_docstring(node):
                continue
            if isinstance(node, ast.keyword) and node.arg in _KEPT_KEYWORDS:
                continue
            if _is_for_type_checkers(node):
                continue
            yield where, holder, field, index, node
            if isinstance(node, ast.Raise):
                continue
            inner = where
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                inner = f"{where}.{node.name}".removeprefix("module.")
            yield from _slots(node, inner)


def _is_for_type_checkers(node: ast.AST) -> bool:
    match node:
        case ast.If(ast.Name("TYPE_CHECKING")) | ast.AnnAssign(annotation=ast.Name("TypeAlias")):
            return True
    return False


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Pass):
        return "(nothing)"
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 90 else f"{text[:60]} … {text[-25:]}"


def _replacements(node: ast.AST, holder: ast.AST, field: str) -> Iterator[ast.AST]:
    if isinstance(node, ast.expr):
        yield from _of_expression(node)
        if field == "test" and not isinstance(node, (ast.Compare, ast.BoolOp)):
            negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
            yield node.operand if negated else ast.UnaryOp(ast.Not(), node)  # type: ignore[attr-defined]
        if field == "test" and isinstance(holder, (ast.If, ast.IfExp)):
            yield ast.Constant(False)
        if field == "ifs":
            yield ast.Constant(True)
        if isinstance(holder, ast.Slice):
            yield ast.Constant(None)
    elif isinstance(node, ast.stmt):
        yield from _of_statement(node)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _of_expression(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                for other in _SWAPPED[type(op)]:
                    yield ast.Compare(left, [*ops[:i], other(), *ops[i + 1 :]], comparators)  # type: ignore[list-item]
        case ast.BinOp(left, op, right):
            for other in _SWAPPED.get(type(op), ()):
                yield ast.BinOp(left, other(), right)  # type: ignore[arg-type]
            yield left
            yield right
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_SWAPPED[type(op)][0](), values)  # type: ignore[arg-type]
            for i in range(len(values)):
                rest = [*values[:i], *values[i + 1 :]]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(ast.USub() | ast.Invert(), operand):
            yield operand
        case ast.Call():
            yield from _of_call(node)


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    for i, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in _KEPT_KEYWORDS:
            shorter = ast.Call(function, node.args, [*node.keywords[:i], *node.keywords[i + 1 :]])
            shorter.said = f"the same without {keyword.arg}"  # type: ignore[attr-defined]
            yield shorter
    if name in _SWAPPED_NAMES:
        other = _SWAPPED_NAMES[name]
        swapped = ast.Attribute(function.value, other) if isinstance(function, ast.Attribute) else ast.Name(other)
        swapped.ctx = ast.Load()
        yield ast.Call(swapped, node.args, node.keywords)
    if name in _KEPT_CALLS or name[:1].isupper():
        return
    module = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    if isinstance(function, ast.Attribute) and not (module and function.value.id in ("np", "torch", "math")):  # type: ignore[attr-defined]
        yield function.value
    else:
        yield from (argument for argument in node.args if not isinstance(argument, (ast.Starred, ast.GeneratorExp)))


def _of_statement(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(ast.Call()) | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield ast.Pass()
        case ast.AugAssign(target, op, value):
            yield ast.Pass()
            for other in _SWAPPED.get(type(op), ()):
                yield ast.AugAssign(target, other(), value)  # type: ignore[arg-type]
        case ast.Assign(targets=[target], value=value) if _changes_something(target, value):
            yield ast.Pass()
        case ast.Return(value) if value is not None and not _is_none(value):
            yield ast.Return(ast.Constant(None))


def _changes_something(target: ast.expr, value: ast.expr) -> bool:
    """Returns whether the target would still exist without the assignment, with another value."""
    if isinstance(target, ast.Name):
        return any(isinstance(node, ast.Name) and node.id == target.id for node in ast.walk(value))
    return isinstance(target, (ast.Attribute, ast.Subscript))
