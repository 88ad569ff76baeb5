"""A small model for one game, made from nothing on random legal play: `model.path: tiny` with a game.

python -m rllib_ragen.models.tiny.game_model --env tic_tac_toe --out results/tic_tac_toe_model

The embedded model was never trained on a game and names no legal move in one. This one reads the game's prompts (brief
style) and answers with a legal action drawn evenly, named in its thought and again in its answer: it knows how to move,
and prefers no move to another. Where the game can tell a position and a move in words (`TextGame.describe_for`,
`describe_move`), the thought does: such a model sees what is there and what it does, and does not care. Made once, in
about a minute on a core, and kept in the user's cache folder; those in `games/` come with the package.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from ragen_envs.cache import cache_folder
from ragen_envs.games.env import TextGameEnv
from ragen_envs.games.limits import GameLimits
from ragen_envs.games.registry import make_text_game
from ragen_envs.reply import format_reply
from ragen_envs.seeds import Stream, block_of, generator, seed_of
from ragen_envs.worlds import ENVIRONMENTS
from rllib_ragen.config.task_names import task_word
from rllib_ragen.models.folder import GAME_MODEL_LENGTH
from rllib_ragen.models.quiet_libraries import quieten
from rllib_ragen.models.tiny.teacher import Message

RECIPE_VERSION = 1
"""Part of every cache key; raise it when the recipe or the games' texts change, so that old models are not used."""
_NUM_GAMES = {"tic_tac_toe": 40_000}
"""Random games for training, by game: tic-tac-toe's texts name lines of marks, which takes more games than copying."""
_FEW_GAMES = 2_000
"""Default number of random games: chosen freely, enough for the form of replies, and made in minutes."""
_SHIPPED = Path(__file__).parent / "games"
_VOCAB_SIZE = 512
"""Size of the model's vocabulary: chosen freely, because states and moves are few words."""
_LEARNING_RATE, _BATCH_SIZE = 2e-3, 8
"""Learning rate of AdamW and samples per batch: chosen freely; a change needs a new RECIPE_VERSION."""


def game_model_folder(name: str, game: Mapping[str, object], limits: GameLimits) -> Path:
    """Returns the folder of the model of game `name`, in the package or in the cache; it need not exist yet."""
    told = {key: value for key, value in asdict(limits).items() if key in ("think", "list_actions")}
    asked = [RECIPE_VERSION, name, dict(game), told, num_games_of(name)]
    if ENVIRONMENTS.is_users(name):
        # The rules of a user's game change without a RECIPE_VERSION.
        asked.append(_source(name))
    key = json.dumps(asked, sort_keys=True)
    folder = f"{task_word(name)}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    shipped = _SHIPPED / folder
    return shipped if shipped.is_dir() else cache_folder() / "game_models" / folder


def _source(name: str) -> str:
    """Returns the source of the module of a user's game."""
    game = ENVIRONMENTS.resolve(name)
    try:
        return inspect.getsource(inspect.getmodule(game) or game)
    except (OSError, TypeError):
        raise ValueError(
            f"model.path=tiny with env.name={name}: the game's source cannot be read, so whether its small model still"
            " fits its rules is not known; allowed: a game in a file, or a model folder"
        ) from None


def num_games_of(name: str) -> int:
    """Returns the number of random games that the model of game `name` is trained on."""
    return _NUM_GAMES.get(name, _FEW_GAMES)


def ensure_game_model(name: str, game: Mapping[str, object], limits: GameLimits) -> Path:
    """Returns the folder of the model, which is made now unless it exists.

    Raises:
        ValueError: an unknown game or setting.
    """
    folder = game_model_folder(name, game, limits)
    if (folder / "made.json").is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Several processes may make the same model at once: each its own folder, then one atomic step.
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-"))
    try:
        make(draft, name, game, limits)
        draft.rename(folder)
    except OSError:
        if not (folder / "made.json").is_file():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def make(out: Path, name: str, game: Mapping[str, object], limits: GameLimits, num_games: int | None = None) -> None:
    """Makes tokenizer and model and saves them as a plain transformers folder, with made.json beside them.

    Args:
        out: folder to write.
        name: the game.
        game: its settings.
        limits: form of the replies; the prompt style is always brief.
        num_games: random games to train on; None: `num_games_of` the game.
    """
    import torch

    from rllib_ragen.models.chat_format import ChatFormat
    from rllib_ragen.models.tiny.demonstrations import as_text, encode
    from rllib_ragen.models.tiny.make import Phase, build_model, train
    from rllib_ragen.models.tiny.tokenizer import train_tokenizer

    num_games = num_games or num_games_of(name)
    told = replace(limits, prompt_style="brief", system_prompt="", prompt_template="")
    env = make_text_game(name, dict(game), asdict(told))
    talks = [talk for number in range(num_games) for talk in random_game(env, number)]
    tokenizer = train_tokenizer((as_text(talk) for talk in talks[:600]), _VOCAB_SIZE)
    chat = ChatFormat(tokenizer)
    samples = [sample for talk in talks if len((sample := encode(talk, chat)).token_ids) <= GAME_MODEL_LENGTH]
    threads = torch.get_num_threads()
    # The same weights whatever the machine's number of cores.
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        # About 0.15M parameters.
        shape = {"num_heads": 2, "num_layers": 3, "intermediate_size": 192, "max_length": GAME_MODEL_LENGTH}
        model = build_model(tokenizer, 0, **shape)
        made = train(model, samples, Phase(name, (), _LEARNING_RATE, _BATCH_SIZE), seed=0)
    torch.set_num_threads(threads)
    quieten()
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    record = {"game": name, "settings": dict(game), "games": num_games, **made}
    temporary = out / "made.json.part"
    temporary.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, out / "made.json")


def game_seeds(number: int) -> tuple[int, int]:
    """Returns the instance seed and the outcome seed of one random game."""
    return block_of(Stream.GAME_DEMONSTRATION_INSTANCES) + number, seed_of(Stream.GAME_DEMONSTRATION_OUTCOME, number)


def random_game(env: TextGameEnv, number: int) -> Iterator[list[Message]]:
    """Plays one game of random legal moves, and yields the conversation of each seat that replied."""
    instance, outcome_seed = game_seeds(number)
    rng = generator(Stream.GAME_DEMONSTRATION_MOVES, number)
    prompts, _ = env.reset(seed=instance, options={"outcome_seed": outcome_seed})
    talks: dict[str, list[Message]] = {seat: [Message("system", env.system_prompt)] for seat in env.possible_agents}
    while env.agents:
        replies = {}
        for seat in env.to_act:
            legal = env.game.legal_actions(seat)
            action = legal[int(rng.integers(len(legal)))]
            thought = ", ".join(
                part for part in (env.game.describe_for(seat), env.game.describe_move(seat, action)) if part
            )
            replies[seat] = format_reply([action], thought if env.limits.think else None)
            talks[seat] += [Message("user", prompts[seat]), Message("assistant", replies[seat])]
        prompts = env.step(replies).observations
    yield from (talk for talk in talks.values() if len(talk) > 1)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--env", required=True, help="the game")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--games", type=int, help="random games to learn from (default: as many as the game needs)")
    options = parser.parse_args()
    make(options.out, options.env, {}, GameLimits(), options.games)


if __name__ == "__main__":
    main()
