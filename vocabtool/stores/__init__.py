"""Indexes in engines that already run: PostgreSQL, and others by the entry point."""
