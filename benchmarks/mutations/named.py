"""Wrong programs by name: changes that are worth trying and that no rule of operators.py makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.mutations.operators import Mutation, affected

WHERE = "named"
"""Place of a named change, where others name their function."""

NAMED: dict[str, dict[str, tuple[str, str]]] = {
    "learner/learner.py": {
        "the constant length is 1 unless it is set": (
            "norm_tokens=self.settings.norm_tokens or self.config.max_context_tokens",
            "norm_tokens=self.settings.norm_tokens or 1",
        ),
    },
    "learner/losses/value.py": {
        "the lower value clip is twice as wide": ("old_values - clip", "old_values - 2 * clip"),
        "the upper value clip is twice as wide": ("old_values + clip", "old_values + 2 * clip"),
    },
    "learner/losses/policy.py": {
        "both clips are the lower one": ("1.0 + clip_high", "1.0 + clip_low"),
        "both clips are the upper one": ("1.0 - clip_low", "1.0 - clip_high"),
    },
    "learner/objective.py": {
        "the critic's coefficient is dropped": ("loss + config.value_coeff * critic", "loss + critic"),
        "entropy is a cost": ("loss - config.entropy_coeff", "loss + config.entropy_coeff"),
        "the divergence has no scale": ("(batch.scale * per_token).sum()", "per_token.sum()"),
        "the divergence has the entropy's coefficient": ("config.kl_coeff *", "config.entropy_coeff *"),
        "the entropy has no scale": ("(batch.scale * entropy).sum()", "entropy.sum()"),
    },
    "rollout/conversation.py": {
        "all turns of an episode are sampled from one seed": (", len(self.trajectory.turns))", ")"),
    },
    "rollout/engines/requests.py": {
        "one uniform number for all tokens of a reply": (
            "np.random.default_rng(sampling.seed).random(max_new)",
            "np.full(max_new, np.random.default_rng(sampling.seed).random())",
        ),
        "the first uniform number for every token": ("r.uniforms[len(r.tokens)]", "r.uniforms[0]"),
        "requests draw from no seed": ("default_rng(sampling.seed)", "default_rng()"),
    },
    "rollout/game_answers.py": {
        "every end by the rules is a success": ('bool(info.get("success", False))', "True"),
    },
    "rollout/specs.py": {
        "members of a group share the sampler's seed": (
            "Stream.TRAINING_SAMPLING, run_seed, group, member",
            "Stream.TRAINING_SAMPLING, run_seed, group",
        ),
        "members of a group share the outcome seed": (
            "Stream.TRAINING_OUTCOME, run_seed, group, member",
            "Stream.TRAINING_OUTCOME, run_seed, group",
        ),
        "the sampling seed is the outcome seed": (
            "Stream.TRAINING_SAMPLING, run_seed, group, member",
            "Stream.TRAINING_OUTCOME, run_seed, group, member",
        ),
        "members of a group share the sampling seed where there are several environments": (
            "Stream.TRAINING_SAMPLING, run_seed, turn.group, member",
            "Stream.TRAINING_SAMPLING, run_seed, turn.group",
        ),
        "members of a group share the outcome seed where there are several environments": (
            "Stream.TRAINING_OUTCOME, run_seed, turn.group, member",
            "Stream.TRAINING_OUTCOME, run_seed, turn.group",
        ),
        "all runs sample from the same seeds": (
            "Stream.TRAINING_SAMPLING, run_seed, group, member",
            "Stream.TRAINING_SAMPLING, group, member",
        ),
    },
    "rollout/text_session.py": {
        "success is that the episode terminated": ('bool(info["success"])', "bool(terminated)"),
        "success is that the reward is positive": ('bool(info["success"])', "reward > 0"),
    },
}
"""Named changes by module: name → (text, which is there once; replacement)."""


def named_mutations(module: str, source: str, filename: str) -> Iterator[Mutation]:
    """Returns every named change of a module. Raises ValueError if its code has become another one."""
    tree = ast.parse(source)
    for name, (before, after) in NAMED.get(module, {}).items():
        if source.count(before) != 1:
            raise ValueError(f"named.py, {module}, {name}: the text {before!r} is there {source.count(before)} times")
        line = source[: source.index(before)].count("\n") + 1
        code = compile(source.replace(before, after), filename, "exec")
        (statement,) = (node for node in tree.body if node.lineno <= line <= (node.end_lineno or 0))
        yield Mutation(WHERE, line, name, code, affected(tree, statement))
