"""A model as a plain transformers folder, for any program: `python -m rllib_ragen.models.prepare smollm2 --out DIR`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rllib_ragen.config.command_line import Parser, path_option, run_command
from rllib_ragen.config.errors import ConfigError
from rllib_ragen.config.paths import SMOLLM2, enter_model
from rllib_ragen.faults.ending import leave
from rllib_ragen.models.gguf.kept import write_converted
from rllib_ragen.models.gguf.source import gguf_file, is_gguf


def main(arguments: Sequence[str] | None = None) -> int:
    """Converts; its exit code: 0 done, 2 bad input."""
    parser = Parser(prog="python -m rllib_ragen.models.prepare", description=(__doc__ or "").split(":")[0] + ".")
    parser.add_argument("model", metavar="MODEL", help=f"{SMOLLM2}, or a GGUF file of a Llama or Qwen model")
    parser.add_argument("--out", type=path_option, required=True, metavar="DIR", help="folder to write, new or empty")
    options = parser.parse_args(arguments)
    return run_command(lambda: prepare(options.model, options.out))


def prepare(model: str, out: Path) -> None:
    """Writes the folder `out`, whole or not at all, and says so.

    Raises:
        ConfigError: one sentence.
    """
    given = enter_model(model)
    if not is_gguf(given):
        raise ConfigError(f"{model!r} is nothing to be converted; allowed: {SMOLLM2}, or a path that ends in .gguf")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out: {out} is there already; allowed: a folder that is new or empty")
    try:
        write_converted(gguf_file(given), out)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    except OSError as error:
        raise ConfigError(f"--out: {out} cannot be written: {error.strerror or error}") from None
    print(f"a transformers folder: {out}")


if __name__ == "__main__":
    leave(main)
