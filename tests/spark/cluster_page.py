"""docs/spark-cluster.md on one machine: a master, a worker and a query, as the page starts them.

It starts three processes of Java, a minute's work, so `make test` leaves it out:

    python -m pytest tests/spark/cluster_page.py
"""

from __future__ import annotations

from pathlib import Path

from tests.facts.repository import ROOT
from tests.server.broker import start_broker
from tests.servers.ports import ReservedPort
from tests.transcripts.guide import reader

PAGE = (ROOT / "docs" / "spark-cluster.md").read_text(encoding="utf-8")
# The packages are installed for the tests.
DONE = ("python3 -m venv", "/opt/quinque/bin/pip install", "export PATH=")


def test_the_cluster_of_the_page_runs_its_query(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    master = ReservedPort()
    # Of the operating system's choice; and all machines are this one.
    web = " --webui-port 0"
    with start_broker(tmp_path, "--fsync", "no") as broker:
        port = master.number
        master.close()
        here = {
            "broker:4777": f"127.0.0.1:{broker.port}",
            "/shared/": f"{tmp_path}/",
            "--host spark-master --port 7077": f"--host 127.0.0.1 --port {port}{web}",
            "Worker spark://spark-master:7077": f"Worker spark://127.0.0.1:{port}{web}",
            "spark://spark-master:7077": f"spark://127.0.0.1:{port}",
        }
        with reader(tmp_path / "here", broker.port, here, DONE) as guide:
            guide.follow(PAGE)

        assert guide.seen == 4
        with broker.connect() as client:
            assert client.call("QLEN", "orders") == 0
