"""The command `quinque`; serve.py is the one place where a store and a server meet."""

from __future__ import annotations
