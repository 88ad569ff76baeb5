"""How large a model is, from what its config states: parameters, and what one token costs. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ModelShape:
    """A decoder of equal blocks, each attention and a gated MLP, as Llama and Qwen2 are."""

    kind: str
    """`model_type` of its config."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    """Width of the MLP."""
    vocabulary: int
    tied: bool
    """Whether embedding and output layer are one matrix."""

    @classmethod
    def of(cls, config: Any) -> ModelShape:
        """Reads a transformers config (its language part), or an object with the same attributes.

        Raises:
            ValueError: it lacks one of them; a sentence.
        """
        try:
            hidden, heads = int(config.hidden_size), int(config.num_attention_heads)
            return cls(
                kind=str(config.model_type),
                layers=int(config.num_hidden_layers),
                hidden=hidden,
                heads=heads,
                kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
                head_size=int(getattr(config, "head_dim", None) or hidden // heads),
                inner=int(getattr(config, "intermediate_size", None) or getattr(config, "n_inner", None) or 4 * hidden),
                vocabulary=int(config.vocab_size),
                tied=bool(config.tie_word_embeddings),
            )
        except AttributeError as error:
            raise ValueError(f"model.path: its config does not say how large it is ({error})") from None

    @property
    def parameters(self) -> int:
        """All weights of a Llama or Qwen2 model (whose queries, keys and values have biases); others differ by
        little.
        """
        query, value = self.heads * self.head_size, self.kv_heads * self.head_size
        attention = self.hidden * (query + 2 * value) + query * self.hidden
        biases = query + 2 * value if self.kind == "qwen2" else 0
        block = attention + biases + 3 * self.hidden * self.inner + 2 * self.hidden
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * block + self.hidden + embeddings

    def lora_parameters(self, rank: int) -> int:
        """Counts weights of adapters of all linear layers of the blocks."""
        query, value = self.heads * self.head_size, self.kv_heads * self.head_size
        ends = 2 * (self.hidden + query) + 2 * (self.hidden + value) + 3 * (self.hidden + self.inner)
        return self.layers * rank * ends

    def kept_bytes(self, width: int) -> int:
        """Counts what a block keeps of one token for the backward pass, in bytes, without its attention's scores.

        Inputs of both norms and what they make of it, float32 in any case; of `width` bytes each: both norms' outputs,
        queries, keys, values, the attention's result (twice: it is laid out anew), and in the MLP gate, up, the gate's
        activation and their product.
        """
        query, value = self.heads * self.head_size, self.kv_heads * self.head_size
        return 4 * 4 * self.hidden + width * (2 * self.hidden + 3 * query + 2 * value + 4 * self.inner)

    def kv_bytes(self, width: int) -> int:
        """Counts keys and values of one token in all layers, in bytes, of `width` bytes a number."""
        return 2 * self.layers * self.kv_heads * self.head_size * width

    def forward_flops(self, tokens: int, context: int, parameters: int) -> float:
        """Counts operations of a forward pass over `tokens`, in sequences of `context`: 2 for each weight and token but
        the embedding's, and 4 for each head's number and each of the context / 2 tokens that one looks back on.
        """
        weights = parameters - (0 if self.tied else self.vocabulary * self.hidden)
        attention = 2 * self.layers * self.heads * self.head_size * context
        return float(tokens) * (2 * weights + attention)
