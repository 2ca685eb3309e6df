"""Serve indexes over HTTP, with a search page."""
