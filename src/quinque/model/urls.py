"""Split URLs that may name several hosts.

Called by   client/addresses.py, stores/redis/ and spark/options.py, for brokers and Redis; cli/.
Calls       nothing.

Not here: what the parts mean (client/addresses.py, stores/redis/urls.py).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

_HOSTS: Final = re.compile(r"(?<=://)[^/?#]*")


def split_url(url: str) -> SplitResult:
    """Split the URL as urlsplit does, also if `netloc` lists several hosts. Raises ValueError.

    The hosts are not checked: releases of Python with security fixes refuse an IPv6 address after
    another host.
    """
    found = _HOSTS.search(url)
    if found is None:
        return urlsplit(url)
    parts = urlsplit(f"{url[: found.start()]}hosts{url[found.end() :]}")
    return parts._replace(netloc=found[0])
