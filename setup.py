"""Package metadata. The CPU set that `make` installs is pinned in requirements/cpu.txt."""

from setuptools import find_packages, setup

setup(
    name="rllib-ragen",
    version="0.1.0",
    description="RAGEN's agent training (StarPO) as an algorithm of Ray RLlib",
    license="Apache-2.0",
    python_requires=">=3.11,<3.13",
    packages=find_packages(include=["rllib_ragen*", "envs*", "tune_configs*"]),
    package_data={
        "envs": ["*.json", "games/*.json", "py.typed"],
        "rllib_ragen": ["models/tiny/checkpoint/*", "report/page/*", "sweep/page.html", "py.typed"],
        "tune_configs": ["*.yaml", "algorithms/*.yaml", "sweeps/*.yaml", "games/*.yaml"],
    },
    install_requires=[
        "gymnasium==1.2.2",
        "numpy>=2,<3",
        "optuna>=5,<6",
        "pettingzoo>=1.27,<2",
        "pydantic>=2,<3",
        "pyyaml>=6,<7",
        "ray[rllib,tune]==2.60.*",
        "rich>=14,<16",
        "safetensors>=0.5,<1",
        "tensorboard>=2.18,<3",
        "tokenizers>=0.22,<1",
        "torch>=2.13,<2.15",
        "transformers>=5.16.1,<5.21",
    ],
    extras_require={
        "lora": ["peft>=0.21,<0.22"],
        "vllm": ["vllm>=0.32,<0.34"],
        "jobs": ["ray[default]==2.60.*"],
        "games": ["open-spiel>=2,<3", "pettingzoo[classic]>=1.27,<2"],
        "plot": ["matplotlib>=3.9,<4"],
        "report": ["jinja2>=3.1,<4", "matplotlib>=3.9,<4"],
        "dev": [
            "hypothesis>=6,<7",
            "matplotlib>=3.9,<4",
            "mypy>=1.18,<3",
            "peft>=0.21,<0.22",
            "psutil>=6,<8",
            "pytest>=8,<10",
            "pytest-timeout>=2.3,<3",
            "ruff>=0.14,<0.18",
            "types-PyYAML",
        ],
    },
)
