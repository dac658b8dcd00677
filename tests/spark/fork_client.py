"""What Spark starts as its Python: it has the fork server do it, and ends as that process ends.

Called by   Spark, as a process: python -IS fork_client.py SOCKET -m pyspark.worker
Calls       fork_server.py, through its socket.

If it is killed, the other end of its connection kills the process that it stands for.

Not here: the process itself (fork_server.py).
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main(path: str, words: list[str]) -> int:
    """The process has ended, with this code; what is not a module is for another Python."""
    if "-m" not in words:
        os.execv(sys.executable, [sys.executable, *words])
    told = {"words": words, "variables": dict(os.environ), "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        socket.send_fds(server, [b"."], [0, 1, 2])
        server.sendall(json.dumps(told).encode() + b"\n")
        code = server.recv(1)
    return code[0] if code else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
