"""Where messages are kept. A store carries out operations; base.py says what that promises."""

from __future__ import annotations
