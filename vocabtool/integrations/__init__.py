"""Indexes and encoders for Haystack, LangChain and LlamaIndex.

Import the module of a framework, such as ``vocabtool.integrations.langchain``. The modules use only
the public methods of ``Index``.
"""
