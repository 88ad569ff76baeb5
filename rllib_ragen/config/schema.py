"""The one schema of a run, for YAML, command line and Python. Strict: unknown keys are errors.

Each key's own range is here; what keys must say together is in starpo/checks/, reading them in load.py.
Imports neither Ray nor torch, so that `--help` and bad input are answered at once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, ValidationInfo, field_validator, model_serializer

from ragen_envs.games.limits import GameLimits
from ragen_envs.text import PromptStyle, TextLimits
from ragen_envs.tree import Tree
from rllib_ragen.config.curriculum import CurriculumSection
from rllib_ragen.config.paths import EMBEDDED_MODEL, PLAYED, enter_model, enter_path, enter_text, enter_value
from rllib_ragen.config.reward_section import RewardSection, as_list
from rllib_ragen.config.section import MOST, Section
from rllib_ragen.config.task_names import shipped_game_name
from rllib_ragen.config.watching import AlarmsSection, FaultSection

WITH_DATA = ("webshop", "ragen/Webshop-v0", "search_qa", "ragen/SearchQa-v0", "maths", "ragen/Maths-v0")
"""Environments whose setting `data` is a file or folder."""
RESULTS = "results"
"""Default of `results_dir`, below the working directory."""
MAX_SEED = 2**31 - 1
"""Upper bound of seeds: NumPy's global seed ends at 2³² − 1, and RLlib adds each runner's number to it, so half of
it.
"""
Beta = Annotated[float, Field(ge=0, lt=1)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]


class EnvSection(Section):
    """The task, its limits, and the form of its prompts."""

    name: str = Field("sokoban", description="environment's name, Gymnasium id, or import path my_pkg.worlds:MyWorld")
    task: Tree = Field(default_factory=dict, description="settings of the task environment")
    max_turns: int = Field(
        5, ge=1, le=1_000_000, description="turns an episode may take; in a game, replies of each seat"
    )
    max_actions_per_turn: int = Field(5, ge=1, le=1_000_000, description="actions of one reply that are run")
    max_actions: int = Field(10, ge=1, le=1_000_000, description="actions an episode may take")
    format_penalty: float = Field(-0.1, ge=-1e6, le=0, description="added to the reward of a turn with no valid action")
    think: bool = Field(True, description="replies hold a <think> part")
    reply_prefix: str = Field(
        "", description="text that every reply is made to begin with, as <think>; it is not trained"
    )
    prompt_style: Literal["auto", "full", "brief"] = Field(
        "auto", description="full tells rules and format; brief only the state; auto: brief for the embedded model"
    )
    system_prompt: str = Field(
        "", description="system message in place of the environment's, {system}; a text, or a .txt or .md file"
    )
    prompt_template: str = Field(
        "", description="user message of each turn around the environment's, {message}; a text, or a .txt or .md file"
    )
    curriculum: CurriculumSection | None = Field(
        None, description="levels of difficulty, chosen by recent success; null: none"
    )

    @field_validator("system_prompt", "prompt_template", mode="after")
    @classmethod
    def _text_of_a_file(cls, given: str) -> str:
        return enter_text(given)

    @field_validator("name")
    @classmethod
    def _one_name_per_game(cls, name: str) -> str:
        return shipped_game_name(name) or name

    @field_validator("task", mode="after")
    @classmethod
    def _data_from_where_it_is_said(cls, task: Tree, info: ValidationInfo) -> Tree:
        return _with_data_path(task, info)

    @field_validator("curriculum", mode="after")
    @classmethod
    def _data_of_levels(cls, given: CurriculumSection | None, info: ValidationInfo) -> CurriculumSection | None:
        for level in given.levels if given else []:
            level.task = _with_data_path(level.task, info)
        return given


def _with_data_path(task: Tree, info: ValidationInfo) -> Tree:
    """Makes `task.data` of a shipped environment absolute: trials of a sweep have a folder of their own."""
    data = task.get("data")
    if info.data.get("name") in WITH_DATA and isinstance(data, str):
        return {**task, "data": str(enter_path(data))}
    return task


class EntrySection(EnvSection):
    """One of several environments of a run: the keys of `env`, its share of the groups, and what it is called."""

    label: str | None = Field(
        None, pattern=r"^\w[\w.-]*$", description="what metrics and tables call it; null: the environment's name"
    )
    weight: float = Field(1.0, gt=0, le=1e6, description="share of the groups, relative to the other environments'")
    max_reply_tokens: int | None = Field(
        None, ge=1, le=10_000_000, description="tokens a reply may take here; null: rollout.max_reply_tokens"
    )


class MultiAgentSection(Section):
    """The players of a game for several seats, and the rule for illegal moves (docs/games.md)."""

    mode: Literal["self_play", "per_role", "league", "against"] | None = Field(
        None, description="who sits at a game's seats; null: self_play in a game, and nothing elsewhere"
    )
    opponent: str = Field("uniform", description="scripted player at the other seats (against)")
    league_size: int = Field(
        4, ge=1, le=1_000, description="earlier copies of the policy that are kept as opponents (league)"
    )
    league_win_rate: float | None = Field(
        0.6, gt=0, le=1, description="score against the league from which the policy joins it; null: none is enough"
    )
    league_interval: int = Field(0, ge=0, le=MOST, description="iterations after which it joins in any case; 0: never")
    illegal_move: Literal["penalty", "retry", "forfeit"] = Field(
        "penalty", description="what a reply brings that names no legal action"
    )
    max_retries: int = Field(2, ge=0, le=1_000_000, description="how often in a row a seat is asked again (retry)")
    list_actions: bool = Field(True, description="prompts list the legal actions")


class ModelSection(Section):
    """The model of the policy, and its chat template."""

    path: str = Field(
        EMBEDDED_MODEL,
        description="`tiny` (embedded), `smollm2`, a transformers folder, a .gguf file, or a name of the Hub",
    )
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="type of weights and activations")
    template_kwargs: dict[str, Any] = Field(
        default_factory=dict,
        description="variables of the chat template, as {enable_thinking: false}; plain JSON values",
    )

    @field_validator("path", mode="after")
    @classmethod
    def _absolute(cls, path: str) -> str:
        return enter_model(path)

    @field_validator("template_kwargs", mode="after")
    @classmethod
    def _plain(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Raises ValueError for values that JSON cannot hold."""
        try:
            plain = json.loads(json.dumps(given, allow_nan=False)) == given
        except TypeError:
            plain = False
        if not plain:
            raise ValueError("not plain JSON")
        return given


