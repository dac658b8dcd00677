"""The HTTP port: what operators and their tools see of a broker.

    app.py          the paths, and what each answers
    exposition.py   metrics as Prometheus reads them
    port.py         the server, in the broker's own event loop

Knows nothing of brokers and stores: what it tells is handed in by cli/http_port.py. Needs the
packages of the extra `http`, which nothing else imports.
"""

from __future__ import annotations
