"""Keywords: texts cut into words and identifiers by our own rule, ranked by BM25."""
