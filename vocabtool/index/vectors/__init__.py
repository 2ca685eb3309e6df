"""The vector leg of an index: the nearest vectors to one, exactly scored."""
