"""Models in GGUF files, made into plain transformers folders: `model.path` as `smollm2` or a .gguf file."""
