"""RAY_ADDRESS of nobody is told at once; Ray itself would wait for minutes, in silence."""

from __future__ import annotations

import socket
import time

import pytest

from rllib_ragen.config.errors import ConfigError
from rllib_ragen.evaluate.__main__ import main as evaluate
from rllib_ragen.run.start_ray import check_ray_address


def unused_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "localhost:{}", "[::1]:{}", "ray://127.0.0.1:{}"])
def test_nobody_at_the_address_is_one_sentence(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", form.format(unused_port()))
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"^RAY_ADDRESS=.*: nobody answers there \(.+\); start Ray there") as caught:
        check_ray_address()
    assert "\n" not in str(caught.value) and time.monotonic() - started < 30


@pytest.mark.parametrize(
    "address", ["nonsense", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:99999999", ":6379", "http://x"]
)
def test_what_is_no_address_is_one_sentence(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match="must be HOST:PORT, ray://HOST:PORT, or auto"):
        check_ray_address()


def test_a_host_of_no_network_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "no-such-host.invalid:6379")
    with pytest.raises(ConfigError, match="nobody answers there"):
        check_ray_address()


@pytest.mark.parametrize("address", ["", "auto", "local"])
def test_values_that_name_no_place_are_rays_own(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    check_ray_address()


def test_a_place_that_answers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{server.getsockname()[1]}")
        check_ray_address()


def test_the_commands_say_it_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{unused_port()}")
    assert evaluate(["tiny", "--env", "bandit"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("rllib_ragen: RAY_ADDRESS=") and told.count("\n") == 1
