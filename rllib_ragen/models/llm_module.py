"""The policy as an RLlib module: a transformers causal LM and, if the estimator needs one, a value head."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import torch
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor, nn
from transformers import PreTrainedModel

from ragen_envs.spaces import AnyText
from rllib_ragen.faults.heartbeat import beat
from rllib_ragen.models.attention import ATTENTION
from rllib_ragen.models.fsdp import gathered, shard
from rllib_ragen.models.gradient_checkpointing import layers_of, recomputed_layers
from rllib_ragen.models.load import load_model
from rllib_ragen.models.logit_head import LogitHead, check_head
from rllib_ragen.models.lora_settings import LoraSettings
from rllib_ragen.models.token_scores import token_scores
from rllib_ragen.models.weight_arrays import WeightState, copy_into, to_array, without_twins

WeightT = TypeVar("WeightT")
LLM = "llm."
"""Prefix of the transformers model's weights in the module's state."""
VALUE_HEAD = "value_head."


def lm_weights(state: Mapping[str, WeightT]) -> dict[str, WeightT]:
    """Returns the transformers model's part of a module state, under the model's own names."""
    return {name.removeprefix(LLM): weight for name, weight in state.items() if name.startswith(LLM)}


class ModuleSettings(TypedDict):
    """`model_config` of an LLMRLModule."""

    path: str
    """Folder of a transformers model with safetensors."""
    dtype: str
    """Type of the sampler's weights and of activations. With bfloat16 the learner keeps float32 weights and
    autocasts.
    """
    temperature: float
    """Temperature of the log-probs, softmax(logits / temperature), as in the sampler."""
    value_head: bool
    seed: int
    """Seed of the initialisation of critic and adapters, which the model folder does not hold."""
    grouped_attention: bool
    """Whether to use this project's plain attention instead of SDPA: faster for small models on a CPU."""
    lora: LoraSettings | None
    """Adapters that a learner trains instead of the model's weights; None: none."""


class TokenOutputs(TypedDict, total=False):
    """Outputs [N], one entry per trained token, row by row."""

    logprobs: Tensor
    entropy: Tensor
    values: Tensor


