"""What SECURITY.md promises: nothing of a model, a file or a task runs as code, leaves the machine, steers a screen."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragen_envs import env_names, make_text_env
from ragen_envs.reply import parse_reply
from rllib_ragen.config.printable import safe
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.report.__main__ import main as report
from rllib_ragen.report.data import read_run
from rllib_ragen.rollout.trajectory_json import from_json, to_json
from rllib_ragen.run.console import ConsoleState, Display, LiveDisplay
from rllib_ragen.run.folder import RunFolder
from rllib_ragen.run.log import RunLog
from rllib_ragen.types import StopReason, Trajectory
from tests.report.build import make_run, played
from tests.report.test_report import Page
from tests.starpo.build import write_model

TOP = Path(__file__).parents[2]
SOURCES = sorted(
    path for folder in ("envs", "rllib_ragen", "benchmarks", "examples", "requirements", "tune_configs")
    for path in (TOP / folder).rglob("*.py")
)  # fmt: skip
LOADS = re.compile(
    r"(^|\.)(from_pretrained|from_config|(Async)?EngineArgs|(Async)?LLM|get_tokenizer|pipeline|load_dataset)$"
)
"""Calls that may run code of what they load: without `trust_remote_code` transformers asks on the terminal."""
UNPICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
RUNS_TEXT = {"eval", "exec", "compile", "__import__"}
ANYWHERE = re.compile(r"0\.0\.0\.0|(?<![\w:.])::(?![\w:])|host=['\"]{2}")
MUTATES = {
    "benchmarks/mutations/graft.py": ["exec()"],
    "benchmarks/mutations/named.py": ["compile()"],
    "benchmarks/mutations/operators.py": ["compile()"],
}
"""Files that run changed source of this repository, to see whether its tests notice; nothing else is their input."""
HOSTILE = {
    "ansi": "\x1b[2J\x1b]0;owned\x07\x9b31m\x1b[8m",
    "html": "</script><script>alert(1)</script><img src=x onerror=alert(2)>",
    "surrogate": "a\ud800b\udfffc",
    "nul": "a\0b\0",
    "huge": "x" * 1_000_000,
    "bidi": "\u202eevil\u2066\u200b\ufeff\u2028\u2029\x85",
    "json": '"}\n{"iteration": 0, "split": "val"}\n',
    "markup": "[red]rich[/] [link=file:///etc/passwd]x[/link] {{ 7*7 }} %s {0} ${HOME}",
    "code": "__import__('os').system('touch owned')",
}


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def dangers(source: str, measures: bool = False) -> list[str]:
    """What of a source file could run foreign code, be reached from elsewhere or tell the environment's secrets.

    measures: a benchmark, which loads models that it has made itself.
    """
    tree, found = ast.parse(source), []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found += [f"imports {name}" for name in names if name.split(".")[0] in UNPICKLES]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ANYWHERE.search(node.value):
            found.append(f"listens anywhere: {node.value[:40]!r}")
    for name, call in calls(tree):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        constant = {key: value.value for key, value in given.items() if isinstance(value, ast.Constant)}
        if name in RUNS_TEXT:
            found.append(f"{name}()")
        if ("trust_remote_code" in given or LOADS.search(name)) and constant.get("trust_remote_code") is not False:
            found.append("trust_remote_code, where False is not said")
        if name.endswith("torch.load") and constant.get("weights_only") is not True:
            found.append("torch.load without weights_only=True")
        loads = name.endswith("from_pretrained") and not measures
        if loads and re.search("(?<!Peft)Model|LM", name) and constant.get("use_safetensors") is not True:
            found.append("a model that may come from a pickle")
        if loads and constant.get("local_files_only") is not True:
            found.append("a model that may be downloaded")
        if "allow_pickle" in given or constant.get("shell") is True or name == "os.system":
            found.append(f"{name} unpickles or starts a shell")
        if name in ("yaml.load", "yaml.unsafe_load", "yaml.full_load") and "Loader" not in given:
            found.append("yaml.load without a safe loader")
        if constant.get("include_dashboard") is True:
            found.append("Ray's dashboard")
        if any(ast.unparse(argument) == "os.environ" for argument in call.args):
            found.append(f"{name} gets the whole environment")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(TOP)))
def test_no_source_does_what_is_dangerous(path: Path) -> None:
    assert dangers(path.read_text(encoding="utf-8"), measures=path.is_relative_to(TOP / "benchmarks")) == MUTATES.get(
        path.relative_to(TOP).as_posix(), []
    )


@pytest.mark.parametrize(
    "source",
    [
        "AutoModelForCausalLM.from_pretrained(f, trust_remote_code=True, use_safetensors=True, local_files_only=True)",
        "AutoTokenizer.from_pretrained(f, trust_remote_code=flag, local_files_only=True)",
        "AutoModelForCausalLM.from_pretrained(f, local_files_only=True)",
        "AutoTokenizer.from_pretrained(name)",
        "AutoTokenizer.from_pretrained(f, local_files_only=True)",
        "AutoConfig.from_pretrained(f, local_files_only=True, **more)",
        "AutoProcessor.from_pretrained(f, local_files_only=True)",
        "AutoModelForCausalLM.from_config(config)",
        "PeftModel.from_pretrained(model, f, local_files_only=True)",
        "LLM(model=f)",
        "vllm.EngineArgs(model=f, trust_remote_code=trust)",
        "get_tokenizer(f)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "import pickle",
        "from cloudpickle import loads",
        "np.load(path, allow_pickle=True)",
        "eval(reply)",
        "exec(compile(reply, '', 'exec'))",
        "subprocess.run(reply, shell=True)",
        "yaml.load(text)",
        "ray.init(include_dashboard=True)",
        "serve(host='0.0.0.0')",
        "serve(host='::')",
        "json.dump(dict(os.environ), file)",
        "print(os.environ)",
    ],
)
def test_the_search_finds_each_danger(source: str) -> None:
    assert dangers(source)


def test_no_folder_is_put_on_the_import_path_but_the_current_one_by_the_console_script() -> None:
    """A results, checkpoint or model folder that was handed over may hold code: it must not become importable."""
    grown = [
        str(path.relative_to(TOP))
        for path in SOURCES
        for name, _ in calls(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith(("sys.path.", "site.addsitedir", "sys.path_hooks.", "sys.meta_path."))
    ]
    assert grown == ["rllib_ragen/config/commands.py"]


def test_users_code_is_imported_by_the_one_resolver() -> None:
    """Import paths of configs go through `open_names`, which says what is wrong; the others name modules of ours."""
    importing = {
        str(path.relative_to(TOP))
        for path in SOURCES
        if path.is_relative_to(TOP / "rllib_ragen") or path.is_relative_to(TOP / "envs")
        for name, _ in calls(ast.parse(path.read_text(encoding="utf-8")))
        if name.endswith(("import_module", "resolve_name"))
    }
    constant = {"__init__.py", "config/commands.py", "starpo/config.py"}
    known = {f"rllib_ragen/{name}" for name in constant} | {"envs/extras.py"}
    assert importing - known == {"envs/open_names.py"}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("name", env_names())
def test_hostile_replies_are_no_actions_and_nothing_raises(name: str, kind: str) -> None:
    env = make_text_env(name)
    env.reset(seed=0)
    wrapped = f"<think>{HOSTILE[kind]}</think><answer>{HOSTILE[kind]}</answer>"
    for text in (HOSTILE[kind], wrapped):
        parse_reply(text)
        message, reward, *_, info = env.step(text)
        assert reward == env.limits.format_penalty and not info["valid"]
        assert HOSTILE[kind] not in message, "what a model says is never told back as the environment's word"
    assert not (Path.cwd() / "owned").exists()


class Terminal(io.StringIO):
    """An output that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(kind: str, live: bool) -> str:
    out: io.StringIO = Terminal() if live else io.StringIO()
    display = LiveDisplay(out, "run") if live else Display(out)
    display.say(f"⟪{HOSTILE[kind]}⟫")
    display.iteration(ConsoleState(1, 2, 1.0, 1.0, {"success": 0.5}))
    display.close()
    return out.getvalue().split("⟪", 1)[1].split("⟫", 1)[0]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if kind != "huge"])
