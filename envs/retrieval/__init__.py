"""Search over texts: a local BM25 index, or a server of the user's."""
