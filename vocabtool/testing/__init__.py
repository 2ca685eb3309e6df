"""Contracts for stores and encoders of other packages, to be run with pytest.

Derive a class of tests from :class:`StoreContract` or :class:`EncoderContract`. Begin reading in
``store_contract.py``; ``small_corpus.py`` answers by brute force what stores are compared with.
"""

from pytest import register_assert_rewrite

register_assert_rewrite("vocabtool.testing.store_contract", "vocabtool.testing.encoder_contract")

from vocabtool.testing.encoder_contract import EncoderContract  # noqa: E402
from vocabtool.testing.store_contract import StoreContract  # noqa: E402

__all__ = ["EncoderContract", "StoreContract"]
