"""A lake of 22 tables with names that mislead, and the claims that a careful person would make."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pyarrow as pa

import nimblepy as nb

Claims = dict[str, dict[str, Any]]  # by table: the arguments of describe


def rows(seed: int) -> dict[str, tuple[pa.Table, str | None]]:
    """Rows and primary key of every table."""
    random_ = random.Random(seed)
    day = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(90)]

    def pick(options: list[Any], count: int) -> list[Any]:
        return [random_.choice(options) for _ in range(count)]

    def between(low: int, high: int, count: int) -> list[int]:
        return [random_.randint(low, high) for _ in range(count)]

    orders, customers, products, staff = 1200, 150, 60, 40
    gross = between(500, 90_000, orders)
    order_ids = list(range(10_000, 10_000 + orders))
    customer_ids = list(range(500, 500 + customers))
    product_ids = list(range(70_000, 70_000 + products))
    weeks = day[::30]
    tables: dict[str, tuple[Any, str | None]] = {
        "shop.orders": (
            {
                "order_id": order_ids,
                "customer": pick(customer_ids, orders),
                "st": pick(["P", "P", "S", "S", "X"], orders),
                "amount": gross,
                "ch": pick([1, 2, 2, 3], orders),
                "store": pick([None, *range(1, 13)], orders),
            },
            "order_id",
        ),
        "shop.orders_v1": (
            {
                "order_id": order_ids[:700],
                "customer": pick(customer_ids, 700),
                "st": pick(["N", "S"], 700),
                "amount": [value // 100 for value in gross[:700]],
            },
            "order_id",
        ),
        "shop.items": (
            {
                "item_id": list(range(3000)),
                "order_ref": pick(order_ids, 3000),
                "product": pick(product_ids, 3000),
                "qty": between(1, 5, 3000),
                "price": between(100, 20_000, 3000),
            },
            "item_id",
        ),
        "shop.customers": (
            {
                "customer_id": customer_ids,
                "seg": pick(["A", "B", "C"], customers),
                "town": pick(["Ulm", "Bonn", "Kiel", "Jena"], customers),
                "country": pick([1, 2, 3, 4], customers),
            },
            "customer_id",
        ),
        "shop.customers_daily": (
            {
                "day": [one for one in weeks for _ in range(customers)],
                "customer_id": customer_ids * len(weeks),
                "balance": between(0, 50_000, customers * len(weeks)),
            },
            None,
        ),
        "shop.products": (
            {
                "product_id": product_ids,
                "grp": pick([1, 2, 3, 4, 5], products),
                "wt": between(50, 9_000, products),
                "state": pick(["L", "L", "D"], products),
            },
            "product_id",
        ),
        "shop.groups": ({"group_id": [1, 2, 3, 4, 5], "title": list("vwxyz")}, "group_id"),
        "shop.returns": (
            {
                "return_id": list(range(200)),
                "order_ref": pick(order_ids, 200),
                "why": pick(["D", "W", "L"], 200),
                "amount": between(500, 20_000, 200),
            },
            "return_id",
        ),
        "ref.countries": (
            {"country_id": [1, 2, 3, 4], "iso": ["DE", "FR", "PL", "IT"]},
            "country_id",
        ),
        "ref.stores": (
            {
                "store_id": list(range(1, 13)),
                "country": [1, 2, 3, 4] * 3,
                "size": between(80, 900, 12),
            },
            "store_id",
        ),
        "log.shipments": (
            {
                "shipment_id": list(range(900)),
                "order_ref": pick(order_ids, 900),
                "carrier": pick([7, 8, 9], 900),
                "dur": between(5, 200, 900),
                "st": pick([10, 20, 30], 900),
            },
            "shipment_id",
        ),
        "log.shipments_old": (
            {
                "shipment_id": list(range(400)),
                "order_ref": pick(order_ids, 400),
                "st": pick([1, 2], 400),
            },
            "shipment_id",
        ),
        "log.carriers": (
            {"carrier_id": [7, 8, 9], "title": ["north", "south", "east"]},
            "carrier_id",
        ),
        "log.warehouses": ({"warehouse_id": [1, 2, 3], "country": [1, 2, 3]}, "warehouse_id"),
        "log.stock": (
            {
                "day": [one for one in weeks for _ in range(3 * products)],
                "warehouse": [1, 2, 3] * products * len(weeks),
                "product": [p for _ in weeks for p in product_ids for _ in range(3)],
                "pieces": between(0, 300, 3 * products * len(weeks)),
            },
            None,
        ),
        "web.visits": (
            {
                "visit_id": list(range(2500)),
                "customer": pick([None, *customer_ids], 2500),
                "dev": pick(["m", "d", "t"], 2500),
                "dur": between(1_000, 900_000, 2500),
            },
            "visit_id",
        ),
        "web.sessions": (
            {
                "session_id": list(range(800)),
                "dev": pick(["m", "d"], 800),
                "dur": between(1, 900, 800),
            },
            "session_id",
        ),
        "web.campaigns": (
            {
                "campaign_id": list(range(30)),
                "budget": between(1_000, 90_000, 30),
                "k": pick([1, 2], 30),
            },
            "campaign_id",
        ),
        "fin.payments": (
            {
                "payment_id": list(range(1100)),
                "order_ref": pick(order_ids, 1100),
                "amount": between(500, 90_000, 1100),
                "m": pick(["C", "T", "V"], 1100),
            },
            "payment_id",
        ),
        "fin.invoices": (
            {
                "invoice_id": list(range(1000)),
                "order_ref": pick(order_ids, 1000),
                "amount": between(500, 90_000, 1000),
                "st": pick(["O", "P", "V"], 1000),
            },
            "invoice_id",
        ),
        "fin.refunds": (
            {
                "refund_id": list(range(90)),
                "payment": between(0, 1099, 90),
                "amount": between(5, 900, 90),
            },
            "refund_id",
        ),
        "hr.staff": (
            {
                "staff_id": list(range(staff)),
                "store": pick(list(range(1, 13)), staff),
                "r": pick(["S", "M"], staff),
            },
            "staff_id",
        ),
    }
    return {name: (pa.table(columns), key) for name, (columns, key) in tables.items()}


def true_claims() -> Claims:
    """What a careful person would say of these tables. All of it is true."""
    cents = nb.Unit("cent", range=(0, 90_000))
    return {
        "shop.orders": {
            "description": "Orders as placed, one row per order.",
            "synonyms": ["sales", "purchases"],
            "unique": ["order_id"],
            "columns": {
                "customer": nb.References("shop.customers"),
                "st": nb.Values({"P": "placed", "S": "shipped", "X": "cancelled"}),
                "amount": [cents, "gross amount, what the customer pays"],
                "ch": nb.Values({1: "store", 2: "web", 3: "phone"}),
                "store": [nb.References("ref.stores"), nb.NotNull(False)],
            },
        },
        "shop.orders_v1": {
            "description": "Orders of the former shop system.",
            "deprecated_by": "shop.orders",
        },
        "shop.items": {
            "description": "Items, the lines of orders.",
            "columns": {
                "order_ref": nb.References("shop.orders"),
                "product": nb.References("shop.products"),
                "qty": ["quantity, pieces ordered", nb.NotNull(), nb.Range(1, 5)],
                "price": [nb.Unit("cent", range=(0, 20_000)), "price of one piece"],
            },
        },
        "shop.customers": {
            "description": "Customers, people who buy.",
            "rows": 150,
            "columns": {
                "seg": nb.Values({"A": "private", "B": "business", "C": "public"}),
                "town": nb.Samples(["Ulm", "Kiel"]),
                "country": nb.References("ref.countries"),
            },
        },
        "shop.customers_daily": {
            "description": "Balances of all customers, each month.",
            "columns": {
                "day": nb.SnapshotOf(),
                "customer_id": nb.References("shop.customers"),
                "balance": nb.Unit("cent", range=(0, 50_000)),
            },
        },
        "shop.products": {
            "description": "Products, articles on sale.",
            "columns": {
                "grp": nb.References("shop.groups"),
                "wt": [nb.Unit("gram", range=(0, 9_000)), "weight"],
                "state": nb.Values({"L": "listed", "D": "discontinued"}),
            },
        },
        "shop.groups": {
            "description": "Product groups.",
            "columns": {"title": "name of the group"},
        },
        "shop.returns": {
            "description": "Returns, parcels that customers sent back.",
            "columns": {
                "order_ref": nb.References("shop.orders"),
                "why": nb.Values({"D": "damaged", "W": "wrong article", "L": "late"}),
                "amount": [nb.Unit("cent", range=(0, 20_000)), "value returned"],
            },
        },
        "ref.countries": {
            "description": "Countries.",
            "columns": {"iso": nb.Samples(["DE", "FR"])},
        },
        "ref.stores": {
            "description": "Stores, the branches.",
            "columns": {
                "country": nb.References("ref.countries"),
                "size": nb.Unit("m2", range=(0, 900)),
            },
        },
        "log.shipments": {
            "description": "Shipments, parcels to customers.",
            "synonyms": ["deliveries"],
            "columns": {
                "order_ref": nb.References("shop.orders"),
                "carrier": nb.References("log.carriers"),
                "dur": [nb.Unit("hour", range=(0, 200)), "duration of the transport"],
                "st": nb.Values({10: "packed", 20: "under way", 30: "delivered"}),
            },
        },
        "log.shipments_old": {
            "description": "Shipments before 2026.",
            "deprecated_by": "log.shipments",
        },
        "log.carriers": {"description": "Carriers of parcels.", "rows": 3},
        "log.warehouses": {
            "description": "Warehouses.",
            "columns": {"country": nb.References("ref.countries")},
        },
        "log.stock": {
            "description": "Stock of the warehouses, each month.",
            "columns": {
                "day": nb.SnapshotOf(),
                "warehouse": nb.References("log.warehouses"),
                "product": nb.References("shop.products"),
                "pieces": "pieces in stock",
            },
        },
        "web.visits": {
            "description": "Visits of the web shop.",
            "columns": {
                "customer": [nb.References("shop.customers"), nb.NotNull(False)],
                "dev": nb.Values({"m": "mobile", "d": "desktop", "t": "tablet"}),
                "dur": [nb.Unit("millisecond", range=(0, 900_000)), "duration of the visit"],
            },
        },
        "web.sessions": {
            "description": "Visits of the former web shop.",
            "deprecated_by": "web.visits",
        },
        "web.campaigns": {
            "description": "Campaigns, advertisements.",
            "columns": {
                "budget": nb.Unit("euro", range=(0, 90_000)),
                "k": nb.Values({1: "print", 2: "online"}),
            },
        },
        "fin.payments": {
            "description": "Payments of orders.",
            "columns": {
                "order_ref": nb.References("shop.orders"),
                "amount": [cents, "amount paid"],
                "m": nb.Values({"C": "card", "T": "transfer", "V": "voucher"}),
            },
        },
        "fin.invoices": {
            "description": "Invoices, bills.",
            "columns": {
                "order_ref": nb.References("shop.orders"),
                "amount": [cents, "amount billed"],
                "st": nb.Values({"O": "open", "P": "paid", "V": "void"}),
            },
        },
        "fin.refunds": {
            "description": "Refunds of payments.",
            "columns": {
                "payment": nb.References("fin.payments"),
                "amount": [nb.Unit("euro", range=(0, 900)), "amount refunded"],
            },
        },
        "hr.staff": {
            "description": "Staff of the stores, employees.",
            "columns": {
                "store": nb.References("ref.stores"),
                "r": nb.Values({"S": "sales", "M": "manager"}),
            },
        },
    }


def make(lake: nb.Catalog, seed: int) -> None:
    """Creates and analyzes all tables, without claims. Deprecated ones are written first."""
    made = rows(seed)
    old = ("shop.orders_v1", "log.shipments_old", "web.sessions")
    for name in sorted(made, key=lambda name: name not in old):
        data, key = made[name]
        lake.create_table(name, data, primary_key=key).analyze()


def describe(lake: nb.Catalog, claims: Claims) -> None:
    for name, given in claims.items():
        lake.table(name).describe(**given, allow_contradicted=True)
