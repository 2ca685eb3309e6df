"""Utilities: locks, checksums, a parallel map, byte strings, and files that vocabtool writes."""
