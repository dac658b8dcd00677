"""The version of the package, and of nothing else.

Called by   everything that says which version it is; the build.
Calls       nothing.

Not here: versions of the journal (stores/embedded/records.py).
"""

from __future__ import annotations

__version__ = "0.1.0"
