"""Results that cannot be written: one sentence, exit code 5, and the checkpoints from before are whole."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rllib_ragen.faults.exit_codes import ExitCode, exit_code_of
from rllib_ragen.run.__main__ import main
from tests.faults.build import SMALL, AtIteration, newest_is_sound
from tests.faults.conftest import Hurt
from tests.faults.test_driver import assert_told


def test_a_checkpoint_that_does_not_fit_ends_the_run_and_leaves_the_last_one(hurt: Hurt) -> None:
    def allow_small_files(process: psutil.Process) -> None:
        # What the kernel does to a quota: writes beyond it fail. Ray's own processes are left alone.
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))

    ended, folder = hurt(AtIteration(3, allow_small_files), "checkpoint_interval=1")
    assert_told(ended, ExitCode.STORAGE, "the results folder cannot be written to: ", folder)
    assert newest_is_sound(folder) in (2, 3)
    assert [path.name for path in (folder / "checkpoints").glob("partial*")] == [], "it only takes room"


@pytest.mark.slow
def test_a_results_folder_that_vanishes_ends_the_run(hurt: Hurt, tmp_path: Path) -> None:
    def vanish(process: psutil.Process) -> None:
        (tmp_path / "results" / "run").rename(tmp_path / "elsewhere")

    ended, _ = hurt(AtIteration(2, vanish), "checkpoint_interval=1")
    assert ended.code == ExitCode.STORAGE, ended.output
    assert "Stopped: the results folder cannot be written to: " in ended.output


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MiB; needs the right to mount one."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED: file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_ends_the_run_and_leaves_whole_checkpoints(hurt: Hurt, small_disk: Path) -> None:
    # Each checkpoint takes some 7 MiB, and all are kept.
    ended, folder = hurt(None, "checkpoint_interval=1", "keep_checkpoints=0", results=small_disk)
    assert_told(ended, ExitCode.STORAGE, "the results folder cannot be written to: ", folder)
    assert "No space left on device" in ended.output
    assert newest_is_sound(folder) >= 3


@pytest.mark.slow
def test_a_disk_that_becomes_read_only_ends_the_run(hurt: Hurt, small_disk: Path) -> None:
    def forbid(process: psutil.Process) -> None:
        # A file that is open for writing keeps a file system from being remounted; a read-only bind mount over it not.
        for name in ("progress.jsonl", "checkpoints"):
            path = str(small_disk / "run" / name)
            subprocess.run(["mount", "--bind", path, path], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)

    ended, folder = hurt(AtIteration(2, forbid), "checkpoint_interval=1", results=small_disk)
    for name in ("progress.jsonl", "checkpoints"):
        subprocess.run(["umount", "-l", str(folder / name)], check=True)
    assert_told(ended, ExitCode.STORAGE, "Read-only file system", folder)
    assert newest_is_sound(folder) >= 1


def test_a_results_folder_that_cannot_be_made_is_refused_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([*SMALL, "--results-dir", str(tmp_path / "file" / "results")]) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err.startswith("rllib_ragen: results_dir: cannot write to ")


def test_a_missing_file_elsewhere_is_not_blamed_on_the_results_folder(tmp_path: Path) -> None:
    def error_at(path: Path) -> OSError:
        with pytest.raises(OSError) as caught:
            path.read_text()
        return caught.value

    assert exit_code_of(error_at(tmp_path / "run" / "a"), tmp_path / "run") is ExitCode.STORAGE
    assert exit_code_of(error_at(tmp_path / "level.txt"), tmp_path / "run") is ExitCode.ERROR
    assert exit_code_of(OSError(errno.ENOSPC, "No space left on device"), tmp_path) is ExitCode.STORAGE
