"""SQuAD's comparison of answers: exact match and F1 over normalised words."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """Returns the answer in lower case, without punctuation and articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(answer: str, right: Iterable[str]) -> bool:
    """Returns whether `answer` is one of `right` after normalisation."""
    return normalised(answer) in {normalised(one) for one in right}


def f1(answer: str, right: Iterable[str]) -> float:
    """Returns the largest word F1 with any of `right`; yes, no and noanswer match as a whole or not at all."""
    return max((_f1(normalised(answer), normalised(one)) for one in right), default=0.0)


def _f1(one: str, other: str) -> float:
    if one != other and {one, other} & {"yes", "no", "noanswer"}:
        return 0.0
    ours, theirs = one.split(), other.split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0
