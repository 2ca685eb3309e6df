"""Indexes for Haystack, LangChain and LlamaIndex, and encoders for the last two.

Import the module of a framework, such as ``vocabtool.integrations.langchain``. The modules use only
the public methods of ``Index``.
"""
