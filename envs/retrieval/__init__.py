"""Search over texts: a local BM25 index, or a user's server."""
