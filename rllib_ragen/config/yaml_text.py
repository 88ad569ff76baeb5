"""YAML in and out, the only place that reads or writes it: YAML 1.2's core schema, where `off` and `1:30` are texts.

PyYAML speaks YAML 1.1, in which `off`, `on`, `yes` and `no` are truth values, `010` is eight, `1:30` ninety, and `1e-4`
a text. Its safe subset is kept, its rules for plain scalars are replaced by the core schema's (YAML 1.2.2, §10.3.2).
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

_CORE = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"~|null|Null|NULL|", "~nN"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
"""Pattern of each tag's plain scalars, and their first characters; the first match counts, all else is text.
"""
_BASES = {"0o": 8, "0x": 16}
YAMLError = yaml.YAMLError


class _Loader(yaml.SafeLoader):
    """PyYAML's safe subset with the core schema's scalars, and without duplicate keys."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}  # type: ignore[misc]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for key in keys if keys.count(key) > 1]
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice[0]!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)

    def whole_number(self, node: yaml.ScalarNode) -> int:
        """Constructs an integer from `10`, `010` (ten), `0o10` or `0xA`."""
        text = str(self.construct_scalar(node))
        return int(text, _BASES.get(text[:2], 10))


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which quotes every text that YAML 1.1 or 1.2 would read as something else."""

    def text(self, text: str) -> yaml.ScalarNode:
        """Represents a text, escaping characters that are line breaks only in YAML 1.1, or not printable."""
        plain = all(character.isprintable() or character == "\n" for character in text)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


for _kind, (_pattern, _first) in _CORE.items():
    _rule = (
        f"tag:yaml.org,2002:{_kind}",
        re.compile(f"(?:{_pattern})$"),
        [*_first, *([""] if _kind == "null" else [])],
    )
    _Loader.add_implicit_resolver(*_rule)
    _Dumper.add_implicit_resolver(*_rule)
_Dumper.add_representer(str, _Dumper.text)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.whole_number)


def parse_yaml(text: str) -> Any:
    """Parses a YAML text.

    Raises:
        YAMLError: it is not YAML, or gives a key twice.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except (ValueError, TypeError, RecursionError) as error:
        # Numbers of thousands of digits, mappings as keys, thousands of brackets.
        raise yaml.YAMLError(str(error)) from None


def dump_yaml(tree: object) -> str:
    """Returns plain values as YAML text, which `parse_yaml` reads back unchanged."""
    text: str = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text
