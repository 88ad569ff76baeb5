"""Documents, and the interface of retrievers: a query in, documents out, best first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ragen_envs.json_lines import read_rows, text_of
from ragen_envs.retrieval.bm25 import BM25
from ragen_envs.tree import Tree


@dataclass(frozen=True)
class Document:
    """A passage and its title."""

    title: str
    text: str


class Retriever(Protocol):
    """A searchable collection of documents."""

    def search(self, query: str, count: int) -> list[Document]:
        """Returns the `count` best documents, best first."""


class LocalRetriever:
    """BM25 over documents in memory."""

    def __init__(self, documents: list[Document], extra: str, user: str) -> None:
        """Takes BM25's arguments. Raises ValueError if its packages are missing."""
        self._documents = documents
        self._index = BM25([f"{document.title} {document.text}" for document in documents], extra, user)

    def search(self, query: str, count: int) -> list[Document]:
        """Returns the `count` best documents, best first; fewer if fewer share a word with `query`."""
        return [self._documents[place] for place in self._index.top(query, count)]


def read_corpus(file: str | Path) -> list[Document]:
    """Returns the documents of a corpus in JSON lines: `title` and `text`, or `contents` whose first line is the title.

    Raises:
        ValueError: an unreadable file or a broken row, with its line.
    """
    return read_rows(file, document_of)


def document_of(row: Tree) -> Document:
    """Returns the document in one row. Raises ValueError for a row without one."""
    if "contents" in row:
        title, _, text = text_of(row, "contents").partition("\n")
        return Document(title.strip('" '), text.strip())
    return Document(text_of(row, "title"), text_of(row, "text"))