class LLMRLModule(TorchRLModule, InferenceOnlyAPI):
    """The policy's log-probs, entropies and values of given tokens; generation is done by engines.

    On a learner weights are float32 (masters); an inference-only copy has the sampler's dtype. A learner may train only
    adapters: its state is theirs then, while samplers have a plain model and get merged weights.
    """

    llm: PreTrainedModel
    value_head: ValueHead | None
    adapted: bool
    """Whether this copy has adapters."""

    def setup(self) -> None:
        """Loads the model from safetensors; never runs code from the folder."""
        settings: ModuleSettings = self.model_config
        self.dtype = getattr(torch, settings["dtype"])
        self.llm = load_model(
            settings["path"],
            self.dtype if self.inference_only else torch.float32,
            attention=ATTENTION if settings["grouped_attention"] else "sdpa",
        )
        lora = None if self.inference_only else settings["lora"]
        self.adapted = lora is not None
        if lora is not None:
            from rllib_ragen.models.lora import add_adapters

            add_adapters(self.llm, lora, settings["seed"])
        hidden = self.llm.config.get_text_config().hidden_size
        self.value_head = ValueHead(hidden, settings["seed"]) if settings["value_head"] else None
        self.head = LogitHead.of(self.llm, settings["temperature"])
        if not self.inference_only:
            self._check_head()

    @classmethod
    def from_checkpoint(
        cls,
        path: Any,
        filesystem: Any = None,
        *,
        dtype: Literal["float32", "bfloat16"] = "float32",
        temperature: float = 1.0,
        **kwargs: Any,
    ) -> LLMRLModule:
        """Builds the policy of a checkpoint, inference-only: it scores tokens, and `llm` is the transformers model.

        RLlib's own `RLModule.from_checkpoint` looks for a pickle, which no checkpoint here has.

        Args:
            path: a policy's folder in a checkpoint, `FOLDER/default_policy`; or any plain transformers folder.
            filesystem: must be None: folders are mounted here.
            dtype: type of the weights.
            temperature: log-probs are those of softmax(logits / temperature).
            kwargs: must be empty.

        Raises:
            ValueError: no such folder, one with adapters alone, or arguments that have no meaning here.
        """
        folder = Path(getattr(path, "path", path))
        policy = next((one for one in (folder / "policy", folder) if (one / "config.json").is_file()), None)
        if filesystem is not None or kwargs or dtype not in ("float32", "bfloat16"):
            raise ValueError(
                "LLMRLModule.from_checkpoint takes a path, a dtype (float32 or bfloat16) and a temperature, and no more"
            )
        if policy is None:
            raise ValueError(
                f"{str(folder)!r} holds no whole policy; allowed: FOLDER/default_policy of a StarPO checkpoint FOLDER,"
                " or a transformers folder. For all of a run call StarPO.from_checkpoint(FOLDER); of a run that trains"
                " adapters, StarPO.from_checkpoint(FOLDER).export_model(OTHER) makes one"
            )
        whole = ModuleSettings(
            path=str(policy),
            dtype=dtype,
            temperature=temperature,
            value_head=False,
            seed=0,
            grouped_attention=True,
            lora=None,
        )
        module: LLMRLModule = RLModuleSpec(
            module_class=cls,
            observation_space=AnyText(),
            action_space=AnyText(),
            inference_only=True,
            model_config=dict(whole),
        ).build()
        return module

    def get_non_inference_attributes(self) -> list[str]:
        """Returns the critic's attribute: samplers do not need it."""
        return ["value_head"] if self.model_config["value_head"] else []

    def train(self, mode: bool = True) -> LLMRLModule:
        """Keeps dropout off, because the trained policy must be the one that samples."""
        super().train(mode)
        self.llm.eval()
        return self

    def token_outputs(
        self,
        input_ids: Tensor,
        trained: Tensor,
        *,
        logprobs: bool = True,
        entropy: bool = True,
        recompute: bool = False,
    ) -> TokenOutputs:
        """Computes log-prob and entropy (nats) of trained tokens, and the critic's value of the state before each.

        Args:
            input_ids: [B, T] int64, right-padded with any token. Causal attention needs no mask then.
            trained: [B, T] bool; True where token i is scored from tokens < i. Never at i = 0.
            logprobs: whether to compute log-probs.
            entropy: whether to compute entropies as well.
            recompute: recompute layers in the backward pass instead of keeping their activations.

        Returns:
            Tensors [N] in float32, N = trained.sum(), in row-major order. Only those N positions go through the
            vocabulary projection, a chunk at a time.
        """
        # A state is the position before the token that is sampled in it.
        states = trained[:, 1:]
        hidden = self._hidden(input_ids, recompute)[:, :-1][states]
        outputs = TokenOutputs()
        if logprobs:
            layer: Any = self.llm.get_output_embeddings()
            scores = token_scores(
                hidden,
                layer.weight,
                layer.bias,
                input_ids[:, 1:][states],
                self.head,
                entropy=entropy,
                dtype=self.dtype,
            )
            outputs["logprobs"] = scores.logprobs
            if entropy:
                outputs["entropy"] = scores.entropy
        if self.value_head is not None and not self.inference_only:
            outputs["values"] = self.value_head(hidden)
        return outputs

    def lm(self, **inputs: object) -> Any:
        """Returns the transformers model's own forward pass, in the learner's types."""
        with self.autocast(self.llm.device):
            return self.llm(**inputs)

    def shard(self, device: torch.device) -> None:
        """Shards the weights among the learners (FSDP2), and moves this one's part to `device`. A collective call.

        Raises:
            ValueError: the model has no layers that could gather their weights one after the other.
        """
        layers = layers_of(self.llm)
        if not layers:
            raise ValueError(
                f"learner.sharding=fsdp2: {type(self.llm).__name__} has no layers to shard by; allowed: ddp"
            )
        shard(self, layers, ("token_outputs", "lm"), device)

    def _forward(self, batch: dict[str, Tensor], **kwargs: Any) -> dict[str, Tensor]:
        """Returns `token_outputs` of "input_ids" and "trained", in inference as in training.

        Raises:
            ValueError: the batch has something else, such as RLlib's "obs".
        """
        if not {"input_ids", "trained"} <= batch.keys():
            raise ValueError(
                f"a batch with {', '.join(map(repr, batch)) or 'nothing'}: an LLMRLModule scores given tokens"
                " ('input_ids' [B, T] int64, 'trained' [B, T] bool); to act with a policy call algo.chat(messages), or"
                " generate with its transformers model, module.llm"
            )
        outputs: Any = self.token_outputs(batch["input_ids"], batch["trained"], **kwargs)
        return dict(outputs)

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        inference_only: bool = False,
        **kwargs: object,
    ) -> WeightState:
        """Returns copies of the weights by name, tied ones once. With adapters only theirs and the critic's.

        inference_only: only the LM, as a plain transformers model (adapters merged), in the sampler's dtype.
        A collective call if the weights are sharded: the first learner gets the state, the others nothing.
        """
        return {name: to_array(t).copy() for name, t in gathered(self.tensors(inference_only=inference_only))}

    def set_state(self, state: WeightState) -> None:
        """Replaces the weights in `state`; entries of a critic that this copy lacks are ignored.

        Raises:
            ValueError: an unknown name or a wrong shape; nothing has been changed then.
        """
        has_critic = not self.inference_only and self.value_head is not None
        copy_into(
            self.state_dict(),
            {name: array for name, array in state.items() if has_critic or not name.startswith(VALUE_HEAD)},
        )

    def tensors(self, *, inference_only: bool) -> dict[str, Tensor]:
        """Returns the state of `get_state` as tensors that share memory where types allow; sharded ones stay
        sharded.
        """
        if inference_only:
            state = without_twins(self._plain_state())
            return {LLM + name: tensor.to(self.dtype) for name, tensor in state.items()}
        state = without_twins(self.state_dict())
        if not self.adapted:
            return state
        from rllib_ragen.models.lora import is_adapter

        return {name: tensor for name, tensor in state.items() if is_adapter(name) or name.startswith(VALUE_HEAD)}

    def _plain_state(self) -> dict[str, Tensor]:
        """Returns the LM's state as a plain transformers model."""
        if not self.adapted:
            return self.llm.state_dict()
        from rllib_ragen.models.lora import merged_state

        return merged_state(self.llm)

    def _hidden(self, input_ids: Tensor, recompute: bool) -> Tensor:
        """Computes the hidden states [B, T, H] before the output layer."""
        beat()
        layers = recomputed_layers(self.llm) if recompute else nullcontext()
        with self._output_layer_sees(slice(0)) as hidden, layers, self.autocast(input_ids.device):
            self.llm(input_ids=input_ids, use_cache=False)
        return hidden[0]

    @contextmanager
    def _output_layer_sees(self, positions: slice) -> Iterator[list[Tensor]]:
        """Yields a list that receives the hidden states [B, T, H], while the output layer gets only `positions`."""
        hidden: list[Tensor] = []

        def select(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
            hidden.append(args[0])
            return (args[0][:, positions],)

        handle = self.llm.get_output_embeddings().register_forward_pre_hook(select)
        try:
            yield hidden
        finally:
            handle.remove()

    def _check_head(self) -> None:
        with torch.no_grad(), self._output_layer_sees(slice(None)) as hidden:
            logits = self.llm(input_ids=torch.tensor([[0, 1, 2]]), use_cache=False).logits
        check_head(self.llm, hidden[0], logits)

    def autocast(self, device: torch.device) -> torch.autocast:
        """Returns the context for bfloat16 activations on float32 weights, enabled if the settings ask for it."""
        half = self.dtype == torch.bfloat16 and not self.inference_only
        return torch.autocast(device.type, torch.bfloat16, enabled=half)


class ValueHead(nn.Module):
    """Critic on the policy's last hidden state: V = w₂ · tanh(W₁ h). Starts at V = 0, always in float32.

    The hidden state is detached: a fresh critic's gradients would damage a pretrained policy's features, and the
    policy's gradient stays exactly that of the policy loss. The price is a critic that can only use existing features.
    """

    def __init__(self, hidden_size: int, seed: int) -> None:
        super().__init__()
        # Local randomness: every learner must start with the same head, whatever else has drawn numbers.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.inner = nn.Linear(hidden_size, hidden_size)
        self.outer = nn.Linear(hidden_size, 1)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Computes values [N] of hidden states [N, H]."""
        value: Tensor = self.outer(torch.tanh(self.inner(hidden.detach().float())))[:, 0]
        return value
