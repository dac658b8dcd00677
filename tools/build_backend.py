"""The build backend: that of setuptools, which installs mypy first if the build is compiled.

Called by   pip and build (pyproject.toml names it).
Calls       setuptools, which runs setup.py.
"""

from __future__ import annotations

import os
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
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


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    wanted = build_meta.get_requires_for_build_wheel(config_settings)
    return [*wanted, MYPY] if os.environ.get("QUINQUE_COMPILED", "0") != "0" else wanted
