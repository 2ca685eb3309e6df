"""What a model does not know of a corpus: counted while documents pass, and summed up."""
