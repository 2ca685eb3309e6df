"""Tests for the stores and encoders of other packages, to be run with pytest.

Derive a test class from :class:`StoreContract` or :class:`EncoderContract`. The answers of a store
are compared with those of the brute-force search in ``small_corpus.py``.
"""

from pytest import register_assert_rewrite

register_assert_rewrite("vocabtool.testing.store_contract", "vocabtool.testing.encoder_contract")

from vocabtool.testing.encoder_contract import EncoderContract  # noqa: E402
from vocabtool.testing.store_contract import StoreContract  # noqa: E402

__all__ = ["EncoderContract", "StoreContract"]
