"""Indexes in engines that already run."""
