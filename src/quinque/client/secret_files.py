"""Secrets in files, as Docker and Kubernetes mount them.

    QUINQUE_PASSWORD_FILE=/run/secrets/password    instead of QUINQUE_PASSWORD

Not here: which variables there are (cli/broker_options.py, server/config_sources.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quinque.errors import BadSetting

FILE_SUFFIX: Final = "_FILE"


def secret_of(environ: Mapping[str, str], variable: str) -> str | None:
    """Return the value of the variable, or the text of the file that `variable`_FILE names.

    Raises BadSetting if both are set, or if the file cannot be read.
    """
    path = environ.get(variable + FILE_SUFFIX)
    if not path:
        return environ.get(variable)
    if environ.get(variable):
        raise BadSetting(f"{variable} is set too; set only one of them")
    return text_of(path)


def text_of(path: str) -> str:
    """Return the text of the file without its last line end. Raises BadSetting."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read().removesuffix("\n").removesuffix("\r")
    except OSError as exc:
        raise BadSetting(f"cannot read {path!r}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise BadSetting(f"{path!r} is not UTF-8 text") from exc
