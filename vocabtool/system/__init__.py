"""Utilities: files that vocabtool writes, locks, checksums, a parallel map, byte strings."""
