"""The Kubernetes example: it has what KubeRay asks for, its command is one of ours, and a run fits on a worker."""

from __future__ import annotations

import shlex
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from rllib_ragen.config.load import read_yaml
from rllib_ragen.sweep.__main__ import parse
from rllib_ragen.sweep.spec import SweepSpec, read_sweep
from rllib_ragen.sweep.trial import resources_of

FILE = Path(__file__).parents[2] / "examples" / "kuberay_sweep.yaml"


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """By kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def sweep(documents: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> SweepSpec:
    file = tmp_path_factory.mktemp("sweep") / "sweep.yaml"
    file.write_text(documents["ConfigMap"]["data"][file.name])
    return read_sweep(read_yaml(file))


def pods(documents: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod specs of head and workers."""
    cluster = documents["RayJob"]["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def test_a_ray_job_has_what_kuberay_asks_for(documents: dict[str, Any]) -> None:
    job = documents["RayJob"]
    assert job["apiVersion"] == "ray.io/v1"
    assert job["metadata"]["name"]
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["authOptions"] == {"mode": "token"}
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        # KubeRay takes strings only.
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    for pod in pods(documents):
        (container,) = pod["containers"]
        assert container["name"]
        assert container["image"]
        # Ray reads a pod's CPUs and GPUs from its limits.
        assert {"cpu", "memory"} <= set(container["resources"]["limits"])
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert len({pod["containers"][0]["image"] for pod in pods(documents)}) == 1, "head and workers run the same code"


def test_autoscaling_has_limits_and_leaves_room_for_one_run(documents: dict[str, Any], sweep: SweepSpec) -> None:
    (group,) = documents["RayJob"]["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    assert 1 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    bundles = resources_of(sweep.config(sweep.combinations()[0], sweep.seeds[0])).bundles
    assert sum(bundle["CPU"] for bundle in bundles) <= float(limits["cpu"])
    assert 0 < sum(bundle.get("GPU", 0) for bundle in bundles) <= float(limits["nvidia.com/gpu"])


def test_the_entrypoint_is_a_command_of_ours_on_the_shared_volume(documents: dict[str, Any]) -> None:
    words = shlex.split(documents["RayJob"]["spec"]["entrypoint"])
    assert words[:3] == ["python", "-m", "rllib_ragen.sweep"]
    options = parse(words[3:])
    head, *workers = [{mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]} for pod in pods(documents)]
    assert PurePosixPath(options.file).parts[:2] == ("/", "sweep")
    assert "/sweep" in head
    assert str(options.results_dir) == "/shared/results"
    assert all("/shared" in mounts for mounts in (head, *workers))
    (config_map,) = [volume["configMap"] for volume in pods(documents)[0]["volumes"] if "configMap" in volume]
    assert config_map["name"] == documents["ConfigMap"]["metadata"]["name"]
    assert options.file.name in documents["ConfigMap"]["data"]
