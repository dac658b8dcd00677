"""The vocabulary: messages, families, operations, events, limits. No behaviour lives here."""

from __future__ import annotations
