"""The HTTP port: metrics and probes of a broker.

    app.py          the paths and their responses
    exposition.py   metrics as Prometheus reads them
    port.py         the server, in the broker's own event loop

This package imports neither brokers nor stores: cli/http_port.py passes the content. It needs the
packages of the extra `http`, which no other package imports.
"""

from __future__ import annotations
