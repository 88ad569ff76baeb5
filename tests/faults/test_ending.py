"""A command whose work is done ends, whatever is left over in its process."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import threading
import tomllib

import pytest

from rllib_ragen.config.commands import COMMANDS, script
from rllib_ragen.faults.ending import within
from tests.faults.build import TOP
from tests.patience import PATIENCE_S

_LEFT_OVER = {
    "nothing": "",
    "a thread": "threading.Thread(target=time.sleep, args=(10**6,), name='left over').start()",
    "a handler of atexit": "atexit.register(time.sleep, 10**6)",
    "both": "threading.Thread(target=time.sleep, args=(10**6,)).start(); atexit.register(time.sleep, 10**6)",
}
_PROGRAM = """
import atexit, sys, threading, time
from rllib_ragen.faults.ending import leave
def main():
    {left}
    print("the result")
    {end}
leave(main, grace_s=1)
"""


def ended(program: str) -> tuple[int, str]:
    """Its exit code and output; the limit is for a test that fails."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, output


@pytest.mark.parametrize("left", _LEFT_OVER)
@pytest.mark.parametrize(
    ("end", "code"),
    [("return 0", 0), ("return None", 0), ("return 7", 7), ("sys.exit(2)", 2), ("raise KeyError('unforeseen')", 1)],
)
def test_a_command_ends_with_its_code_whatever_it_leaves_over(left: str, end: str, code: int) -> None:
    found, output = ended(_PROGRAM.format(left=_LEFT_OVER[left], end=end))
    assert found == code and "the result" in output
    assert ("KeyError: 'unforeseen'" in output) == (code == 1)
    assert ("it is ended" in output) == (left != "nothing")
    assert ("left over" in output) == (left == "a thread")


def test_a_process_past_running_python_is_ended_by_the_system() -> None:
    left = "sys.hang = type('Hang', (), {'__del__': lambda self, sleep=time.sleep: sleep(10**6)})()"
    found, output = ended(_PROGRAM.format(left=left, end="return 0"))
    assert found == -signal.SIGALRM and "the result" in output


def test_every_command_leaves_by_this_door() -> None:
    for name, (where, _) in COMMANDS.items():
        path = TOP / f"{where.partition(':')[0].replace('.', '/')}.py"
        end = path.read_text(encoding="utf-8").split('if __name__ == "__main__":\n')[1]
        assert end == "    leave(main)\n", name
    scripts = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert scripts == {"rllib-ragen": "rllib_ragen.config.commands:script"}
    assert inspect.getsource(script).endswith("    leave(main)\n")


def test_what_takes_too_long_is_left() -> None:
    assert within(60, lambda: None)
    release = threading.Event()
    assert not within(0.1, release.wait)
    release.set()
    with pytest.raises(KeyError, match="why"):
        within(60, lambda: dict[str, None]()["why"])


_HANGING_END = """
import threading, time
from rllib_ragen.starpo import rllib_base
from rllib_ragen.starpo.algorithm import StarPO
rllib_base._CLEANUP_S = 1
StarPO._end_actors = lambda self: time.sleep(10**6)
threading.Thread(target=time.sleep, args=(10**6,)).start()
from rllib_ragen.evaluate.__main__ import main
from rllib_ragen.faults.ending import leave
import tempfile
words = "tiny --env bandit --engine hf --num-instances 8 --set learner.torch_threads=1 --out".split()
leave(lambda: main([*words, tempfile.mkdtemp()]), grace_s=1)
"""


def test_an_evaluation_whose_actors_do_not_end_ends() -> None:
    code, output = ended(_HANGING_END)
    assert code == 0, output
    assert "on this scale: " in output and "it is ended" in output
