"""The client for programs on an event loop. See client/__init__.py."""

from __future__ import annotations
