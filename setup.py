"""Which folders are installed, and as what; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

setup(
    # Environments are installed as ragen_envs, settings inside rllib_ragen: no common name enters site-packages.
    packages=[*find_packages(include=["rllib_ragen*", "ragen_envs*"]), "rllib_ragen.tune_configs"],
    package_dir={"rllib_ragen.tune_configs": "tune_configs"},
    package_data={
        "ragen_envs": ["*.json", "games/*.json", "webshop/*.jsonl.gz", "search_qa/*.jsonl.gz", "py.typed"],
        "rllib_ragen": [
            "commands/new_env/template/*",
            "commands/new_env/template/*/*",
            "models/tiny/checkpoint/*",
            "models/tiny/games/*/*",
            "models/tiny/words/*",
            "report/page/*",
            "sweep/page.html",
            "py.typed",
        ],
        "rllib_ragen.tune_configs": ["*.yaml", "*/*.yaml", "*/*/*.yaml"],
    },
)
