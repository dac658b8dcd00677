"""How long the random tests look: the same short runs in every build, or longer ones when asked.

Called by   tests/model, tests/store and tests/wire; tests/conftest.py, for all others.
Calls       hypothesis.

    make test                                          the same examples each time
    QUINQUE_EFFORT=50 pytest tests/model tests/wire    fifty times as many, and new ones each time
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EFFORT = int(os.environ.get("QUINQUE_EFFORT", "0"))


def effort(examples: int, steps: int = 50) -> settings:
    """Settings for a random test that looks at `examples` examples in a build."""
    return settings(
        max_examples=examples * max(1, EFFORT),
        stateful_step_count=steps,
        derandomize=not EFFORT,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
