"""Documents through an encoder into shards: parallel, bounded, resumable, exactly once."""
