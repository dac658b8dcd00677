"""The tests beside this file run on every kind of store."""

from __future__ import annotations

from tests.servers.stores import on_every_kind as pytest_generate_tests

__all__ = ["pytest_generate_tests"]
