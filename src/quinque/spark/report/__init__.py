"""The lake as one page with plots, which needs no other files.

Called by   spark/jobs/report.py.
Calls       spark/tables/ and pyspark (series.py), matplotlib (plots.py, overview.py).

    series.py     numbers out of the tables, few enough for a page
    plots.py      a figure for each question
    overview.py   all of them in one picture
    page.py       the page

Not here: the tables (spark/tables/).
"""

from __future__ import annotations
