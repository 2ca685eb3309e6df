"""Serve indexes over HTTP, with a search page."""

import logging

logging.getLogger("vocabtool").addHandler(logging.NullHandler())  # silent, unless asked
