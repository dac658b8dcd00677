"""Drivers by their names: registered by a program, by a setting, or by an installed package.

Called by   cli/serve.py (the setting and installed packages), stores/embedded/store.py, programs
            that use an embedded store.
Calls       driver.py, whatever module a driver is in.

Registering a driver that lacks a method is an error, in Tarantool's words.

Not here: drivers at work (stores/embedded/driver_operations.py).
"""

from __future__ import annotations

import inspect
import logging
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from quinque.drivers.driver import Maker
from quinque.errors import BadDriver
from quinque.model.tube_ops import KINDS

ENTRY_POINTS: Final = "quinque.drivers"  # the group that a package names its drivers in
METHODS: Final = (
    "normalize_task",
    "put",
    "take",
    "delete",
    "release",
    "bury",
    "kick",
    "peek",
    "touch",
    "truncate",
    "tasks_by_state",
)

log = logging.getLogger("quinque.drivers")


class Drivers:
    """Drivers by name, which is the type of their tubes."""

    def __init__(self) -> None:
        self._by_name: dict[bytes, Maker] = {}

    def get(self, kind: bytes) -> Maker | None:
        return self._by_name.get(kind)

    def names(self) -> list[bytes]:
        return sorted(self._by_name)

    def register(self, name: str, driver: Any) -> None:
        """Register a tube type. Raises BadDriver if the name is used, or the driver lacks a
        method."""
        kind = name.encode("utf-8", "surrogateescape")
        if kind in KINDS or kind in self._by_name:
            raise BadDriver(f'overriding registered driver "{name}"')
        if not callable(getattr(driver, "create_space", None)) or not callable(
            getattr(driver, "new", None)
        ):
            raise BadDriver('tube control methods must contain functions "create_space" and "new"')
        if inspect.isclass(driver):
            refuse_incomplete(name, driver)
        self._by_name[kind] = driver

    def register_text(self, text: str) -> None:
        """Register a driver as `name=module:Class`. Raises BadDriver, also if it cannot be
        imported."""
        name, _, where = text.partition("=")
        module, _, attribute = where.partition(":")
        if not (name and module and attribute):
            raise BadDriver(f"'{text}' is not name=module:Class")
        self.register(name, _loaded(name, EntryPoint(name, where, ENTRY_POINTS)))

    def register_installed(self) -> None:
        """Register the drivers of installed packages. A driver that cannot be loaded is logged, and
        its tubes stay asleep."""
        for point in entry_points(group=ENTRY_POINTS):
            try:
                driver = _loaded(point.name, point)
                if self.get(point.name.encode()) is not driver:
                    self.register(point.name, driver)
            except BadDriver as exc:
                log.error("%s", exc, exc_info=exc.__cause__)


def refuse_incomplete(name: str, driver: Any) -> None:
    """Raise BadDriver if a method is missing that every driver must have."""
    for method in METHODS:
        if not callable(getattr(driver, method, None)):
            raise BadDriver(
                f'The "{name}" driver does not have an implementation of method "{method}".'
            )


def _loaded(name: str, point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as exc:
        raise BadDriver(
            f'cannot import driver "{name}" ({point.value}): {type(exc).__name__}: {exc}'
        ) from exc
