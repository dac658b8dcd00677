"""Facts about the extras: the errors for missing packages name the packages of pyproject.toml."""

from __future__ import annotations

import shlex
import sys
import tomllib

from quinque.errors.extras import EXTRAS, missing_text, package_missing
from tests.facts.repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_an_error_names_the_packages_of_its_extra() -> None:
    said = {name: list(packages) for name, packages in EXTRAS.items()}

    assert said == {name: PROJECT["optional-dependencies"][name] for name in EXTRAS}


def test_the_page_lists_the_extras() -> None:
    assert [name for name in EXTRAS if f"\n| `{name}` |" not in INSTALL] == []


def test_the_command_of_an_error_is_for_the_python_that_runs_the_program() -> None:
    command = missing_text("starlette", "http").partition("program: ")[2]

    assert shlex.split(command) == [sys.executable, "-m", "pip", "install", *EXTRAS["http"]]
    assert str(package_missing("redis", "redis", "store is a URL with TLS")).startswith(
        "store is a URL with TLS but the package redis is missing; install the extra 'redis'"
    )
