"""Stored trajectories as data for the page's viewer: state, thought, actions, reward and tokens of each turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from ragen_envs.reply import parse_reply
from ragen_envs.tree import Tree
from rllib_ragen.config.environments import worlds
from rllib_ragen.models.tiny.run_model import run_model_folder
from rllib_ragen.report.data import Row, Run
from rllib_ragen.starpo.checkpoint.layout import module_files
from rllib_ragen.types import DEFAULT_MODULE

Pieces = Callable[[Sequence[int]], list[str]]
"""A function that returns the text of each token; joined, they are the text of all."""
_MAX_TOKENS_OF_CHARACTER = 4
"""Most tokens of one character, which has at most four bytes in UTF-8, while a token has at least one."""


def viewer_data(runs: Sequence[Run], max_trajectories: int) -> list[Tree]:
    """Returns an entry per run: name, trajectories, number of those left out, and whether tokens could be decoded."""
    return [_of_run(run, max_trajectories) for run in runs]


def to_script_json(data: object) -> str:
    """Returns JSON that is safe inside a `<script>` element: nothing in it can end the element."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def chosen(trajectories: Sequence[Row], most: int) -> list[Row]:
    """Selects all trajectories of as many iterations as `most` allows, evenly from the first to the last."""
    by_iteration: dict[int, list[Row]] = {}
    for trajectory in trajectories:
        by_iteration.setdefault(trajectory["iteration"], []).append(trajectory)
    iterations = list(by_iteration)
    count = len(iterations)
    while count > 1 and sum(len(by_iteration[i]) for i in _evenly(iterations, count)) > most:
        count -= 1
    return [trajectory for i in _evenly(iterations, count) for trajectory in by_iteration[i]]


def token_pieces(run: Run) -> Pieces | None:
    """Returns the decoder of the run's tokenizer; None if none of its model folders exists any more."""
    saved = [module_files(state.path, DEFAULT_MODULE).policy for state in run.folder.checkpoints()]
    for folder in [run.folder.export, *saved, run_model_folder(run.config)]:
        if (folder / "tokenizer.json").is_file():
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            return lambda ids: _pieces(tokenizer, ids)
    return None


def _of_run(run: Run, most: int) -> Tree:
    pieces = token_pieces(run)
    kept = chosen(run.trajectories, most)
    thinks = {world.label: world.target.env.think for world in worlds(run.config)}
    return {
        "name": run.name,
        "left_out": len(run.trajectories) - len(kept),
        "has_tokens": pieces is not None,
        "trajectories": [_trajectory(record, thinks[record.get("env", "")], pieces) for record in kept],
    }


def _trajectory(record: Row, think: bool, pieces: Pieces | None) -> Tree:
    return {
        "iteration": record["iteration"],
        "group": f"{record.get('env', '')} {record['group_id']}".strip(),
        "member": record.get("member", 0),
        "return": record["return"],
        "success": record["success"],
        "stop": record["stop_reason"],
        "error": record["error"],
        "turns": [_turn(turn, think, pieces) for turn in record["turns"]],
    }


def _turn(turn: Row, think: bool, pieces: Pieces | None) -> Tree:
    reply = parse_reply(turn["reply"], think=think)
    return {
        "state": turn["prompt"],
        "reply": turn["reply"],
        "well_formed": reply.well_formed,
        "thought": reply.thought,
        "actions": list(reply.actions),
        "num_run": turn["num_actions"],
        "valid": turn["valid"],
        "reward": turn["reward"],
        "tokens": pieces(turn["reply_ids"]) if pieces else [],
        "logprobs": [round(value, 3) for value in turn["logprobs"]],
        "advantages": turn.get("advantages", []),
    }


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Returns the text of each token; a character of several tokens is given to the last of them."""
    stream, pieces, pending = DecodeStream(skip_special_tokens=False), [], 0
    for at, token in enumerate(ids, start=1):
        piece = stream.step(tokenizer, token) or ""
        pieces.append(piece)
        pending = 0 if piece else pending + 1
        if pending == _MAX_TOKENS_OF_CHARACTER:
            # The first of them is no part of a character. A stream would keep it, and decode all anew at each token.
            pieces[at - pending] = tokenizer.decode([ids[at - pending]], skip_special_tokens=False)
            pending -= 1
            stream = DecodeStream(skip_special_tokens=False)
            for waiting in ids[at - pending : at]:
                stream.step(tokenizer, waiting)
    if pending:
        pieces[-1] = tokenizer.decode(list(ids[-pending:]), skip_special_tokens=False)
    return pieces


def _evenly(items: Sequence[int], count: int) -> list[int]:
    if count >= len(items):
        return list(items)
    return [items[round(k * (len(items) - 1) / max(1, count - 1))] for k in range(count)]
