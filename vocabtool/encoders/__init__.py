"""Encoders turn texts into vectors. Begin with ``open_encoder.py``."""
