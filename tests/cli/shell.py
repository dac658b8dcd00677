"""The command line in this process, as a shell would run it.

Called by   the tests beside this file.
Calls       cli/main.py.

Not here: terminals (terminal.py).
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from click.testing import CliRunner, Result

from quinque.cli.main import main
from tests.server.resp import Client


class Shell:
    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"redis://127.0.0.1:{port}"

    def client(self) -> Client:
        """A connection to the broker, to bring something about in its own words."""
        sock = socket.create_connection(("127.0.0.1", self._port))
        return Client(sock)

    def run(self, *words: str, input: bytes = b"") -> Result:
        """What it printed, and its exit code."""
        own = {name: None for name in os.environ if name.startswith("QUINQUE_")}
        env: dict[str, str | None] = {**own, "QUINQUE_URL": self.url}
        result = CliRunner().invoke(main, words, input=input, env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def lines(self, *words: str, input: bytes = b"") -> list[str]:
        """What it printed, if all went well."""
        result = self.run(*words, input=input)
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    def json(self, *words: str, code: int = 0) -> Any:
        """The one document that it printed, and nothing else."""
        result = self.run(*words, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    def code(self, *words: str) -> int:
        return self.run(*words).exit_code
