"""Operators of streams: a file per idea, each a start made of other starts; see ``streams.py``."""
