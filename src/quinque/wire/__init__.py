"""Bytes: requests from them, replies to them. No sockets in here."""

from __future__ import annotations
