"""The build backend: that of setuptools, which installs mypy first if the build is compiled.

Called by   pip and build (pyproject.toml names it).
Calls       setuptools, which runs setup.py.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

MYPY = "mypy>=2.4,<3"


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    # setuptools packs all that is there, also modules of an earlier build that are gone since.
    for left in Path("build").glob("lib*"):
        shutil.rmtree(left)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    wanted = build_meta.get_requires_for_build_wheel(config_settings)
    return [*wanted, MYPY] if os.environ.get("QUINQUE_COMPILED", "0") != "0" else wanted
