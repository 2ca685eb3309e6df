"""What commands show and save: one model of reports, and a renderer a format.

Nothing is counted or decided here, and nothing is printed: that is ``cli/``. Begin with
``model.py``, then ``oov.py`` for a report that is built of it, ``renderers.py`` for how it looks.
"""
