"""Queries for the tests of the server: honest ones, and attempts to do more than read tables."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Iterator

_MEASURES = ("gross_cents", "net", "weight", "order_id")
_GROUPS = (
    *("status", "customer_id", "gift", "date_trunc('month', placed)", "year(placed)"),
    *("status, gift", "dayofweek(placed)", "coalesce(note, 'none')"),
)
_FILTERS = (
    *("status = 'P'", "gross_cents between 1000 and 5000", "note like '%1%'", "weight is null"),
    *(
        "placed >= date '2024-02-01'",
        "customer_id in (1, 2, 3)",
        "not gift",
        "lower(status) <> 'x'",
    ),
    *("gross_cents > 100 and (status = 'S' or gift)", "note is not null", "net * 2 > 5.5"),
    *("extract(month from placed) = 2", "shipped < timestamptz '2024-02-01 00:00:00+00'"),
    *(
        "placed + interval 3 day > date '2024-03-01'",
        "status ilike 'p'",
        "weight is distinct from 1",
    ),
)
_ORDERS = "shop.orders"


def honest() -> list[str]:
    """At least 200 different questions."""
    return list(dict.fromkeys([*_aggregates(), *_selections(), *_WRITTEN]))


def _aggregates() -> Iterator[str]:
    calls = ("sum", "avg", "min", "max", "median", "stddev", "count")
    for i, group in enumerate(_GROUPS):
        for j, measure in enumerate(_MEASURES):
            call = calls[(i + j) % len(calls)]
            where = _FILTERS[(i * 4 + j) % len(_FILTERS)]
            yield (
                f"select {group}, {call}({measure}) as answer, count(*) n from {_ORDERS} "
                f"where {where} group by {group} order by all"
            )
            yield (
                f"select {group}, count(distinct {measure}) d from {_ORDERS} group by {group} "
                f"having count(*) > {3 + i} order by all limit {5 + j}"
            )


def _selections() -> Iterator[str]:
    for i, where in enumerate(_FILTERS):
        columns = ("order_id, status, net", "*", "order_id, placed, shipped", "order_id, note")
        yield f"select {columns[i % 4]} from {_ORDERS} where {where} order by order_id limit 20"
        yield f"select count(*) from {_ORDERS} where {where}"
        yield (
            f"select c.city, sum(o.gross_cents) total from {_ORDERS} o join shop.customers c "
            f"on o.customer_id = c.id where o.{where.removeprefix('not ')} group by c.city "
            "order by total desc, c.city"
            if where[0] not in "leg" and "extract" not in where and "(" not in where[:1]
            else f"select max(order_id) from {_ORDERS} where {where}"
        )
        yield (
            f"with part as (select * from {_ORDERS} where {where}) select status, count(*) n, "
            f"min(net) low from part group by status order by status"
        )
        yield (
            f"select order_id, row_number() over (partition by status order by order_id desc) r "
            f"from {_ORDERS} where {where} qualify r <= 2 order by order_id"
        )


_WRITTEN = [
    "select count(*) from shop.orders",
    "from shop.customers order by id limit 3",
    "SELECT O.STATUS FROM SHOP.ORDERS O ORDER BY O.ORDER_ID LIMIT 2",
    "select shop.orders.order_id from shop.orders order by 1 limit 2",
    'select "order_id" as "an id" from "shop"."orders" order by 1 limit 2',
    "select distinct status from shop.orders order by status",
    "select c.city, count(o.order_id) from shop.customers c left join shop.orders o "
    "on c.id = o.customer_id group by 1 order by 1 nulls first",
    "select id from shop.customers where not exists (select 1 from shop.orders o "
    "where o.customer_id = id and o.gross_cents > 9000) order by id",
    "select id from shop.customers where id in (select customer_id from shop.orders "
    "where status = 'X') order by id",
    "select * exclude (note, net) from shop.orders order by order_id limit 2",
    "select * replace (gross_cents / 100 as gross_cents) from shop.orders order by order_id limit 2",
    "select order_id, lag(net) over (order by order_id) earlier from shop.orders "
    "order by order_id limit 5",
    "select order_id, sum(gross_cents) over (order by order_id rows between 2 preceding and "
    "current row) s from shop.orders order by order_id limit 9",
    "select order_id, avg(net) over w from shop.orders window w as (partition by status "
    "order by order_id) order by order_id limit 9",
    "select ntile(4) over (order by order_id) q, rank() over (order by status) r, order_id "
    "from shop.orders order by order_id limit 7",
    "select status, count(*) filter (where gift) from shop.orders group by status order by 1",
    "select string_agg(status, ',' order by status) from shop.orders where order_id < 9",
    "select quantile_cont(net, 0.9), median(weight), mode(status) from shop.orders",
    "select percentile_cont(0.25) within group (order by gross_cents) from shop.orders",
    "select arg_max(order_id, net), any_value(1), bool_or(gift) from shop.orders",
    "select strftime(placed, '%Y-%m') m, count(*) from shop.orders group by m order by m",
    "select date_diff('day', min(placed), max(placed)) from shop.orders",
    "select placed - date '2024-01-01' d, count(*) from shop.orders group by 1 order by 1 limit 4",
    "select time_bucket(interval '7 days', placed) w, sum(net) from shop.orders group by 1 order by 1",
    "select date_part('year', placed), last_day(placed) from shop.orders order by order_id limit 2",
    "select shipped at time zone 'Europe/Berlin' from shop.orders order by order_id limit 3",
    "select try_cast(note as int), cast(net as double), order_id::text, net::decimal(10,1) "
    "from shop.orders order by order_id limit 4",
    "select case when gross_cents > 5000 then 'high' when gross_cents > 1000 then 'mid' "
    "else 'low' end band, count(*) from shop.orders group by band order by band",
    "select status from shop.orders union select city from shop.customers order by 1 nulls last",
    "select customer_id from shop.orders except select id from shop.customers where id < 40 "
    "order by 1",
    "select customer_id from shop.orders intersect all select id from shop.customers order by 1",
    "select grouping(status), status, gift, sum(net) from shop.orders "
    "group by rollup (status, gift) order by 1, 2, 3, 4",
    "select status, gift, count(*) from shop.orders group by cube (status, gift) order by all",
    "select id, tags[1], len(tags), list_contains(tags, 'b') from shop.customers order by id limit 6",
    "select regexp_extract(note, '(\\d)', 1) d, count(*) from shop.orders group by d order by d",
    "select regexp_replace(note, '[aeiou]', '_') from shop.orders where note is not null "
    "order by order_id limit 3",
    "select split_part(note, ' ', 2), upper(left(note, 4)), replace(note, 'note', '') "
    "from shop.orders where note is not null order by order_id limit 3",
    "select trim(both '''' from right(note, 9)), position('q' in note), substring(note from 2 for 3) "
    "from shop.orders where note is not null order by order_id limit 3",
    "select gross_cents // 7, gross_cents % 7, 2 ** 3, -net, gross_cents / 7 from shop.orders "
    "order by order_id limit 6",
    "select round(sum(net), 1), ceil(avg(weight)), floor(2.7), abs(-3), sign(-2) from shop.orders",
    "select greatest(1, 2), least(3, gross_cents), nullif(status, 'P'), ifnull(note, '-') "
    "from shop.orders order by order_id limit 4",
    "select a.order_id, b.order_id from shop.orders a join shop.orders b on b.order_id = "
    "a.order_id + 1 where a.status = b.status order by 1 limit 5",
    "select * from (values (1, 'P'), (2, 'X')) v(n, status) order by n",
    "with v(s, meaning) as (values ('P', 'placed')) select meaning, count(*) from shop.orders "
    "join v on s = status group by meaning",
    "with a as (select 1 x), b as (select x + 1 y from a) select * from a, b",
    "with orders as (select order_id from shop.orders where gift) select count(*) from orders",
    "select count(*) from shop.orders -- a comment\n where gift /* and another */",
    "select (select max(net) from shop.orders) - avg(net) from shop.orders",
    "select order_id from shop.orders where net > all (select net from shop.orders "
    "where status = 'X') order by 1",
    "select order_id from shop.orders where (customer_id, status) in ((1, 'P'), (7, 'X')) order by 1",
    "select 'it''s', 'a;b', '--', '/*' from shop.orders limit 1",
    "select sum(gross_cents) from shop.orders;",
    "select o.*, c.city from shop.orders o join shop.customers c on o.customer_id = c.id "
    "order by o.order_id limit 2",
    "select count(*) from shop.orders o join shop.customers c on o.customer_id = c.id "
    "and c.city is not null",
    "select x.status, n from (select status, count(*) n from shop.orders group by status) x "
    "where n > 100 order by 1",
    "select status, {'n': count(*)} from shop.orders group by status order by status",
    "select cume_dist() over (order by net) from shop.orders order by order_id limit 3",
    "select first_value(status) over (partition by customer_id order by order_id), order_id "
    "from shop.orders order by order_id limit 8",
    "select dayname(placed), monthname(placed), count(*) from shop.orders group by 1, 2 order by all",
    "select corr(net, weight), covar_pop(net, weight) from shop.orders",
    "select city, max(since) from shop.customers group by city order by city desc nulls last",
    "select w.measured_value_003 from lab.wide w order by 1 limit 4 offset 2",
]


def hostile(file: str) -> list[str]:
    """More than 300 attempts to write, to read files or settings, or to get around the parser.

    Args:
        file: a path that exists.
    """
    return list(dict.fromkeys([*_statements(file), *_readers(file), *_tricks(file)]))


def _statements(file: str) -> Iterator[str]:
    statements = [
        "create table x (a int)",
        "create or replace view v as select 1",
        "create schema s",
        "create temp table x as select 1",
        "create macro f(a) as a + 1",
        "create type t as enum ('a')",
        "create sequence q",
        "create secret s (type s3)",
        "create index i on shop.orders (order_id)",
        "insert into shop.orders select * from shop.orders",
        "insert or replace into shop.orders values (1)",
        "update shop.orders set status = 'X'",
        "delete from shop.orders",
        "truncate shop.orders",
        "merge into shop.orders using shop.customers on true when matched then delete",
        "drop table shop.orders",
        "drop schema shop cascade",
        "alter table shop.orders drop column status",
        f"copy shop.orders to '{file}.out'",
        f"copy (select 1) to '{file}.out' (format parquet)",
        f"copy shop.orders from '{file}'",
        f"export database '{file}.d'",
        f"import database '{file}.d'",
        f"attach '{file}' as other",
        f"attach if not exists '{file}' (read_only)",
        "detach shop",
        "use shop",
        "install httpfs",
        "force install spatial from 'http://localhost/x'",
        "load httpfs",
        "load '/tmp/x.so'",
        "set memory_limit = '100GB'",
        "set global threads = 64",
        "set enable_external_access = true",
        "reset memory_limit",
        "pragma database_list",
        "pragma memory_limit='9GB'",
        "pragma enable_profiling",
        "call pragma_version()",
        "call duckdb_functions()",
        "checkpoint",
        "force checkpoint",
        "vacuum",
        "analyze",
        "begin",
        "commit",
        "rollback",
        "prepare p as select 1",
        "execute p",
        "deallocate p",
        "explain select 1",
        "explain analyze select * from shop.orders",
        "describe shop.orders",
        "summarize shop.orders",
        "show tables",
        "show all tables",
        "comment on table shop.orders is 'x'",
        "grant all on shop.orders to x",
        "pivot shop.orders on status using sum(net)",
        "unpivot shop.orders on net into name n value v",
        "values (1)",
        "",
        ";",
        "-- nothing",
        "selec 1",
        "select",
    ]
    yield from statements
    for statement in statements[:48]:
        yield f"select 1; {statement}"
        if statement.split()[0] in ("insert", "update", "delete", "merge"):
            yield f"with x as ({statement}) select 1"
            yield f"with x as ({statement} returning *) select * from x"
        yield f"select * from ({statement})"


def _readers(file: str) -> Iterator[str]:
    calls = [
        *("read_csv", "read_csv_auto", "sniff_csv", "read_parquet", "parquet_scan", "read_json"),
        *("read_json_auto", "read_ndjson", "read_text", "read_blob", "glob", "parquet_metadata"),
        *("parquet_schema", "parquet_file_metadata", "read_json_objects", "st_read", "read_xlsx"),
        *("delta_scan", "iceberg_scan", "sqlite_scan", "postgres_scan", "arrow_scan", "seq_scan"),
        *("query", "query_table", "pragma_table_info", "pragma_storage_info", "read_duckdb"),
        *("json_execute_serialized_sql", "from_substrait", "arrow_scan_dumb", "python_map"),
    ]
    for call in calls:
        yield f"select * from {call}('{file}')"
        yield f"select {call}('{file}')"
    tables = [
        *("duckdb_settings()", "duckdb_tables()", "duckdb_functions()", "duckdb_secrets()"),
        *("duckdb_extensions()", "duckdb_memory()", "duckdb_temporary_files()", "range(10)"),
        *(
            "generate_series(1, 1000000000)",
            "unnest([1, 2])",
            "pragma_version()",
            "test_all_types()",
        ),
        *("repeat_row(1, num_rows=1000000)", "repeat('a', 100)", "which_secret('x', 's3')"),
        *("information_schema.tables", "duckdb_tables", "duckdb_settings", "pg_catalog.pg_class"),
        *(
            "sqlite_master",
            "sqlite_schema",
            "pg_tables",
            "system.main.duckdb_tables",
            "memory.shop.orders",
        ),
        *("temp.main._table0", "_table0", "main._table0", "system.information_schema.columns"),
        *(f"'{file}'", f'"{file}"', "'/etc/passwd'", '"/etc/passwd"', "'http://127.0.0.1/x.csv'"),
        *(
            "'s3://b/k.parquet'",
            "'*.csv'",
            "'../secret.csv'",
            f"'{file}' t(a, b)",
            'shop."orders.csv"',
        ),
        *("(from '/etc/passwd')", "other.shop.orders", "shop.orders at (version => 1)"),
        *("shop.orders tablesample 10%", "shop.orders using sample 3", "orders", "shop.missing"),
        *("lateral (select 1)", "shop.orders, lateral (select order_id)", "staff.pay_x"),
        *(
            "shop.orders pivot (sum(net) for status in ('P'))",
            "columns('a')",
            "df",
            "self",
            "tables",
        ),
    ]
    for table in tables:
        yield f"select * from {table}"
        yield f"select (select count(*) from {table})"
    scalars = [
        *("getenv('HOME')", "current_setting('memory_limit')", "version()", "current_user"),
        *("current_database()", "current_schema()", "user", "getvariable('x')", "nextval('q')"),
        *("txid_current()", "pg_sleep(1)", "sleep_ms(1000)", "setseed(1)", "write_log('x')"),
        *("repeat('a', 1000000000)", "lpad('a', 1000000000, 'b')", "range(1000000000)"),
        *("generate_series(1, 1000000000)", "list_transform([1], x -> x)", "apply([1], x -> x)"),
        *("pg_typeof(1)", "in_search_path('a', 'b')", "current_query()", "error('x')"),
        *("parse_path('/etc')", "list_aggregate([1], 'sum')", "json_serialize_sql('select 1')"),
        *("$1", "?", "$name", ":x", "'x'::regclass", "'x'::json", "cast(1 as my_type)"),
        *("columns('.*')", "columns(*)", "unnest([1, 2])", "#1", "rowid", "bar('a')"),
        *(
            "format('{:1000000000}', 1)",
            "printf('%1000000000d', 1)",
            "'a'.repeat(9)",
            "bit_count(1)",
        ),
        *("md5_number('a')", "gen_random_uuid()", "random()", "uuid()", "from_base64('YQ==')"),
        *("add_parquet_key('a', 'b')", "load_aws_credentials()", "icu_sort_key('a', 'b')"),
        *("create_sort_key(1, 'asc')", "bitstring('1', 9)", "encode('a')", "url_encode('a')"),
        *("1 in staff", "any_value(x) in unnest([1])", "map {'a': 1}", "'a' collate nocase"),
        *("x'61'", "e'\\x61'", "'a' glob '*'", "[x for x in [1]]", "try(1)", "note[1:2]"),
    ]
    for scalar in scalars:
        yield f"select {scalar} from shop.orders"


def _tricks(file: str) -> Iterator[str]:
    yield from [
        f"select * from/**/read_csv('{file}')",
        f"select * from read_csv/* */('{file}')",
        f"select * from \"read_csv\"('{file}')",
        f"select * from READ_CSV('{file}')",
        f"select * from main.read_csv('{file}')",
        f"select * from system.main.read_csv('{file}')",
        f"select main.read_text('{file}')",
        f"select '{file}'.read_text()",
        f"select a from (select '{file}' a), read_text(a)",
        f"with t as (select * from read_csv('{file}')) select * from t",
        f"with t as materialized (from read_csv('{file}')) select 1 from t",
        f"select (select content from read_text('{file}'))",
        f"select 1 where exists (from read_text('{file}'))",
        f"select 1 order by (select content from read_text('{file}'))",
        f"select 1 limit (select count(*) from read_text('{file}'))",
        f"select sum(1) over (order by (select 1 from read_text('{file}')))",
        f"select case when true then (from read_text('{file}')) end",
        f"select * from shop.orders join '{file}' on true",
        f"select * from shop.orders natural join read_csv('{file}')",
        f"select * from shop.orders union all from '{file}'",
        f"(select 1) union (select * from '{file}')",
        f"from '{file}' select *",
        f"from '{file}'",
        f"select * from '{file}' as \"shop.orders\"",
        "with recursive r as (select 1 x union all select x + 1 from r) select max(x) from r",
        "with recursive r(x) as (values (1) union all select x from r) select count(*) from r",
        "with recursive r(x) using key (x) as (select 1 union select 1 from r) select 1",
        "with duckdb_tables as (select 1) select * from duckdb_tables",
        "select * from (with pg_class as (select 1) select 1), pg_class",
        "with a as (select * from duckdb_settings), duckdb_settings as (select 1) select * from a",
        "with a as (select * from b), b as (select * from information_schema.tables) select 1",
        "select * from (with x as (select 1) select * from x) a, x",
        'select 1 from shop.orders as "x""; drop table shop.orders; --", duckdb_settings()',
        "select 'a\\'; drop table shop.orders; --'; drop table shop.orders",
        "select 'a'; --'\ndrop table shop.orders",
        "select /* /* nested */ 1; drop table shop.orders; -- */",
        "select 1 /*; */; drop table shop.orders",
        "select $$a$$; drop table shop.orders; select $$b$$",
        "select $x$ a $x$; pragma version",
        "select 1;;drop table shop.orders;;",
        "select 1\0; drop table shop.orders",
        "select 1 union all (delete from shop.orders returning 1)",
        "select * into outfile 'x' from shop.orders",
        "select 1 into x",
        "select * from shop.orders for update of nothing, read_csv('x')",
        'select extract("year from placed); drop table shop.orders; --" from placed) from shop.orders',
        "select extract('epoch' || read_text('x') from placed) from shop.orders",
        "select cast('1' as \"int); drop table x; --\")",
        "select * from shop.orders order by 1 limit read_text('x')",
        "select * from shop.orders limit (select count(*) from glob('*'))",
        "select * exclude (note) from read_csv('x')",
        "select * replace (getenv('HOME') as note) from shop.orders",
        "select columns(c -> c like '%') from shop.orders",
        "select * like '%' from duckdb_settings()",
        "select getenv('HOME')",
        "select \"getenv\"('HOME')",
        "select GetEnv('HOME')",
        "select system.main.getenv('HOME')",
        "select list_transform(['HOME'], lambda x: getenv(x))",
        "select [getenv(x) for x in ['HOME']]",
        "select struct_pack(a := getenv('HOME'))",
        "select {'a': getenv('HOME')}",
        "select [getenv('HOME')]",
        "select (getenv('HOME'),)",
        "select 1 from shop.orders where note like getenv('HOME')",
        "select count(*) filter (where getenv('HOME') = 'x') from shop.orders",
        "select string_agg(note, getenv('HOME')) from shop.orders",
        "select sum(net order by getenv('HOME')) from shop.orders",
        "select sum(net) over (partition by getenv('HOME')) from shop.orders",
        "select 1 from shop.orders group by getenv('HOME')",
        "select 1 from shop.orders having getenv('HOME') = ''",
        "select 1 from shop.orders qualify getenv('HOME') = ''",
        "select 1 between 0 and getenv('HOME')",
        "select 1 in (1, getenv('HOME'))",
        "select note is distinct from getenv('HOME') from shop.orders",
        "select cast(getenv('HOME') as int)",
        "select try_cast(getenv('HOME') as int)",
        "select case getenv('HOME') when 'a' then 1 end",
        "select substring(getenv('HOME') from 1 for 2)",
        "select trim(both getenv('HOME') from 'a')",
        "select position('a' in getenv('HOME'))",
        "select 'a' similar to getenv('HOME')",
        "select now() at time zone getenv('HOME')",
        "select * from (values (getenv('HOME'))) v(a)",
        "select -getenv('HOME'), not getenv('HOME')",
        "select 1 from shop.orders o join shop.customers c on getenv('HOME') = ''",
        f"select {'(' * 3000}1{')' * 3000}",
        f"select {'-' * 1}{' - '.join(['1'] * 9000)}",
        "select 1 where " + " and ".join(["1=1"] * 3000),
        "select '" + "a" * 30_000 + "'",
    ]
