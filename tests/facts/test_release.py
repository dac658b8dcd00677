"""Facts about releases: what the workflows call exists, and the text of a release can be found."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from quinque.version import __version__
from tests.facts.repository import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_only_what_the_repository_has(path: Path) -> None:
    steps = [
        step
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        for step in job["steps"]
    ]
    commands = [step["run"] for step in steps if "run" in step]

    targets = [word for run in commands for word in re.findall(r"make (?:\S+=.+ )?(\w+)$", run)]
    programs = [word for run in commands for word in re.findall(r"tools/\w+", run)]

    assert targets
    assert [it for it in targets if f"\n{it}:" not in MAKEFILE] == []
    assert [it for it in programs if not (ROOT / it).is_file()] == []


def test_a_tag_of_another_version_is_refused() -> None:
    refused = release("check", "v99.0.0")

    assert refused.returncode == 1
    assert f"the tag v99.0.0 is not v{__version__}" in refused.stderr


def test_the_text_of_a_release_is_its_part_of_the_changelog() -> None:
    shown = release("notes", "Unreleased")

    assert shown.returncode == 0
    assert shown.stdout.startswith("### Added\n")
    assert "\n## " not in shown.stdout


def release(*words: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "tools" / "release"), *words]
    return subprocess.run(program, capture_output=True, text=True)
