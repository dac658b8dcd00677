"""Drivers: tube types that users write in Python.

    driver.py     Driver, a whole one to begin with; what every driver has
    space.py      Space, the rows of a driver
    index.py      the order in which rows are found
    registry.py   Drivers, by name: of a program, of a setting, of installed packages

docs/drivers.md is the guide, with an example.
"""

from __future__ import annotations

from quinque.drivers.driver import EVENTS, Driver, Maker, OnTaskChange, Options
from quinque.drivers.registry import Drivers
from quinque.drivers.space import BURIED, DELAYED, DONE, ID, READY, STATE, TAKEN, Row, Space

__all__ = [
    "BURIED",
    "DELAYED",
    "DONE",
    "EVENTS",
    "ID",
    "READY",
    "STATE",
    "TAKEN",
    "Driver",
    "Drivers",
    "Maker",
    "OnTaskChange",
    "Options",
    "Row",
    "Space",
]
