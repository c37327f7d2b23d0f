"""Makes models/tiny: data generator, tokenizer trainer, model trainer and a check against Transformers."""
