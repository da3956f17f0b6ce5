"""The language model: decoder, sampler, tokenizer, cold start."""