class RolloutSection(Section):
    """Settings of sampling."""

    engine: Literal["auto", "hf", "vllm"] = Field("auto", description="who generates; auto says which and why")
    num_env_runners: int = Field(
        0, ge=0, le=10_000, description="actors that sample; 0: in the driver's process (hf only)"
    )
    num_gpus_per_env_runner: float = Field(
        0, ge=0, le=1_024, description="GPUs of one runner (tensor parallel when > 1)"
    )
    num_groups: int = Field(32, ge=1, le=1_000_000, description="task instances per iteration (P)")
    group_size: int = Field(4, ge=1, le=1_000_000, description="trajectories per instance (G)")
    max_reply_tokens: int = Field(72, ge=1, le=10_000_000, description="tokens a reply may take")
    max_context_tokens: int = Field(
        1024, ge=8, le=10_000_000, description="tokens a trajectory may take; at most the model's length"
    )
    max_concurrent: int = Field(128, ge=1, le=1_000_000, description="episodes in flight per runner")
    temperature: float = Field(1.0, ge=0.01, le=100, description="sampling temperature in training")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus; below 1 the ratio is biased: refused in training")
    top_k: int = Field(0, ge=0, le=10_000_000, description="0: whole vocabulary")
    overlap: Literal["off", "one_step_off"] = Field(
        "off", description="one_step_off: sample the next batch while this one is learnt from (needs env runners)"
    )
    env_timeout_s: float = Field(
        60.0, gt=0, le=MOST, description="a step that takes longer ends its episode as env_error"
    )
    timeout_s: float = Field(3600.0, gt=0, le=MOST, description="longest wait for one batch of rollouts")


class VLLMSection(Section):
    """Settings of vLLM's use of its device."""

    kv_cache_gib: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="KV cache; null: on a CPU what max_concurrent needs (at most 2), on a GPU what is left",
    )
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="share of a GPU for weights and KV cache")
    enforce_eager: bool | None = Field(None, description="no graphs; null: true on a CPU, false on a GPU")
    separate_process: bool = Field(False, description="engine core in a process beside the env runner's")
    sleep: bool = Field(False, description="give the GPU's memory back while the learner works on it")
    weight_transfer: Literal["object_store", "broadcast", "adapters"] = Field(
        "object_store",
        description="how new weights reach engines; broadcast: a process group, NCCL between GPUs; adapters: LoRA's"
        " alone, merged where the engine is",
    )


