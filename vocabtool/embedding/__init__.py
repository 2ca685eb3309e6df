"""Embed documents into resumable shards of vectors. Begin with ``embed.py``."""
