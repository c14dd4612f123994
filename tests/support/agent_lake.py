"""The rows of the lake for the tests of the server for agents."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

_DAY = dt.date(2024, 1, 1)
ORDERS = pa.table(
    {
        "order_id": range(600),
        "customer_id": [i * 7 % 50 for i in range(600)],
        "status": ["P", "P", "S", "X"] * 150,
        "gross_cents": [100 * (i % 97) for i in range(600)],
        "net": [Decimal(i * 13 % 1009).scaleb(-2) for i in range(600)],
        "weight": [None if i % 11 == 0 else i / 8 for i in range(600)],
        "placed": [_DAY + dt.timedelta(days=i % 90) for i in range(600)],
        "shipped": pa.array(
            [
                dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i * 5)
                for i in range(600)
            ],
            pa.timestamp("us", "UTC"),
        ),
        "note": [None if i % 3 else f"note {i % 5} 'quoted'" for i in range(600)],
        "gift": [i % 4 == 0 for i in range(600)],
    }
)
CUSTOMERS = pa.table(
    {
        "id": range(50),
        "city": ["Ulm", "Bonn", "Kiel", None, "Jena"] * 10,
        "since": [_DAY - dt.timedelta(days=i * 31) for i in range(50)],
        "tags": [["a", "b"][: i % 3] for i in range(50)],
    }
)
WIDE = pa.table({f"measured_value_{i:03}": range(i, i + 20) for i in range(100)})
PAY = pa.table({"id": range(50), "salary": range(1000, 1050)})
