"""The model side of the engine: where weights come from, what they compute, how a token is drawn."""
