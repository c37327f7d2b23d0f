"""Makes the committed reference outputs: what Transformers says in float32 about a checkpoint."""
