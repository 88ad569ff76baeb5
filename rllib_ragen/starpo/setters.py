"""The fluent setters of StarPOConfig: one per section of the run config, every key by its own name."""

from __future__ import annotations

from typing import Any, Self

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided

from rllib_ragen.config.paths import enter_model


class FluentSetters(AlgorithmConfig):
    """Settings are plain attributes; `RunConfig` says what they may be, when the config is validated."""

    def llm(
        self,
        *,
        model: str = NotProvided,
        dtype: str = NotProvided,
        template_kwargs: dict[str, Any] = NotProvided,
        reply_prefix: str = NotProvided,
    ) -> Self:
        """The policy.

        Args:
            model: `tiny` (embedded) or a folder with a transformers model and its tokenizer.
            dtype: float32 or bfloat16, of the sampler's weights and of activations; learners keep float32 weights.
            template_kwargs: variables of the chat template, as {"enable_thinking": False}; plain JSON values.
            reply_prefix: text that every reply is made to begin with, as `<think>`; it is not trained.
        """
        return self._set(model_path=model, dtype=dtype, template_kwargs=template_kwargs, reply_prefix=reply_prefix)

    def games(
        self,
        *,
        play_mode: str | None = NotProvided,
        opponent: str = NotProvided,
        league_size: int = NotProvided,
        league_win_rate: float | None = NotProvided,
        league_interval: int = NotProvided,
        illegal_move: str = NotProvided,
        max_retries: int = NotProvided,
        list_actions: bool = NotProvided,
    ) -> Self:
        """Who plays whom in a game for several seats (docs/games.md); `.multi_agent(…)` is the way to say it in full.

        Args:
            play_mode: self_play, per_role, league or against; None: self_play.
            opponent: scripted player that `against` plays.
            league_size: earlier copies of the policy that are kept as opponents.
            league_win_rate: score against the league from which the policy joins it; None: none is enough.
            league_interval: iterations after which it joins in any case; 0: never.
            illegal_move: penalty, retry or forfeit.
            max_retries: how often in a row a seat is asked again (retry).
            list_actions: prompts list the legal actions.
        """
        return self._set(**{name: value for name, value in locals().items() if name not in ("self", "__class__")})

    def rollout(
        self,
        *,
        engine: str = NotProvided,
        max_reply_tokens: int = NotProvided,
        max_context_tokens: int = NotProvided,
        max_concurrent: int = NotProvided,
        temperature: float = NotProvided,
        top_p: float = NotProvided,
        top_k: int = NotProvided,
        overlap: str = NotProvided,
        env_timeout_s: float = NotProvided,
    ) -> Self:
        """How trajectories are sampled; who samples is `env_runners(num_env_runners=…)`.

        Args:
            engine: hf, vllm (needs env runners), or auto.
            max_reply_tokens: tokens a reply may take.
            max_context_tokens: tokens a trajectory may take.
            max_concurrent: episodes in flight per runner.
            temperature: sampling temperature in training, > 0.
            top_p: must be 1 in training.
            top_k: must be 0 (whole vocabulary) in training.
            overlap: off, or one_step_off (needs env runners): sample the next batch while this one is learnt from.
            env_timeout_s: a step that takes longer ends its episode as env_error.
        """
        return self._set(
            engine=engine,
            max_reply_tokens=max_reply_tokens,
            max_context_tokens=max_context_tokens,
            max_concurrent=max_concurrent,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            overlap=overlap,
            env_timeout_s=env_timeout_s,
        )

    def vllm(
        self,
        *,
        kv_cache_gib: float | None = NotProvided,
        gpu_memory_utilization: float = NotProvided,
        enforce_eager: bool | None = NotProvided,
        separate_process: bool = NotProvided,
        sleep: bool = NotProvided,
        weight_transfer: str = NotProvided,
    ) -> Self:
        """How vLLM uses its device. GPUs of one engine are `env_runners(num_gpus_per_env_runner=…)`.

        Args:
            kv_cache_gib: KV cache; None: on a CPU what max_concurrent needs (at most 2), on a GPU what is left.
            gpu_memory_utilization: share of a GPU for weights and KV cache.
            enforce_eager: no graphs; None: True on a CPU, False on a GPU.
            separate_process: engine core in a process beside the env runner's.
            sleep: give the GPU's memory back while the learner works on it.
            weight_transfer: object_store; broadcast: a process group of the first learner and all engines; adapters:
                LoRA's alone, merged by the runners.
        """
        return self._set(
            kv_cache_gib=kv_cache_gib,
            gpu_memory_utilization=gpu_memory_utilization,
            enforce_eager=enforce_eager,
            separate_process=separate_process,
            sleep=sleep,
            weight_transfer=weight_transfer,
        )

    def training(
        self,
        *,
        num_groups: int = NotProvided,
        group_size: int = NotProvided,
        estimator: str = NotProvided,
        normalize: str = NotProvided,
        lr: float = NotProvided,
        critic_lr: float = NotProvided,
        betas: tuple[float, float] = NotProvided,
        adam_eps: float = NotProvided,
        weight_decay: float = NotProvided,
        grad_clip: float = NotProvided,
        num_minibatches: int = NotProvided,
        num_epochs: int = NotProvided,
        microbatch_tokens: int = NotProvided,
        clip_low: float = NotProvided,
        clip_high: float = NotProvided,
        clip_dual: float | None = NotProvided,
        aggregation: str = NotProvided,
        entropy_coeff: float = NotProvided,
        value_coeff: float = NotProvided,
        value_clip: float = NotProvided,
        torch_threads: int | None = NotProvided,
    ) -> Self:
        """Batch, credit and update. Unknown arguments are TypeErrors; RLlib's timestep-oriented ones do not exist.

        Args:
            num_groups: task instances per iteration.
            group_size: trajectories per instance.
            estimator: advantage estimator.
            normalize: none, or batch (divide advantages by their std over trained tokens).
            lr: actor learning rate.
            critic_lr: value-head learning rate.
            betas: Adam's betas.
            adam_eps: Adam's epsilon.
            weight_decay: AdamW weight decay.
            grad_clip: global gradient norm.
            num_minibatches: optimiser steps per epoch, counted in trajectories.
            num_epochs: passes over a batch.
            microbatch_tokens: padded tokens of one forward pass; changes speed and memory, never the result.
            clip_low: lower clip of the ratio.
            clip_high: upper clip of the ratio.
            clip_dual: dual clip for negative advantages; None: off.
            aggregation: token-mean, seq-mean-token-mean, seq-mean-token-sum or seq-mean-token-sum-norm.
            entropy_coeff: entropy bonus.
            value_coeff: weight of the value loss (gae).
            value_clip: clip range of the value loss.
            torch_threads: threads of torch in each process; None: 1 in actors, one per core in the driver.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        return self._set(**given)

    def credit(
        self,
        *,
        gamma: float = NotProvided,
        lam: float = NotProvided,
        role_decay: float = NotProvided,
        turn_gamma: float = NotProvided,
        turn_weight: float = NotProvided,
        turn_rewards: bool = NotProvided,
        reward_norm: str = NotProvided,
        reward_grouping: str = NotProvided,
        overlong_cache: int | None = NotProvided,
        filter: str = NotProvided,
        filter_value: float = NotProvided,
        filter_metric: str = NotProvided,
        filter_direction: str = NotProvided,
        filter_zero_spread: bool = NotProvided,
        group_weighting: str = NotProvided,
        loss_scaling: str = NotProvided,
        dynamic_sampling_rounds: int = NotProvided,
        max_empty_updates: int = NotProvided,
    ) -> Self:
        """Raw rewards → filtered groups → advantages per token: more than `training` says.

        Args:
            gamma: discount per token (gae, bi_level_gae, reinforce++).
            lam: GAE lambda (gae, bi_level_gae).
            role_decay: memory of the baselines of roles (rae).
            turn_gamma: discount per turn (bi_level_gae, gigpo, turn_grpo).
            turn_weight: turn's advantage beside its episode's (gigpo, turn_grpo).
            turn_rewards: each turn's reward on its own last token (gae, bi_level_gae, reinforce++).
            reward_norm: none, mean, mean_std or asym_clip: how returns are normalised before the estimator.
            reward_grouping: group, inductive (a role's) or batch: whose statistics reward_norm uses.
            overlong_cache: last tokens of max_reply_tokens that cost, up to 1 where a reply is cut off; None: free.
            filter: none, top_p, top_p_softmax, top_k, top_k_abs or min_p.
            filter_value: v of the filter.
            filter_metric: score of a group: reward_std, reward_variance, reward, reward_sum, entropy, entropy_variance
                or length.
            filter_direction: largest or smallest scores first.
            filter_zero_spread: filters may keep groups whose returns are all equal.
            group_weighting: none, or spread (policy loss times the group's reward std).
            loss_scaling: none, linear or sqrt in the kept share of the groups.
            dynamic_sampling_rounds: rounds that replace groups without reward spread by further ones; 0: off.
            max_empty_updates: stop after so many filtered-out batches in a row.
        """
        return self._set(**{name: value for name, value in locals().items() if name not in ("self", "__class__")})

    def learning(
        self,
        *,
        loss: str = NotProvided,
        norm_tokens: int | None = NotProvided,
        tis_cap: float | None = NotProvided,
        kl_coeff: float = NotProvided,
        kl_estimator: str = NotProvided,
        kl_in: str = NotProvided,
        lr_schedule: str = NotProvided,
        warmup_iterations: int = NotProvided,
        decay_iterations: int | None = NotProvided,
        max_skipped_steps: int = NotProvided,
        sharding: str = NotProvided,
        gradient_checkpointing: bool = NotProvided,
        lora_rank: int | None = NotProvided,
        lora_alpha: float | None = NotProvided,
        lora_targets: list[str] | None = NotProvided,
    ) -> Self:
        """More of the update than `training` says.

        Args:
            loss: token (PPO's ratio of each token) or sequence (GSPO's of the whole trajectory; wants clips near 3e-4).
            norm_tokens: divisor of seq-mean-token-sum-norm; None: max_context_tokens.
            tis_cap: cap of truncated importance sampling's weights; None: off.
            kl_coeff: pull towards the model that the run started from; 0: that model is not loaded a second time.
            kl_estimator: k1, k2 or k3.
            kl_in: loss, or reward (each turn pays for its tokens; only estimators see it).
            lr_schedule: constant, linear or cosine.
            warmup_iterations: updates over which the learning rates rise.
            decay_iterations: update at which a linear or cosine schedule is at 0.
            max_skipped_steps: stop after so many non-finite gradients in a row.
            sharding: ddp, or fsdp2 (needs 2 learners or more): learners share out the weights and Adam's state.
            gradient_checkpointing: compute layers again in the backward pass; changes speed and memory only.
            lora_rank: train adapters of this rank instead of all weights; None: off. Needs the library peft.
            lora_alpha: adapters count lora_alpha/lora_rank times; None: twice.
            lora_targets: names of the linear layers that get adapters; None: all but the head.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        return self._set(**given)

    def diagnostics(
        self,
        *,
        diagnostics_interval: int = NotProvided,
        diagnostics_num_prompts: int = NotProvided,
        gradients_interval: int = NotProvided,
        high_entropy: float = NotProvided,
        high_information: float = NotProvided,
    ) -> Self:
        """How often it is measured how much reasoning depends on the prompt (docs/diagnostics.md).

        Args:
            diagnostics_interval: iterations between measurements; 0: none.
            diagnostics_num_prompts: thoughts of one measurement, each scored after every prompt.
            gradients_interval: iterations between measurements of gradients by reward spread; 0: none.
            high_entropy: nats per token from which H(Z|X) counts as high.
            high_information: share of H(X) from which I(X;Z) counts as high.
        """
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        return self._set(**given)

    def fault(
        self,
        *,
        report_after_s: float = NotProvided,
        hang_timeout_s: float = NotProvided,
        max_runner_gib: float | None = NotProvided,
    ) -> Self:
        """What is done about that which does not come back (docs/faults.md).

        Args:
            report_after_s: seconds without progress after which it is told what is waited for (`Watchdog`).
            hang_timeout_s: seconds without progress after which an env runner is replaced; see also `Watchdog`.
            max_runner_gib: resident memory from which an env runner is restarted after its batch; None: never.
        """
        return self._set(report_after_s=report_after_s, hang_timeout_s=hang_timeout_s, max_runner_gib=max_runner_gib)

    def _set(self, **given: Any) -> Self:
        for name, value in given.items():
            if value is not NotProvided:
                # A relative path is from where it is said; actors and trials are elsewhere.
                setattr(self, name, enter_model(value) if name == "model_path" and isinstance(value, str) else value)
        return self
