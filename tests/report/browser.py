"""A real Chromium for the tests of pages: where it is, and what a page did in it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_FETCHED = ("chrome", "headless_shell", "chrome-headless-shell")
VARIABLE = "RLLIB_RAGEN_BROWSER"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
HOW = f"`make browser`, or name a Chromium in {VARIABLE}"


def find_browser() -> str | None:
    """The one that the environment names, else one on PATH, else the one that `playwright install` has fetched."""
    if named := os.environ.get(VARIABLE):
        return named
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found or importlib.util.find_spec("playwright") is None:
        return found
    fetched = sorted((Path.home() / ".cache" / "ms-playwright").glob("chromium*/*/*"), reverse=True)
    return next(
        (str(path) for path in fetched if path.name in ("chrome", "headless_shell", "chrome-headless-shell")), None
    )


def missing() -> str:
    """What the tests lack; empty: nothing."""
    if importlib.util.find_spec("playwright") is None:
        return "the package playwright"
    return "" if find_browser() else "a Chromium"


@dataclass
class Opened:
    """A page, and what happened in it."""

    page: Any
    requests: list[str] = field(default_factory=list)
    """Every URL that was asked for, the page's own among them."""
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, uncaught exceptions, and dialogs that somebody's script opened."""

    def style(self, selector: str, name: str) -> str:
        """A computed style."""
        script = "([s, n]) => getComputedStyle(document.querySelector(s)).getPropertyValue(n)"
        return str(self.page.evaluate(script, [selector, name]))

    def texts(self, selector: str) -> list[str]:
        """What each element shows."""
        return [str(text) for text in self.page.locator(selector).all_inner_texts()]

    def choose(self, select: str, value: str) -> None:
        """An option of a <select>."""
        self.page.locator(select).select_option(value)


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Tests may run as root in a container, where Chromium's own sandbox cannot.
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        chromium = playwright.chromium.launch(executable_path=find_browser(), args=options)
        yield chromium
        chromium.close()


@contextmanager
def opened(chromium: Any, file: Path, *, dark: bool = False, size: tuple[int, int] = (1280, 900)) -> Iterator[Opened]:
    """`file` in a window without a network."""
    scheme = "dark" if dark else "light"
    context = chromium.new_context(
        offline=True, color_scheme=scheme, viewport={"width": size[0], "height": size[1]}, device_scale_factor=1
    )
    seen = Opened(context.new_page())
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on("pageerror", lambda error: seen.complaints.append(f"exception: {error}"))

    def on_console(message: Any) -> None:
        if message.type in ("error", "warning"):
            seen.complaints.append(f"{message.type}: {message.text}")

    def on_dialog(dialog: Any) -> None:
        seen.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    seen.page.on("console", on_console)
    seen.page.on("dialog", on_dialog)
    seen.page.goto(file.resolve().as_uri())
    yield seen
    context.close()
