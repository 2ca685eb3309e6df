"""An index of vocabtool in Qdrant: a worked example of the entry point ``vocabtool.stores``."""
