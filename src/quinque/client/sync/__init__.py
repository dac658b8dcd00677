"""The client for programs with threads, made from client/aio/ by tools/make_sync, but for edge.py.

Change the file of the same name there.
"""

from __future__ import annotations
