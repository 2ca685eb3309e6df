"""What commands show and save: what was found as sections and lists, and a renderer a format.

Nothing is counted or decided here, and nothing is printed: that is ``cli/``. Begin with
``reader.py``, then ``oov.py`` for a report that is built of it, ``model.py`` for how it looks.
"""
