"""Text to words as a model makes them: rules recovered from its graph, or the model itself."""
