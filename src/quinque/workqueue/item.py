"""Item: what is worked on. An id that the caller may choose, and data, which are bytes.

Called by   programs that use the library; working.py.
Calls       nothing.

An item is a dictionary {"data": bytes, "id": str}, because the published package has it so.

Not here: what becomes of an item (working.py).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Self, SupportsIndex, cast

_JSON_SEPARATORS = (",", ":")


class Item(dict[str, Any]):
    def __init__(self, data: Any, id: Any = None) -> None:
        """`data` is encoded as UTF-8 if it is text, else with bytes(). Without an id, the item gets
        a random unique id. An id that is not text is converted to text."""
        raw = data.encode() if isinstance(data, str) else _bytes_of(data)
        super().__init__(data=raw, id=uuid.uuid4().hex if id is None else _text_of(id))

    @classmethod
    def from_dict(cls, loaded: Mapping[str, Any]) -> Self:
        """Return the item from a dictionary. Raises KeyError if it has no data."""
        return cls(loaded["data"], loaded.get("id"))

    @classmethod
    def parse(cls, s: str | bytes) -> Self:
        """Return the item from the JSON of such a dictionary."""
        return cls.from_dict(json.loads(s))

    @classmethod
    def from_json_data(cls, data: Any, id: Any = None) -> Self:
        """Return an item whose data is `data` as JSON without spaces."""
        return cls(json.dumps(data, separators=_JSON_SEPARATORS), id)

    def data(self) -> bytes:
        return cast(bytes, self["data"])

    def data_json(self) -> Any:
        """Return the data parsed as JSON."""
        return json.loads(self["data"])

    def id(self) -> str:
        return cast(str, self["id"])


def _bytes_of(data: bytes | bytearray | memoryview | SupportsIndex) -> bytes:
    return bytes(data)


def _text_of(id: Any) -> str:
    # Bytes that are not UTF-8 are sent back as the same bytes.
    return id.decode("utf-8", "surrogateescape") if isinstance(id, bytes) else str(id)
