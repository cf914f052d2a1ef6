"""Text in, batches out: corpora, the tokenizer, batching, and the embedded data sets."""
