"""The configurable part of a tokenizer's chat template: its variables, and the date."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from transformers import PreTrainedTokenizerBase

from rllib_ragen.config.errors import nearest

NOW = "strftime_now"
"""Name of transformers' date function in templates; as a variable: the date to show instead of today's."""
_OURS = {"messages", "tools", "documents", "raise_exception", *inspect.signature(
    PreTrainedTokenizerBase.apply_chat_template
).parameters} - {"kwargs"}  # fmt: skip
"""Variables that rendering itself sets, and users may not."""


def template_text(tokenizer: PreTrainedTokenizerBase) -> str:
    """Returns the template of a tokenizer.

    Raises:
        ValueError: there is none, several without a default, or one that is not text.
    """
    found: Any = tokenizer.chat_template
    if not found:
        raise ValueError(f"the tokenizer {tokenizer.name_or_path!r} has no chat template")
    if isinstance(found, Mapping):
        if "default" not in found:
            names = ", ".join(map(str, found))
            raise ValueError(
                f"the tokenizer {tokenizer.name_or_path!r} has several chat templates ({names}), and none is called"
                " default"
            )
        found = found["default"]
    if not isinstance(found, str):
        raise ValueError(f"the chat template of the tokenizer {tokenizer.name_or_path!r} is no text")
    return found


def template_variables(template: str) -> set[str]:
    """Returns the names that a template uses and does not set itself.

    Raises:
        ValueError: it is not a Jinja template; one sentence.
    """
    try:
        parsed = Environment(extensions=[loopcontrols, _Generation], autoescape=True).parse(template)
    except (TemplateSyntaxError, RecursionError) as error:
        raise ValueError(f"the chat template cannot be read: {' '.join(str(error).split())}") from None
    return set(meta.find_undeclared_variables(parsed))


def check_variables(template: str, given: Mapping[str, object]) -> None:
    """Checks that the template has the variables `given`.

    Raises:
        ValueError: one that it does not use; one sentence with the key.
    """
    names = template_variables(template) - _OURS
    for name in given:
        if name not in names:
            raise ValueError(
                f"model.template_kwargs: the chat template does not use {name!r}; {nearest(name, sorted(names))}"
            )


def rendering_variables(given: Mapping[str, object]) -> dict[str, Any]:
    """Converts `model.template_kwargs` for the template: a fixed date becomes the date function.

    Raises:
        ValueError: a name that may not be set, or an invalid date; one sentence with the key.
    """
    if taken := sorted(_OURS & given.keys()):
        raise ValueError(f"model.template_kwargs: {taken[0]!r} is what conversations are rendered with; not to be set")
    variables = dict(given)
    if NOW in variables:
        variables[NOW] = _clock_at(variables[NOW])
    return variables


def _clock_at(date: object) -> Callable[[str], str]:
    try:
        moment = datetime.fromisoformat(str(date))
    except ValueError:
        raise ValueError(
            f"model.template_kwargs: {NOW} must be a date, as 2026-01-31 or 2026-01-31T12:00, got {date!r}"
        ) from None
    return moment.strftime


class _Generation(Extension):
    """transformers' `{% generation %}` block, for parsing only."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own annotation

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Returns the block's contents, as if the block were not there."""
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))