class CreditSection(Section):
    """Raw rewards → filtered groups → advantages per token."""

    estimator: str = Field("rloo", description="advantage estimator, or my_pkg.credit:MyEstimator")
    normalize: Literal["none", "batch"] = Field(
        "batch", description="batch: divide advantages by their std over the batch's trained tokens"
    )
    gamma: float = Field(1.0, ge=0, le=1, description="discount per token (gae, bi_level_gae, reinforce++)")
    role_decay: float = Field(0.95, ge=0, lt=1, description="EMA decay of the per-role reward baseline (rae)")
    lam: float = Field(1.0, ge=0, le=1, description="GAE lambda (gae, bi_level_gae)")
    turn_gamma: float = Field(0.95, ge=0, le=1, description="discount per turn (bi_level_gae, gigpo, turn_grpo)")
    turn_weight: float = Field(
        1.0, ge=0, le=1e6, description="turn's advantage beside its episode's (gigpo, turn_grpo)"
    )
    turn_rewards: bool = Field(
        True, description="gae, bi_level_gae, reinforce++: rewards on their own turn's last token, else all on the last"
    )
    reward_norm: Literal["none", "mean", "mean_std", "asym_clip"] = Field(
        "none", description="how returns are normalised before the estimator; filters read raw ones"
    )
    reward_grouping: Literal["group", "inductive", "batch"] = Field(
        "group", description="whose statistics reward_norm uses; inductive: all of a role's trajectories"
    )
    overlong_cache: int | None = Field(
        None, ge=1, le=10_000_000, description="soft overlong penalty window L_cache in tokens (DAPO eq. 13); null: off"
    )
    filter: str = Field(
        "none",
        description="which groups are learnt from: none, top_p, top_p_softmax, top_k, top_k_abs, min_p, or"
        " my_pkg:my_filter",
    )
    filter_value: float = Field(
        0.9, gt=0, le=1e6, description="v of the filter: a share, with top_k_abs a number of groups"
    )
    filter_metric: Literal[
        "reward_std", "reward_variance", "reward", "reward_sum", "entropy", "entropy_variance", "length"
    ] = Field("reward_std", description="score of a group")
    filter_direction: Literal["largest", "smallest"] = Field("largest", description="which scores are kept first")
    filter_zero_spread: bool = Field(False, description="filters may keep groups whose returns are all equal")
    group_weighting: Literal["none", "spread"] = Field(
        "none", description="spread: policy loss times the group's reward std, relative to the largest"
    )
    loss_scaling: Literal["none", "linear", "sqrt"] = Field(
        "none", description="policy loss times the kept share of the groups, or its root"
    )
    dynamic_sampling_rounds: int = Field(
        0, ge=0, le=1_000, description="rounds that replace groups of equal returns by further ones (dapo); 0: off"
    )
    max_empty_updates: int = Field(5, ge=1, le=MOST, description="stop after so many filtered-out batches in a row")


