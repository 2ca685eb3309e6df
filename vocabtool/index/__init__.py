"""A folder to search in: vectors, keywords and documents, with commits over all of them."""
