"""Quinque: one broker, five reliable-queue systems, one engine under them."""

from __future__ import annotations

from quinque.errors import QuinqueError

__version__ = "0.1.0"

__all__ = ["QuinqueError", "__version__"]
