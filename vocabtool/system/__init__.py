"""What has nothing to do with words: atomic files, locks, checksums, a parallel map."""