def test_what_is_said_on_the_console_cannot_steer_it(kind: str, live: bool) -> None:
    text = shown(kind, live)
    assert all(c.isprintable() or c == "\n" for c in text)
    if live:
        text = text.replace("\n", "")
        assert text == safe(HOSTILE[kind]).replace("\n", "")


def test_hostile_text_survives_the_logs_and_does_nothing_in_the_report(tmp_path: Path) -> None:
    path = make_run(tmp_path, "run", iterations=1)
    log = RunLog(path, start=1)
    sampled = []
    for kind, said in HOSTILE.items():
        bad = played(kind, ["ok"], 1.0, said)
        bad.turns[0].reply, bad.turns[0].state = said, said
        sampled.append(bad)
        sampled.append(Trajectory(kind, 0, 0, stop_reason=StopReason.ENV_ERROR, error=said))
        log.train(len(sampled), 1.0, {"success": 0.0}, sampled[-2:], [None, None])
        log.alarm({"iteration": len(sampled), "alarm": "repetition", "mode": "warn", "message": said})
    log.close()
    RunLog(path, start=99).close()
    run = read_run(path)
    stored = [from_json(record) for record in run.trajectories if record["group_id"] in HOSTILE]
    assert [to_json(one) for one in stored] == [to_json(one) for one in sampled]
    assert [alarm["message"] for alarm in run.alarms] == list(HOSTILE.values())
    assert report([str(path)]) == 0
    page = Page((path / "report.html").read_text(encoding="utf-8"))
    assert page.count("script") == 2 and page.count("img") == 0
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    texts = [turn["reply"] for one in page.data[0]["trajectories"] for turn in one["turns"]]
    assert set(HOSTILE.values()) <= set(texts)


def test_nothing_that_a_run_writes_down_holds_the_environments_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, f"secret-of-{name}")
    folder = RunFolder.create(RunConfig(results_dir=tmp_path, model={"path": str(write_model(tmp_path / "m"))}), "run")
    from rllib_ragen.starpo.config import StarPOConfig

    dumps = [json.dumps(StarPOConfig().to_run_config().model_dump(mode="json")), repr(StarPOConfig().to_dict())]
    dumps += [path.read_text(encoding="utf-8") for path in folder.path.rglob("*") if path.is_file()]
    assert len(dumps) >= 4
    assert not [text for text in dumps if "secret-of-" in text]


LISTENERS = """
import json, psutil
from rllib_ragen.config.schema import RunConfig
from rllib_ragen.run.start_ray import start_ray
start_ray(RunConfig())
import ray
ray.get(ray.remote(lambda: 1).remote())
me = psutil.Process()
processes = [me, *me.children(recursive=True)]
found = [(process.name(), connection.laddr.ip) for process in processes
         for connection in process.net_connections(kind="inet") if connection.status == psutil.CONN_LISTEN]
print(json.dumps(found))
"""


def test_the_servers_of_a_runs_own_ray_listen_on_the_loopback_address_alone() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", LISTENERS], capture_output=True, text=True, cwd=TOP, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"gcs_server", "raylet"} <= {name for name, _ in found}
    assert {address.removeprefix("::ffff:") for _, address in found} == {"127.0.0.1"}, found
