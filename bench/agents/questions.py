"""30 questions with their parse, and SQL that answers each over the rows as they are.

The parse is given, so that grounding alone is measured: which table, column, code, unit and join.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """One question.

    Attributes:
        table: words for the table.
        measure: words for the column that is summed; ``None`` counts rows.
        unit: of the answer.
        where: meanings that a coded column must have.
        nulls: words for a column that must be null.
        joined: words for a table with a coded or plain value that must hold, and that value.
        gold: SQL over the rows.
    """

    text: str
    table: str
    gold: str
    measure: str | None = None
    unit: str | None = None
    where: tuple[str, ...] = ()
    nulls: str | None = None
    joined: tuple[str, str] | None = None


def _count(what: str, table: str, meaning: str, gold: str) -> Question:
    return Question(f"How many {what} are {meaning}?", table, gold, where=(meaning,))


def _sum(what: str, table: str, measure: str, unit: str, gold: str) -> Question:
    return Question(f"What is the {measure} of all {what}, in {unit}?", table, gold, measure, unit)


def _of(what: str, table: str, joined: tuple[str, str], gold: str) -> Question:
    return Question(f"How many {what} are of {joined[0]} {joined[1]}?", table, gold, joined=joined)


QUESTIONS = [
    _count("sales", "sales", "cancelled", "SELECT count(*) FROM shop.orders WHERE st = 'X'"),
    _count("sales", "sales", "shipped", "SELECT count(*) FROM shop.orders WHERE st = 'S'"),
    _count("orders", "orders placed", "phone", "SELECT count(*) FROM shop.orders WHERE ch = 3"),
    _count("orders", "orders placed", "web", "SELECT count(*) FROM shop.orders WHERE ch = 2"),
    _count(
        "customers", "customers", "business", "SELECT count(*) FROM shop.customers WHERE seg = 'B'"
    ),
    _count("customers", "people", "public", "SELECT count(*) FROM shop.customers WHERE seg = 'C'"),
    _count(
        "articles",
        "articles",
        "discontinued",
        "SELECT count(*) FROM shop.products WHERE state = 'D'",
    ),
    _count("returns", "returns", "damaged", "SELECT count(*) FROM shop.returns WHERE why = 'D'"),
    _count(
        "deliveries", "deliveries", "delivered", "SELECT count(*) FROM log.shipments WHERE st = 30"
    ),
    _count(
        "deliveries", "deliveries", "packed", "SELECT count(*) FROM log.shipments WHERE st = 10"
    ),
    _count("visits", "visits", "tablet", "SELECT count(*) FROM web.visits WHERE dev = 't'"),
    _count("visits", "visits", "mobile", "SELECT count(*) FROM web.visits WHERE dev = 'm'"),
    _count(
        "advertisements", "campaigns", "online", "SELECT count(*) FROM web.campaigns WHERE k = 2"
    ),
    _count("payments", "payments", "voucher", "SELECT count(*) FROM fin.payments WHERE m = 'V'"),
    _count("bills", "bills", "open", "SELECT count(*) FROM fin.invoices WHERE st = 'O'"),
    _count("employees", "employees", "manager", "SELECT count(*) FROM hr.staff WHERE r = 'M'"),
    _sum("sales", "sales", "gross amount", "euro", "SELECT sum(amount) / 100 FROM shop.orders"),
    _sum(
        "payments", "payments", "amount paid", "euro", "SELECT sum(amount) / 100 FROM fin.payments"
    ),
    _sum("bills", "bills", "amount billed", "euro", "SELECT sum(amount) / 100 FROM fin.invoices"),
    _sum("refunds", "refunds", "amount refunded", "euro", "SELECT sum(amount) FROM fin.refunds"),
    _sum(
        "returns", "returns", "value returned", "euro", "SELECT sum(amount) / 100 FROM shop.returns"
    ),
    _sum("articles", "articles", "weight", "kilogram", "SELECT sum(wt) / 1000 FROM shop.products"),
    _sum("visits", "visits", "duration", "second", "SELECT sum(dur) / 1000 FROM web.visits"),
    _of(
        *("sales", "sales", ("customers", "business")),
        "SELECT count(*) FROM shop.orders o JOIN shop.customers c ON o.customer = c.customer_id "
        "WHERE c.seg = 'B'",
    ),
    _of(
        *("items", "items lines", ("products", "discontinued")),
        "SELECT count(*) FROM shop.items i JOIN shop.products p ON i.product = p.product_id "
        "WHERE p.state = 'D'",
    ),
    _of(
        *("visits", "visits", ("customers", "private")),
        "SELECT count(*) FROM web.visits v JOIN shop.customers c ON v.customer = c.customer_id "
        "WHERE c.seg = 'A'",
    ),
    _of(
        *("payments", "payments", ("orders", "cancelled")),
        "SELECT count(*) FROM fin.payments p JOIN shop.orders o ON p.order_ref = o.order_id "
        "WHERE o.st = 'X'",
    ),
    Question(
        *("How many orders have no store?", "orders placed"),
        "SELECT count(*) FROM shop.orders WHERE store IS NULL",
        nulls="store",
    ),
    Question(
        *("What is the balance of all customers now, in euro?", "balances"),
        "SELECT sum(balance) / 100 FROM shop.customers_daily "
        "WHERE day = (SELECT max(day) FROM shop.customers_daily)",
        *("balance", "euro"),
    ),
    Question(
        *("How many pieces are in stock now?", "stock"),
        "SELECT sum(pieces) FROM log.stock WHERE day = (SELECT max(day) FROM log.stock)",
        "pieces",
    ),
]
