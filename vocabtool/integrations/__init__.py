"""Indexes and encoders in the interfaces of other frameworks, one file for each framework.

``filters.py`` writes the frameworks' filters as conditions. ``metadata.py`` keeps the metadata of
their documents. No module of this package is imported until it is used. An index is changed and
searched only by the public methods of ``Index``.
"""