class LearnerSection(Section):
    """Settings of the update."""

    num_learners: int = Field(0, ge=0, le=10_000, description="learner actors; 0: in the driver's process")
    num_gpus_per_learner: float = Field(0, ge=0, le=1_024, description="GPUs of one learner")
    sharding: Literal["ddp", "fsdp2"] = Field(
        "ddp", description="several learners: each has all weights (ddp), or a part of them and of Adam's state (fsdp2)"
    )
    lr: float = Field(
        1e-4, gt=0, le=10, description="actor learning rate (a tiny model wants 1e-4, 0.5B-7B models 1e-6)"
    )
    critic_lr: float = Field(1e-3, gt=0, le=10, description="value-head learning rate")
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="Adam's betas")
    adam_eps: float = Field(1e-8, ge=1e-30, le=1, description="Adam's epsilon")
    weight_decay: float = Field(0.01, ge=0, le=100, description="AdamW weight decay")
    grad_clip: float = Field(1.0, gt=0, le=1e9, description="global gradient norm")
    num_minibatches: int = Field(
        1, ge=1, le=1_000_000, description="optimiser steps per epoch, counted in trajectories"
    )
    num_epochs: int = Field(1, ge=1, le=1_000, description="passes over a batch")
    torch_threads: int | None = Field(
        None, ge=1, le=1_024, description="torch threads of each process; null: 1 in actors, one per core in the driver"
    )
    lora_rank: int | None = Field(
        None,
        ge=1,
        le=65_536,
        description="train low-rank adapters of this rank instead of all weights (needs peft); null: off",
    )
    lora_alpha: float | None = Field(
        None, gt=0, le=1e6, description="LoRA scaling is lora_alpha / lora_rank; null: lora_alpha = 2 · lora_rank"
    )
    lora_targets: list[str] | None = Field(
        None, description="names of the linear layers that get adapters; null: all but the head"
    )
    microbatch_tokens: int = Field(8192, ge=1, le=MOST, description="padded tokens of one forward pass")
    gradient_checkpointing: bool = Field(False, description="layers computed again in backward: less memory, slower")
    lr_schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="of both learning rates after warm-up; the falling ones reach 0"
    )
    warmup_iterations: int = Field(0, ge=0, le=MOST, description="updates over which the learning rates rise")
    decay_iterations: int | None = Field(
        None, ge=1, le=MOST, description="update at which a falling schedule is at 0; null: `iterations`"
    )
    max_skipped_steps: int = Field(5, ge=1, le=MOST, description="stop after so many non-finite gradients in a row")
    loss: str = Field(
        "token",
        description="token: ratio of each token (PPO); sequence: of its trajectory (GSPO: wants clips near 3e-4);"
        " log_likelihood: no ratio and no clip (cloning); or my_pkg:my_loss",
    )
    tis_cap: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="truncated importance sampling: cap of learner's/sampler's probability; null: off",
    )
    clip_low: float = Field(0.2, ge=0, lt=1, description="lower clip of the ratio")
    clip_high: float = Field(0.28, ge=0, le=1e6, description="upper clip of the ratio")
    clip_dual: float | None = Field(3.0, gt=1, le=1e6, description="dual clip for negative advantages; null: off")
    aggregation: Literal["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"] = Field(
        "token-mean", description="how per-token losses become one number"
    )
    norm_tokens: int | None = Field(
        None, ge=1, le=MOST, description="divisor of seq-mean-token-sum-norm; null: rollout.max_context_tokens"
    )
    entropy_coeff: float = Field(0.001, ge=0, le=1e6, description="entropy bonus")
    kl_coeff: float = Field(
        0.0, ge=0, le=1e6, description="KL penalty to the reference policy (initial model); 0: no reference is loaded"
    )
    kl_estimator: Literal["k1", "k2", "k3"] = Field("k3", description="estimator of the KL penalty")
    kl_in: Literal["loss", "reward"] = Field(
        "loss", description="KL penalty as a term of the loss, or as a cost in each turn's reward"
    )
    value_coeff: float = Field(0.5, ge=0, le=1e6, description="weight of the value loss (gae)")
    value_clip: float = Field(0.5, gt=0, le=1e6, description="clip range of the value loss")


class OfflineSection(Section):
    """Training from stored trajectories, and storing them (docs/offline.md)."""

    input: str = Field(
        PLAYED,
        description="where training trajectories come from; `sampler`: they are played; else a JSONL file, a folder"
        " of such files or a pattern as runs/*/trajectories.jsonl",
    )
    output: str | None = Field(
        None, description="folder that gets every iteration's trajectories as a JSONL file; null: none"
    )

    @field_validator("input", "output", mode="after")
    @classmethod
    def _absolute(cls, path: str | None, info: ValidationInfo) -> str | None:
        return None if path is None else str(enter_value(f"offline.{info.field_name}", path))


class EvalSection(Section):
    """Settings of validation and test, on instances that are never trained on."""

    interval: int = Field(20, ge=0, le=MOST, description="iterations between validations; 0: none")
    num_instances: int = Field(128, ge=1, le=1_000_000, description="validation instances")
    num_test_instances: int = Field(
        256, ge=0, le=1_000_000, description="test instances before and after the run; 0: no test"
    )
    temperature: float | None = Field(
        None, ge=0.01, le=100, description="sampling temperature of evaluations; null: rollout.temperature"
    )


class DiagnosticsSection(Section):
    """When to estimate H(Z|X) and I(X;Z), and with how many thoughts (docs/diagnostics.md)."""

    interval: int = Field(
        5, ge=0, le=MOST, description="iterations between measurements of entropy and information; 0: none"
    )
    num_prompts: int = Field(
        32, ge=2, le=100_000, description="thoughts of one measurement, each scored after every prompt"
    )
    gradients_interval: int = Field(
        0, ge=0, le=MOST, description="iterations between measurements of gradients by reward std; 0: none"
    )
    high_entropy: float = Field(0.1, ge=0, le=1e3, description="nats per token from which H(Z|X) counts as high")
    high_information: float = Field(0.5, ge=0, le=1, description="share of H(X) from which I(X;Z) counts as high")


TrackerName = Literal["tensorboard", "wandb", "mlflow", "trackio"]


