"""`python -m quinque` is the command `quinque`.

Called by   Python.
Calls       cli/main.py.

Not here: anything else.
"""

from __future__ import annotations

from quinque.cli.main import main

if __name__ == "__main__":
    main(prog_name="quinque")
