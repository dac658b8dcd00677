"""The kinds of setting that are lists of texts; and the one that names drivers.

Called by   config.py, whose table gives every setting a kind; address_kinds.py; config_sources.py.
Calls       setting_kinds.py.

Not here: kinds that are one value (setting_kinds.py), what a driver is (drivers/).
"""

from __future__ import annotations

import re

from quinque.server.setting_kinds import Kind, toml_string

_DRIVER = re.compile(r"[^\s=,]{1,128}=[\w.]+:[\w.]+")


class Several(Kind[list[str]]):
    """Texts of one kind: a list in TOML, parted by commas in text."""

    is_repeatable = True

    def check(self, text: str) -> None:
        """Check the text. Raises BadSetting if it has another type."""
        raise NotImplementedError

    def value(self, text: str) -> list[str]:
        return self.value_of_list(text.split(","))

    def value_of_list(self, texts: list[str]) -> list[str]:
        """The texts; an empty one adds none, so that "" can say "nothing"."""
        kept = [text.strip() for text in texts if text.strip()]
        for text in kept:
            self.check(text)
        return kept

    def value_of_toml(self, given: object) -> list[str]:
        if not isinstance(given, list):
            return super().value_of_toml(given)
        for text in given:
            if not isinstance(text, str):
                raise self.refusal(text)
        return self.value_of_list(given)

    def text(self, value: list[str]) -> str:
        return ",".join(value)

    def toml(self, value: list[str]) -> str:
        return "[" + ", ".join(toml_string(text) for text in value) + "]"


class DriverNames(Several):
    """Drivers, each with the module that it is in."""

    metavar = "NAME=MODULE:CLASS"

    @property
    def shape(self) -> str:
        return "name=module:Class"

    def check(self, text: str) -> None:
        if not _DRIVER.fullmatch(text):
            raise self.refusal(text)
