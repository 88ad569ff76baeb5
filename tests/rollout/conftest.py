"""Small real models and a real engine, shared by the rollout tests."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from rllib_ragen.models.chat_format import ChatFormat
from tests.rollout.build import make_model
from tests.rollout.families import tokenizer_of


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """More threads than cores make small models slower."""
    torch.set_num_threads(1)


@pytest.fixture
def model() -> LlamaForCausalLM:
    """A random Llama with grouped queries and tied embeddings; fresh, because engines and updates change it."""
    return make_model()


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    """The embedded model's kind of tokenizer."""
    return tokenizer_of("embedded")


@pytest.fixture(scope="session")
def chat(tokenizer: PreTrainedTokenizerBase) -> ChatFormat:
    """Its chat format."""
    return ChatFormat(tokenizer)
