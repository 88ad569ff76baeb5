"""A local BM25 index with Lucene's weights: English stop words and stems, the same ranks in every process."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ragen_envs.extras import import_extra

_K1, _B = 0.9, 0.4
"""BM25's k1 and b: the defaults of Pyserini, which WebShop and Search-R1 search with."""
_WORD = re.compile(r"\w+")
_LOCK = threading.Lock()
"""Guard of the stemmer, which is not thread-safe: episodes run in threads."""


class BM25:
    """A BM25 index over texts. Equal scores keep the texts' order."""

    def __init__(self, texts: Sequence[str], extra: str, user: str) -> None:
        """
        Args:
            texts: the texts to index.
            extra: this project's extra that holds the packages.
            user: what needs the index, for messages.

        Raises:
            ValueError: bm25s or PyStemmer is not installed.
        """
        bm25s = import_extra("bm25s", "bm25s", extra, user)
        self._stop_words = frozenset(bm25s.tokenization.STOPWORDS_EN)
        self._stemmer: Any = import_extra("Stemmer", "PyStemmer", extra, user).Stemmer("english")
        self._index = bm25s.BM25(k1=_K1, b=_B, method="lucene")
        self._index.index([self._terms(text) or ["\0"] for text in texts], show_progress=False)
        self._known = frozenset(self._index.vocab_dict)

    def top(self, query: str, count: int) -> list[int]:
        """Returns the indices of the `count` best texts, best first; fewer if fewer share a word with `query`."""
        terms = [term for term in self._terms(query) if term in self._known]
        if not terms:
            return []
        scores = self._index.get_scores(terms)
        ranked = np.argsort(-scores, kind="stable")[:count]
        return [int(index) for index in ranked if scores[index] > 0]

    def _terms(self, text: str) -> list[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in self._stop_words]
        with _LOCK:
            return list(self._stemmer.stemWords(words))
