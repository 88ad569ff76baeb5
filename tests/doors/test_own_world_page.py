"""docs/own_world.md word for word: its commands in order, its edits, and what it says is printed."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.doors.build import TOP
from tests.patience import PATIENCE_S

PAGE = (TOP / "docs" / "own_world.md").read_text(encoding="utf-8")
PIECES = re.compile(
    r"^```console\n(?P<console>.*?)^```|replace\n\n```py\n(?P<old>.*?)\n```\n\nby\n\n```py\n(?P<new>.*?)\n```"
    r"|^At the end of `(?P<grows>[^`]+)`, add\n\n```py\n(?P<end>.*?)^```|\bIn `(?P<file>[^`]+)`",
    re.DOTALL | re.MULTILINE | re.IGNORECASE,
)
"""What is done, in order: commands with their output, replacements, additions, the file that replacements are in."""


class Reader:
    """Somebody who does what the page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: Path | None = None
        self.commands: list[str] = []

    def type(self, console: str) -> None:
        """Types the lines with a `$`; what follows them must be what is printed."""
        for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            self.commands.append(command)
            if command.startswith("cd "):
                self.folder = self.folder / command.removeprefix("cd ")
                assert self.folder.is_dir() and not printed
                continue
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env={**os.environ, "PATH": path, "PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE_S,
            )
            alike = doctest.OutputChecker().check_output(printed, done.stdout, doctest.ELLIPSIS)
            assert alike, f"$ {command}\n{done.stdout}\nthe page says\n{printed}"

    def replace(self, old: str, new: str) -> None:
        assert self.file is not None, "replaced where?"
        text = self.file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{self.file} has {old!r} {text.count(old)} times"
        self.file.write_text(text.replace(old, new), encoding="utf-8")


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    edits = 0
    for piece in PIECES.finditer(PAGE):
        if piece["console"] is not None:
            reader.type(piece["console"])
        elif piece["old"] is not None:
            reader.replace(piece["old"], piece["new"])
            edits += 1
        elif piece["grows"] is not None:
            grown = reader.folder / piece["grows"]
            grown.write_text(grown.read_text(encoding="utf-8") + piece["end"], encoding="utf-8")
            edits += 1
        elif (file := reader.folder / piece["file"]).is_file():
            reader.file = file
    fences = re.findall(r"^```(\w+)", PAGE, re.MULTILINE)
    assert set(fences) == {"console", "py"}
    assert fences.count("py") == 2 * edits - 1, "a block of the page that nobody followed"
    assert len(reader.commands) == PAGE.count("\n$ ")
    assert len(list((reader.folder / "results").glob("*/model"))) == 1
