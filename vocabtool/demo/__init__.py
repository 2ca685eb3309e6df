"""``vocabtool demo``: the whole story, offline, on text that every Python has. See ``story.py``."""
