"""The image, the compose files, the chart, the recipe and the units name what there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import validate

from quinque.server.address import Address, parse_address
from quinque.server.config import SETTINGS
from quinque.server.config_sources import load
from quinque.server.listener import tls_context
from quinque.server.users import Users
from tests.console.test_examples import LABELED, series
from tests.facts.repository import ROOT

EXAMPLES = ROOT / "examples"
CONTAINERFILE = (ROOT / "Containerfile").read_text()
COMPOSE = sorted((EXAMPLES / "compose").glob("*.yaml"))
CHART = EXAMPLES / "helm" / "quinque"
KEDA = EXAMPLES / "keda" / "worker.yaml"
UNITS = sorted((EXAMPLES / "systemd").glob("*.service"))
# From PyPI, which has it for Linux on x86-64 only.
IN_VENV = Path(sys.executable).with_name("helm")
HELM = str(IN_VENV) if IN_VENV.exists() else shutil.which("helm")
KUBERNETES = "1.30"
VARIABLES = {it.variable for it in SETTINGS.values()} | {
    f"{it.variable}_FILE" for it in SETTINGS.values() if not it.kind.is_path
}
ON_REDIS = ("--set", "store=redis://redis:6379")
SECRETS = ("--set", "storeSecret=store,passwordSecret=password,settings.QUINQUE_LOG_JSON=true")
ACCESS = ("--set", "tlsSecret=certificate,usersSecret=users")
TLS = ROOT / "tests" / "server" / "tls"


def test_every_variable_that_is_named_is_one_of_a_setting() -> None:
    files = [
        ROOT / "Containerfile",
        *COMPOSE,
        *CHART.rglob("*.yaml"),
        *CHART.rglob("*.tpl"),
        *UNITS,
    ]
    for path in files:
        named = set(re.findall(r"QUINQUE_[A-Z_]+", path.read_text())) - {"QUINQUE_COMPILED"}
        assert named <= VARIABLES, path


def test_the_image_runs_a_broker_without_rights() -> None:
    last = CONTAINERFILE.rpartition("\nFROM ")[2]

    assert re.search(r"^USER [1-9]\d+:[1-9]\d+$", last, re.MULTILINE)
    assert 'ENTRYPOINT ["quinque"]\nCMD ["serve"]' in last
    assert "QUINQUE_DIR=/data" in last
    assert "VOLUME /data" in last


def test_the_build_gets_the_files_that_it_reads() -> None:
    given = [
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]

    for name in given:
        assert name == "build/image/wheels" or (ROOT / name).exists(), name


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.stem)
def test_the_compose_files_name_what_they_define(path: Path) -> None:
    file = yaml.safe_load(path.read_text())

    for name, service in file["services"].items():
        for kind in ("secrets", "configs"):
            used = {it if isinstance(it, str) else it["source"] for it in service.get(kind, ())}
            assert used <= file.get(kind, {}).keys(), name
        assert set(service.get("depends_on", ())) <= file["services"].keys(), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (path.parent / source).is_file(), source
            else:
                assert source in file["volumes"], source
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    for config in file.get("configs", {}).values():
        assert yaml.safe_load(config["content"])


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        ((), {"Service", "StatefulSet"}),
        (ON_REDIS, {"Service", "Deployment", "PodDisruptionBudget"}),
        (SECRETS, {"Service", "Deployment", "PodDisruptionBudget"}),
        (ACCESS, {"Service", "StatefulSet"}),
        ((*SECRETS, *ACCESS), {"Service", "Deployment", "PodDisruptionBudget"}),
    ],
    ids=["embedded", "redis", "secrets", "access", "all secrets"],
)
def test_the_chart_renders_what_kubernetes_accepts(
    options: tuple[str, ...], kinds: set[str], tmp_path: Path
) -> None:
    helm(tmp_path, "lint", "--strict", CHART, *options)

    objects = rendered(tmp_path, *options)

    assert {it["kind"] for it in objects} == kinds
    for each in objects:
        validate(each, KUBERNETES, strict=True)
    [pod] = pods(objects)
    [broker] = pod["containers"]
    assert {it["name"] for it in broker["env"]} - {"POD_IP"} <= VARIABLES
    mounted = {it["name"] for it in broker["volumeMounts"]}
    claims = {"data"} if "StatefulSet" in kinds else set()
    assert mounted == {it["name"] for it in pod["volumes"]} | claims
    assert probes(broker) == {"/livez", "/readyz"}
    assert f"USER {pod['securityContext']['runAsUser']}:" in CONTAINERFILE


def test_the_chart_gives_the_broker_its_certificate_and_its_users(tmp_path: Path) -> None:
    objects = rendered(tmp_path, *ACCESS)
    [pod] = pods(objects)
    [broker] = pod["containers"]
    secrets = {
        "certificate": {"tls.crt": TLS / "certificate.pem", "tls.key": TLS / "key.pem"},
        "users": {"users.toml": ROOT / "docs" / "examples" / "users.toml"},
    }
    here = {"/data": str(tmp_path / "data")}
    of_volume = {it["name"]: it["secret"] for it in pod["volumes"] if "secret" in it}
    for mount in broker["volumeMounts"]:
        if mount["name"] in of_volume:
            for key, path in secrets.pop(of_volume[mount["name"]]["secretName"]).items():
                here[f"{mount['mountPath']}/{key}"] = str(path)
    given = {it["name"]: here.get(it["value"], it["value"]) for it in broker["env"]}
    of_image = dict(re.findall(r"(QUINQUE_\w*LISTEN)=(\S+)", CONTAINERFILE))

    config = load({}, of_image | given)

    assert secrets == {}
    assert Users.from_config(config).first() is None  # a client must say which user it is
    tls_context(config)  # the files are a certificate and its key
    # The port is that of the service, and no client can connect without TLS.
    assert of_image["QUINQUE_LISTEN"] == ":4777"
    assert (config.tls_listen, config.listen) == ([":4777"], [])


@pytest.mark.parametrize("ip", ["10.1.2.3", "fd00::12"])
def test_a_pod_on_redis_announces_its_own_address(ip: str, tmp_path: Path) -> None:
    [pod] = pods(rendered(tmp_path, *ON_REDIS))
    [broker] = pod["containers"]
    given = {it["name"]: it.get("value", ip).replace("$(POD_IP)", ip) for it in broker["env"]}

    config = load({}, {name: given[name] for name in given.keys() & VARIABLES})

    assert parse_address(config.announce) == Address(ip, 4777)


def test_the_recipe_scales_a_worker_by_a_metric_that_there_is() -> None:
    worker, scaler = yaml.safe_load_all(KEDA.read_text())
    validate(worker, KUBERNETES, strict=True)
    [container] = worker["spec"]["template"]["spec"]["containers"]
    [trigger] = scaler["spec"]["triggers"]

    assert scaler["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert probes(container) <= {"/livez", "/healthz"}
    [(metric, chosen)] = LABELED.findall(trigger["metadata"]["query"])
    assert set(re.findall(r"(\w+)=", chosen)) <= series()[metric]


def test_systemd_accepts_the_units_and_finds_them_safe(tmp_path: Path) -> None:
    for path in UNITS:
        text = path.read_text().replace("/opt/quinque/bin/quinque", "/bin/true")
        text = text.replace("WorkingDirectory=/opt/emails", "WorkingDirectory=/")
        unit = tmp_path / path.name
        unit.write_text(text)

        assert "LoadCredential=" in text
        assert analyzed("verify", "--man=no", "--recursive-errors=no", unit) == ""
        analyzed("security", "--offline=true", "--threshold=20", "--no-pager", unit)


def rendered(home: Path, *options: str) -> list[Any]:
    """The objects that the chart makes."""
    text = helm(home, "template", "orders", CHART, *options)
    return [it for it in yaml.safe_load_all(text) if it]


def helm(home: Path, *words: object) -> str:
    """What helm prints. The test fails if helm does."""
    assert HELM, "PyPI has no helm for this kind of machine: install it, https://helm.sh"
    bare = {**os.environ, "HOME": str(home)}  # no plugins, no settings of a cluster
    done = subprocess.run([HELM, *map(str, words)], env=bare, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def analyzed(*words: object) -> str:
    """What systemd-analyze complains of. The test fails if it refuses."""
    done = subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def pods(objects: list[Any]) -> Iterator[Any]:
    for each in objects:
        if "template" in each["spec"]:
            yield each["spec"]["template"]["spec"]


def probes(container: Any) -> set[str]:
    kinds = ("startupProbe", "livenessProbe", "readinessProbe")
    return {container[kind]["httpGet"]["path"] for kind in kinds if kind in container}
