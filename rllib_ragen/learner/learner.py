"""The learner: rows in, optimiser steps out. It knows nothing of estimators, groups or rewards."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from torch import nn

from rllib_ragen.learner.batching import MicroBatch, microbatches
from rllib_ragen.learner.distributed import broadcast_weights, sum_gradients
from rllib_ragen.learner.losses.aggregate import row_scales
from rllib_ragen.learner.objective import Objective, objective
from rllib_ragen.learner.optimizer_state import load_optimizer_state, optimizer_state
from rllib_ragen.learner.report import StepReport, UpdateReport
from rllib_ragen.learner.training_data import OptimizerStep, TokenTrainingData
from rllib_ragen.models.llm_module import VALUE_HEAD, LLMRLModule, TokenOutputs
from rllib_ragen.types import FloatArray, TokenRow

POLICY = "policy"
CRITIC = "critic"
logger = logging.getLogger(__name__)


class StarPOLearner(TorchLearner):
    """Clipped surrogate on token rows, with exact gradient accumulation.

    The result of an update depends neither on the micro-batch size nor on the number of learners (up to the rounding
    of sums): the loss is a sum with scales fixed by the whole minibatch, and gradients are summed.
    """

    def build(self) -> None:
        """As TorchLearner, then takes over the first learner's weights."""
        torch.set_num_threads(self.config.threads_of(actor=self.config.num_learners > 0))
        super().build()
        self._settings = self.config.learner_section()
        for module_id in sorted(self.module.keys()):
            broadcast_weights(self.module[module_id])

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """AdamW for the policy and, with its own learning rate, for the critic."""
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
                )
                self.register_optimizer(
                    module_id=module_id,
                    optimizer_name=name,
                    optimizer=optimizer,
                    params=parameters[name],
                    lr_or_lr_schedule=lr,
                )

    def update(
        self, *, training_data: TokenTrainingData, timesteps: dict[str, Any] | None = None, **kwargs: Any
    ) -> Any:
        """Makes the planned optimiser steps and returns reduced metrics by module id.

        Replaces RLlib's timestep-oriented batching, minibatching and update as a whole; its hooks before and after the
        update are called. A collective call: every learner has a share, maybe empty, of every step.
        """
        self.before_gradient_based_update(timesteps=timesteps or {})
        self._weights_seq_no += 1
        reports: dict[str, UpdateReport] = defaultdict(UpdateReport)
        for step in training_data.steps:
            # Sorted: learners that take modules in different orders would wait for each other for ever.
            for module_id in sorted(step.totals):
                if self.should_module_be_updated(module_id):
                    self._optimizer_step(module_id, step, reports[module_id])
        for module_id, report in reports.items():
            for name, value in report.metrics().items():
                self.metrics.log_value((module_id, name), value, reduce="mean", window=1)
        self.after_gradient_based_update(timesteps=timesteps or {})
        return self.metrics.reduce()

    def critic_values(self, rows: Sequence[TokenRow]) -> list[FloatArray]:
        """Per row [num_tokens]: the critic's value of the state in which a trained token is sampled, 0 elsewhere."""
        values = [np.zeros(row.num_tokens, np.float32) for row in rows]
        for module_id in sorted({row.module_id for row in rows}):
            where = [i for i, row in enumerate(rows) if row.module_id == module_id and row.num_trained_tokens]
            own = [rows[i] for i in where]
            for indices, batch in microbatches(own, [0.0] * len(own), self._settings.microbatch_tokens):
                with torch.no_grad():
                    packed = self._outputs(module_id, batch.to(self._device))["values"].cpu().numpy()
                ends = np.cumsum([own[i].num_trained_tokens for i in indices])
                for i, part in zip(indices, np.split(packed, ends[:-1]), strict=True):
                    values[where[i]][own[i].mask > 0] = part
        return values

    def restore(self, state: dict[str, Any]) -> None:
        """Takes a checkpoint's weights, moments and update counter, whether it is older or newer than this learner.

        Raises:
            ValueError: the checkpoint is one of another model; nothing has been changed then.
        """
        for module_id in sorted(self.module.keys()):
            wanted, given = self.module[module_id].unwrapped().get_state().keys(), state["rl_module"][module_id].keys()
            if wanted != given:
                raise ValueError(f"the checkpoint and this run differ in the weight {min(wanted ^ given)!r}")
        for module_id, weights in state["rl_module"].items():
            self.module[module_id].unwrapped().set_state(weights)
        self._set_optimizer_state(state["optimizer"])
        self._weights_seq_no = state["weights_seq_no"]

    def compute_loss_for_module(
        self, *, module_id: str, config: Any, batch: MicroBatch, fwd_out: TokenOutputs
    ) -> Objective:
        """The objective of one micro-batch; override it for another loss."""
        return objective(fwd_out, batch, self._settings)

    def _optimizer_step(self, module_id: str, step: OptimizerStep, report: UpdateReport) -> None:
        """Accumulates the gradient of this learner's share, sums it over the learners, clips, checks and steps."""
        optimizers = dict(self.get_optimizers_for_module(module_id))
        for optimizer in optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        rows = [row for row in step.rows if row.module_id == module_id and self._moves_weights(row)]
        totals = step.totals[module_id]
        scales = row_scales(
            [row.num_trained_tokens for row in rows],
            self._settings.aggregation,
            total_tokens=totals.tokens,
            total_rows=totals.rows,
        )
        step_report = StepReport()
        for _, batch in microbatches(rows, scales, self._settings.microbatch_tokens):
            on_device = batch.to(self._device)
            part = self.compute_loss_for_module(
                module_id=module_id,
                config=self.config,
                batch=on_device,
                fwd_out=self._outputs(module_id, on_device),
            )
            part.loss.backward()
            step_report.add(part)
        report.add(*step_report.reduced(self._device))
        norms = {name.rsplit("_", 1)[-1]: self._clip(optimizer) for name, optimizer in optimizers.items()}
        # Norms are the same on all learners, so all of them step or none does.
        if all(map(math.isfinite, norms.values())):
            report.add_norms(norms)
            for optimizer in optimizers.values():
                optimizer.step()
        else:
            logger.warning("A gradient is not finite (norms %s): this optimiser step is skipped.", norms)
            report.skipped_steps += 1

    def _moves_weights(self, row: TokenRow) -> bool:
        """False for rows whose every gradient is exactly 0: computing it would be a waste."""
        settings = self._settings
        has_critic = self.module[row.module_id].unwrapped().value_head is not None
        learns = settings.entropy_coeff > 0 or (has_critic and settings.value_coeff > 0) or bool(row.advantages.any())
        return row.num_trained_tokens > 0 and learns

    def _clip(self, optimizer: torch.optim.Optimizer) -> float:
        """Sums the gradients over the learners and clips their norm; returns the norm before clipping."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        sum_gradients(parameters)
        return float(nn.utils.clip_grad_norm_(parameters, self._settings.grad_clip))

    def _outputs(self, module_id: str, batch: MicroBatch) -> TokenOutputs:
        module: LLMRLModule = self.module[module_id].unwrapped()
        return module.token_outputs(batch.input_ids, batch.trained)

    def _make_modules_ddp_if_necessary(self) -> None:
        """No DDP: gradients are summed by hand (distributed.py)."""

    def _get_optimizer_state(self) -> dict[str, Any]:
        return {
            name: {"module_id": module_id, "state": optimizer_state(optimizer, self.module[module_id])}
            for name, optimizer in self._named_optimizers.items()
            for module_id in [self._optimizer_name_to_module[name]]
        }

    def _set_optimizer_state(self, state: dict[str, Any]) -> None:
        for name, optimizer in self._named_optimizers.items():
            # A run that has not stepped yet has no moments.
            entry = state.get(name, {"state": {}})
            load_optimizer_state(optimizer, self.module[self._optimizer_name_to_module[name]], entry["state"])
