"""The whole story, offline and in under a minute, on text that every Python has.

    run(folder)   trains a small model, extracts its words, indexes, asks with and without hybrid

What each part does is in the file of its name; ``running.py`` puts them together.
"""

from __future__ import annotations

from vocabtool.demo.asking import Answer, Found
from vocabtool.demo.questions import Question
from vocabtool.demo.running import Demo, Step, run

__all__ = ["Answer", "Demo", "Found", "Question", "Step", "run"]
