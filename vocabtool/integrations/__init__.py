"""Indexes and encoders in the interfaces of other frameworks, one file for each.

``filters.py`` writes their filters as conditions, ``metadata.py`` keeps their metadata.
Nothing here is imported until it is used, and an index is changed and searched only by the public
methods of ``Index``.
"""
