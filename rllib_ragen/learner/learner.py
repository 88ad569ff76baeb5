"""The learner: optimiser steps on token rows, independent of estimators, groups and rewards."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from ragen_envs.tree import Tree
from rllib_ragen.faults.private_names.of_rllib_learner import LearnerHooks
from rllib_ragen.learner.distributed import broadcast_weights, clip_gradients, missing_passes, sum_gradients
from rllib_ragen.learner.frozen_logprobs import FrozenLogProbs, frozen_copy, frozen_logprobs, known, score_rows
from rllib_ragen.learner.losses.aggregate import row_scales
from rllib_ragen.learner.microbatches import MicroBatch, empty_microbatch, microbatches, num_microbatches
from rllib_ragen.learner.objective import Objective, objective
from rllib_ragen.learner.optimizer_state import load_optimizer_state, optimizer_state
from rllib_ragen.learner.schedule import lr_factor
from rllib_ragen.learner.training_data import OptimizerStep, TokenTrainingData
from rllib_ragen.learner.update_metrics import StepReport, UpdateReport
from rllib_ragen.models.gradient_checkpointing import layers_to_recompute
from rllib_ragen.models.llm_module import VALUE_HEAD, LLMRLModule, TokenOutputs
from rllib_ragen.models.weight_channel import Sender
from rllib_ragen.types import FloatArray, TokenRow

POLICY = "policy"
CRITIC = "critic"
logger = logging.getLogger(__name__)


class StarPOLearner(LearnerHooks):
    """Clipped surrogate on token rows, with exact gradient accumulation.

    The result of an update depends neither on the micro-batch size nor on the number of learners (up to the rounding
    of sums): the loss is a sum with scales fixed by the whole minibatch, and gradients are summed.
    """

    def build(self) -> None:
        """Builds as TorchLearner does, then copies the first learner's weights."""
        torch.set_num_threads(self.config.threads_of(actor=self.config.num_learners > 0))
        self.settings = self.config.learner_section()
        self._skipped_in_a_row: dict[str, int] = defaultdict(int)
        self.references: dict[str, LLMRLModule] = {}
        """Reference policies (initial models) by the policy that is held to them."""
        self._frozen = FrozenLogProbs()
        self.frozen_in_store: Tree = {}
        """Object-store references of untrained policies' weights, while they stay (`weight_sync.put`)."""
        self.weight_sender: Sender | None = None
        """End of the channel for weights to the engines; None: they come from the object store."""
        super().build()

    def place_modules(self, modules: Any) -> None:
        """Moves modules to the device, or shards them, before optimisers are made: sharding replaces parameters."""
        settings, sharded = self.settings, self.settings.sharding == "fsdp2"
        for module_id in sorted(modules.keys()):
            own: LLMRLModule = modules[module_id].unwrapped()
            if settings.gradient_checkpointing:
                layers_to_recompute(own.llm)
            if not sharded:
                own.to(self.device)
                broadcast_weights(own)
            copies = [own]
            if settings.kl_coeff and self.should_module_be_updated(module_id):
                # Before any checkpoint is loaded: a resumed run is held to the same weights, the model folder's.
                self.references[module_id] = frozen_copy(own, share=not sharded)
                copies.append(self.references[module_id])
            for copy in copies if sharded else ():
                copy.shard(self.device)

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """Registers AdamW for the policy and, with its own learning rate, for the critic; none for a frozen
        opponent.
        """
        if not self.should_module_be_updated(module_id):
            return
        parameters: dict[str, list[nn.Parameter]] = {POLICY: [], CRITIC: []}
        for name, parameter in self.module[module_id].named_parameters():
            if parameter.requires_grad:
                parameters[CRITIC if name.startswith(VALUE_HEAD) else POLICY].append(parameter)
        for name, lr in ((POLICY, config.lr), (CRITIC, config.critic_lr)):
            if parameters[name]:
                optimizer = torch.optim.AdamW(
                    parameters[name],
                    lr=lr,
                    betas=tuple(config.betas),
                    eps=config.adam_eps,
                    weight_decay=config.weight_decay,
                    # One pass over weights and moments: a fifth of the time of the default on a CPU.
                    fused=True,
                )
                self.register_optimizer(
                    module_id=module_id,
                    optimizer_name=name,
                    optimizer=optimizer,
                    params=parameters[name],
                )

    def update(self, *, training_data: TokenTrainingData, timesteps: Tree | None = None, **kwargs: object) -> Any:
        """Runs the planned optimiser steps and returns reduced metrics by module id.

        Replaces RLlib's timestep-oriented batching, minibatching and update as a whole; its hooks before and after the
        update are called. A collective call: every learner has a share, maybe empty, of every step.
        """
        self.before_gradient_based_update(timesteps=timesteps or {})
        self.num_updates += 1
        factor = self._set_learning_rates()
        trained = filter(self.should_module_be_updated, sorted(self.module.keys()))
        modules = {module_id: self._unwrapped(module_id) for module_id in trained}
        moving = [[row for row in step.rows if self._moves_weights(row)] for step in training_data.steps]
        self._frozen = frozen_logprobs(moving, modules, self.references, self.settings, self.device)
        reports: dict[str, UpdateReport] = defaultdict(UpdateReport)
        for step in training_data.steps:
            # Sorted: learners that take modules in different orders would wait for each other for ever.
            for module_id in sorted(step.totals):
                if self.should_module_be_updated(module_id):
                    self._optimizer_step(module_id, step, reports[module_id])
        # Clear the cache: the next update numbers its rows anew.
        self._frozen = FrozenLogProbs()
        for module_id, report in reports.items():
            numbers = report.metrics() | {"lr": factor * self.config.get_config_for_module(module_id).lr}
            if module_id not in self.references or self.settings.kl_in != "loss":
                del numbers["kl"]
            for name, value in numbers.items():
                self.metrics.log_value((module_id, name), value, reduce="mean", window=1)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    def critic_values(self, rows: Sequence[TokenRow]) -> list[FloatArray]:
        """Returns [num_tokens] per row: the critic's values of the states in which trained tokens are sampled, 0
        elsewhere.
        """
        return self._scores(rows, {m: self._unwrapped(m) for m in sorted(self.module.keys())}, "values")

    def reference_logprobs(self, rows: Sequence[TokenRow]) -> list[FloatArray]:
        """Returns [num_tokens] per row: the reference policy's log-probs of trained tokens, 0 elsewhere."""
        return self._scores(rows, self.references, "logprobs")

    def _scores(
        self, rows: Sequence[TokenRow], modules: Mapping[str, LLMRLModule], output: Literal["logprobs", "values"]
    ) -> list[FloatArray]:
        found = [np.zeros(row.num_tokens, np.float32) for row in rows]
        # All of them: with sharded weights each is a collective call.
        for module_id in sorted(modules):
            own = [i for i, row in enumerate(rows) if row.module_id == module_id]
            chosen, budget = [rows[i] for i in own], self.settings.microbatch_tokens
            for i, scores in zip(own, score_rows(chosen, modules[module_id], output, budget, self.device), strict=True):
                found[i] = scores
        return found

    def get_state(self, *args: object, **kwargs: object) -> Tree:
        """Returns the state of Learner.get_state, with the number of steps skipped in a row."""
        state: Tree = super().get_state(*args, **kwargs)
        return {**state, "skipped_in_a_row": dict(self._skipped_in_a_row)}

    def set_state(self, state: Tree) -> None:
        """Restores the state of `get_state`."""
        self.frozen_in_store.clear()
        super().set_state(state)

    def restore(self, state: Tree) -> None:
        """Restores a checkpoint's weights, moments and counters, whether it is older or newer than this learner.

        Raises:
            ValueError: the checkpoint is of another model; nothing has been changed then.
        """
        for module_id in sorted(self.module.keys()):
            wanted = self._unwrapped(module_id).tensors(inference_only=False).keys()
            given = state["rl_module"][module_id].keys()
            if wanted != given:
                raise ValueError(f"the checkpoint and this run differ in the weight {min(wanted ^ given)!r}")
        self.frozen_in_store.clear()
        for module_id, weights in state["rl_module"].items():
            self._unwrapped(module_id).set_state(weights)
        self.set_optimizer_states(state["optimizer"])
        self.num_updates = state["weights_seq_no"]
        self._skipped_in_a_row = defaultdict(int, state["skipped_in_a_row"])

    def copy_module(self, source: str, target: str) -> None:
        """Copies the weights of `source` to `target`, a policy that is not trained."""
        self.frozen_in_store.pop(target, None)
        own = self._unwrapped(target).state_dict()
        with torch.no_grad():
            # Tensor to tensor: of sharded ones each learner copies its part.
            for name, tensor in self._unwrapped(source).tensors(inference_only=False).items():
                if name in own or not name.startswith(VALUE_HEAD):
                    own[name].copy_(tensor)

    def compute_loss_for_module(
        self, *, module_id: str, config: object, batch: MicroBatch, fwd_out: TokenOutputs
    ) -> Objective:
        """Returns the objective of one micro-batch; override it for another loss."""
        return objective(fwd_out, batch, self.settings)

    def _optimizer_step(self, module_id: str, step: OptimizerStep, report: UpdateReport) -> None:
        """Accumulates the gradient of this learner's share, sums it over the learners, clips it, checks it and
        steps.
        """
        optimizers = dict(self.get_optimizers_for_module(module_id))
        for optimizer in optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        rows = [row for row in step.rows if row.module_id == module_id and self._moves_weights(row)]
        totals = step.totals[module_id]
        scales = row_scales(
            [row.num_trained_tokens for row in rows],
            self.settings.aggregation,
            total_tokens=totals.tokens,
            total_rows=totals.rows,
            norm_tokens=self.settings.norm_tokens or self.config.max_context_tokens,
        )
        report.add(*self._accumulate(module_id, rows, scales).reduced(self.device))
        norms = {name.rsplit("_", 1)[-1]: self._clip(optimizer) for name, optimizer in optimizers.items()}
        # Norms are the same on all learners, so all of them step or none does.
        if all(map(math.isfinite, norms.values())):
            self._skipped_in_a_row[module_id] = 0
            report.add_norms(norms)
            for optimizer in optimizers.values():
                optimizer.step()
        else:
            self._skipped_in_a_row[module_id] += 1
            report.add_skipped(self._skipped_in_a_row[module_id])
            logger.warning("A gradient is not finite (norms %s): this optimiser step is skipped.", norms)

    def _accumulate(self, module_id: str, rows: Sequence[TokenRow], scales: Sequence[float]) -> StepReport:
        """Accumulates the gradient of `rows` in the parameters."""
        report, budget = StepReport(), self.settings.microbatch_tokens
        missing = missing_passes(self._unwrapped(module_id), num_microbatches(rows, budget))
        for indices, batch in microbatches(rows, scales, budget):
            own = [rows[i] for i in indices]
            batch = batch.with_logprobs(own, known(own, self._frozen.old), known(own, self._frozen.reference))
            report.add(self._backward(module_id, batch))
        for _ in range(missing):
            self._backward(module_id, empty_microbatch())
        return report

    def _backward(self, module_id: str, batch: MicroBatch) -> Objective:
        batch = batch.to(self.device)
        outputs = self._unwrapped(module_id).token_outputs(
            batch.input_ids, batch.trained, recompute=self.settings.gradient_checkpointing
        )
        part = self.compute_loss_for_module(module_id=module_id, config=self.config, batch=batch, fwd_out=outputs)
        part.loss.backward()
        return part

    def _moves_weights(self, row: TokenRow) -> bool:
        """Returns whether a row can have a gradient; one that is exactly 0 need not be computed."""
        settings = self.settings
        has_critic = self._unwrapped(row.module_id).value_head is not None
        pulled = settings.kl_coeff > 0 and settings.kl_in == "loss"
        regularised = settings.entropy_coeff > 0 or pulled or (has_critic and settings.value_coeff > 0)
        return row.num_trained_tokens > 0 and (regularised or bool(row.advantages.any()))

    def _set_learning_rates(self) -> float:
        """Sets the learning rates of this update → their factor on the configured ones."""
        settings = self.settings
        update = self.num_updates - 1
        factor = lr_factor(update, settings.lr_schedule, settings.warmup_iterations, settings.decay_iterations)
        for _, _, optimizer in self.named_optimizers:
            for group in optimizer.param_groups:
                group["lr"] = factor * optimizer.defaults["lr"]
        return factor

    def _clip(self, optimizer: torch.optim.Optimizer) -> float:
        """Sums the gradients over the learners and clips their norm → the norm before clipping."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        sum_gradients(parameters)
        return clip_gradients(parameters, self.settings.grad_clip)

    def _unwrapped(self, module_id: str) -> LLMRLModule:
        module: LLMRLModule = self.module[module_id].unwrapped()
        return module

    def optimizer_states(self) -> Tree:
        """Returns copies of the moments by optimiser and parameter name, gathered if the weights are sharded."""
        return {
            name: {"module_id": module_id, "state": optimizer_state(optimizer, self.module[module_id])}
            for name, module_id, optimizer in self.named_optimizers
        }

    def set_optimizer_states(self, states: Tree) -> None:
        """Restores the result of `optimizer_states`."""
        for name, module_id, optimizer in self.named_optimizers:
            # A run that has not stepped yet has no moments.
            entry = states.get(name, {"state": {}})
            load_optimizer_state(optimizer, self.module[module_id], entry["state"])
