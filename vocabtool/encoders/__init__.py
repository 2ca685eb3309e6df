"""Encoders: one file for each kind, the interface they share, and opening one by what is given."""
