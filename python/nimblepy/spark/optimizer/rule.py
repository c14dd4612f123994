"""Installs the optimizer rule that turns joins with nimble files into lookups.

The rule is Java, in this folder. Spark's own compiler (janino) compiles it when the first
session of a JVM registers the data source, so it needs neither a jar nor a setting. Spark has no
public way to add a rule from Python. If a private name has moved, the rule is not installed, and
everything else works.
"""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any

from pyspark import java_gateway as _java_gateway
from pyspark.sql import SparkSession

from nimblepy.io.log import logger
from nimblepy.spark.base.frames import is_connect
from nimblepy.spark.base.shipping import cloudpickle
from nimblepy.spark.joins.index_join import lookup_udf
from nimblepy.spark.joins.tasks import exists_arrays, lookup_arrays
from nimblepy.spark.optimizer.join_decision import Lookup, decide_join
from nimblepy.spark.optimizer.scan_decision import decide_scan
from nimblepy.spark.reading.scan import local_rows

# Typed as Any, because PySpark does not annotate it.
java_gateway: Any = _java_gateway

_LOG = logger(__name__)
_SOURCES = Path(__file__).parent
# py4j caches methods by class name, so each process uses a different Java package.
_PACKAGE = f"nimblepy.optimizer{secrets.token_hex(4)}"
# By id of a JVM's gateway: the gateway, which keeps the id in use, and the compiled class.
_compiled: dict[int, tuple[Any, Any]] = {}
_warned = False


def installed_rule(spark: SparkSession) -> Any:
    """Returns the rule of this session; ``None`` if it is not installed."""
    if is_connect(spark):
        return None
    return next((rule for rule in _rules(spark) if _is_ours(rule)), None)


def install(spark: SparkSession) -> None:
    """Installs the rule in a classic session. If it cannot, it logs one warning per process."""
    if installed_rule(spark) is not None:
        return
    try:
        _install(spark)
    except Exception as error:
        global _warned
        if not _warned:
            _warned = True
            _LOG.warning("joins are not optimized in Spark %s: %s", spark.version, error)


def remove(spark: SparkSession) -> None:
    """Removes the rule from a classic session."""
    _set_rules(spark, [rule for rule in _rules(spark) if not _is_ours(rule)])


def _install(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    java_gateway.ensure_callback_server_started(gateway)
    rule = _rule_class(spark).newInstance()
    rule.connect(_Driver(spark, rule))
    _set_rules(spark, [*_rules(spark), rule])


def _rule_class(spark: SparkSession) -> Any:
    """Returns the compiled rule. Compiles it once per JVM."""
    gateway = spark.sparkContext._gateway
    key = id(gateway)
    if key not in _compiled:
        jvm: Any = spark._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
        compiler.cook(_source_text())
        made = compiler.getClassLoader().loadClass(f"{_PACKAGE}.NimbleRule")
        _compiled[key] = gateway, made
    return _compiled[key][1]


def _source_text() -> str:
    """Returns the Java files as one source text, because janino compiles one text at a time."""
    imports: set[str] = set()
    bodies: list[str] = []
    for path in sorted(_SOURCES.glob("*.java")):
        text = path.read_text("utf-8")
        imports |= set(re.findall(r"^import .*;$", text, re.MULTILINE))
        bodies.append(re.sub(r"^(import|package) .*;$", "", text, flags=re.MULTILINE))
    return "\n".join([f"package {_PACKAGE};", *sorted(imports), *bodies])


def _rules(spark: SparkSession) -> list[Any]:
    rules = _methods(spark).extraOptimizations()
    return [rules.apply(i) for i in range(rules.size())]


def _set_rules(spark: SparkSession, rules: list[Any]) -> None:
    jvm: Any = spark._jvm
    held = jvm.java.util.ArrayList()
    for rule in rules:
        held.add(rule)
    as_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq(held)
    getattr(_methods(spark), "extraOptimizations_$eq")(as_seq)


def _methods(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.experimental()


def _is_ours(rule: Any) -> bool:
    return bool(rule.getClass().getName().startswith(_PACKAGE + "."))


class _Driver:
    """Answers questions of the rule.

    Implements a ``java.util.function.Function`` from text to text.
    """

    def __init__(self, spark: SparkSession, rule: Any) -> None:
        self._spark = spark
        self._rule = rule

    def apply(self, text: str) -> str:
        question = json.loads(text)
        try:
            answer = self._join(question) if "equalities" in question else self._scan(question)
        except Exception as error:
            _LOG.debug("a join or a scan was left to Spark", exc_info=True)
            answer = {"action": "keep", "reason": f"{type(error).__name__}: {error}"}
        return json.dumps(answer)

    def _join(self, question: dict[str, Any]) -> dict[str, Any]:
        answer, lookup = decide_join(question)
        if lookup is not None and not self._rule.offers(lookup.key):
            self._rule.offer(lookup.key, _java_function(lookup))
        return answer

    def _scan(self, question: dict[str, Any]) -> dict[str, Any]:
        answer = decide_scan(question)
        if answer is None:
            return {"action": "keep"}
        key = secrets.token_hex(8)
        if answer.rows is None or answer.schema is None:
            self._rule.offer(key, bytearray(cloudpickle.dumps(answer.source)))
            return {"action": "scan", "source": key}
        frame = local_rows(self._spark, answer.rows, answer.schema)
        self._rule.offer(key, frame._jdf.queryExecution().analyzed())
        return {"action": "rows", "rows": key}

    def hashCode(self) -> int:
        return id(self) & 0x7FFFFFFF

    def equals(self, other: object) -> bool:
        return other is self

    def toString(self) -> str:
        return "nimblepy"

    class Java:
        implements: tuple[str, ...] = ("java.util.function.Function",)


def _java_function(lookup: Lookup) -> Any:
    make = exists_arrays if lookup.has_match else lookup_arrays
    function = lookup_udf(lookup.join, make, name="nimble_index_join")
    return getattr(function, "_unwrapped", function)._judf