class RunConfig(Section):
    """The complete settings of a run."""

    env: EnvSection = Field(default_factory=EnvSection)
    envs: list[EntrySection] = Field(
        default_factory=list, max_length=100, description="several environments in one run, in place of `env`"
    )
    model: ModelSection = Field(default_factory=ModelSection)
    multi_agent: MultiAgentSection = Field(default_factory=MultiAgentSection)
    rollout: RolloutSection = Field(default_factory=RolloutSection)
    vllm: VLLMSection = Field(default_factory=VLLMSection)
    credit: CreditSection = Field(default_factory=CreditSection)
    learner: LearnerSection = Field(default_factory=LearnerSection)
    offline: OfflineSection = Field(default_factory=OfflineSection)
    eval: EvalSection = Field(default_factory=EvalSection)
    diagnostics: DiagnosticsSection = Field(default_factory=DiagnosticsSection)
    alarms: AlarmsSection = Field(default_factory=AlarmsSection)
    fault: FaultSection = Field(default_factory=FaultSection)
    preset: Literal["ragen-v1", "ragen-v2"] | None = Field(
        None, description="paper whose settings lie beneath all others (docs/papers.md); null: the environment's own"
    )
    rewards: list[RewardSection] = Field(
        default_factory=list, description="reward functions beside the environment's own, `env` (docs/rewards.md)"
    )
    seed: int = Field(0, ge=0, le=MAX_SEED, description="run seed: everything random follows from it")
    iterations: int = Field(80, ge=1, le=MOST, description="updates of the policy")
    time_limit_s: float | None = Field(
        None, gt=0, le=MOST, description="stop (and save) after so many seconds of training"
    )
    token_limit: int | None = Field(
        None, ge=1, le=10**15, description="stop (and save) after so many reply tokens sampled for training"
    )
    checkpoint_interval: int = Field(
        20, ge=0, le=MOST, description="iterations between checkpoints; 0: only at the end"
    )
    keep_checkpoints: int = Field(3, ge=0, le=MOST, description="newest checkpoints that are kept; 0: all")
    trackers: list[TrackerName] = Field(
        default=["tensorboard"], description="where curves and trajectories go beside the run folder; []: nowhere"
    )
    results_dir: Path = Field(
        default_factory=lambda: enter_path(RESULTS), description="where run folders go; a path is from where it is said"
    )
    name: str | None = Field(None, pattern=r"^\w[\w.-]*$", description="run folder's name; null: env, date and seed")

    @field_validator("rewards", mode="before")
    @classmethod
    def _named_or_told(cls, given: object) -> object:
        return as_list(given)

    @field_validator("results_dir", mode="before")
    @classmethod
    def _absolute(cls, given: object) -> object:
        # Before pydantic makes a Path: Path("") is the current folder.
        return enter_path(given) if isinstance(given, (str, Path)) else given

    @model_serializer(mode="wrap")
    def _as_it_was_said(self, plain: SerializerFunctionWrapHandler) -> Tree:
        """Leaves out that of `env` and `envs` which is not used: the two exclude each other."""
        unused = "env" if self.envs else "envs"
        return {key: value for key, value in plain(self).items() if key != unused}

    def text_limits(self) -> TextLimits:
        """Returns the limits of episodes, with prompt_style `auto` resolved: brief for the embedded model, else
        full.
        """
        env = self.env
        return TextLimits(
            max_turns=env.max_turns,
            max_actions_per_turn=env.max_actions_per_turn,
            max_actions=env.max_actions,
            format_penalty=env.format_penalty,
            think=env.think,
            prompt_style=self.prompt_style,
            system_prompt=env.system_prompt,
            prompt_template=env.prompt_template,
        )

    def game_limits(self) -> GameLimits:
        """Returns the limits of a game's episodes; `env.format_penalty` is the reward of an illegal move."""
        return GameLimits(
            illegal_move=self.multi_agent.illegal_move,
            illegal_reward=self.env.format_penalty,
            max_retries=self.multi_agent.max_retries,
            max_turns=self.env.max_turns,
            think=self.env.think,
            prompt_style=self.prompt_style,
            list_actions=self.multi_agent.list_actions,
            system_prompt=self.env.system_prompt,
            prompt_template=self.env.prompt_template,
        )

    @property
    def eval_temperature(self) -> float:
        """Temperature at which evaluations sample, beside their greedy replies."""
        return self.rollout.temperature if self.eval.temperature is None else self.eval.temperature

    @property
    def prompt_style(self) -> PromptStyle:
        """`env.prompt_style` with `auto` resolved: brief for the embedded model, else full."""
        if self.env.prompt_style != "auto":
            return self.env.prompt_style
        return "brief" if self.model.path == EMBEDDED_MODEL else "full"
