"""Identifiers, logs, addresses, JSON and prose."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import data
from bench.zoo.numbers import NOW, SECOND, skewed, times
from bench.zoo.registry import Random, Values, add, column


def joined(*parts: object) -> pa.Array:
    """Arrays and constants put together row by row."""
    arrays = [_as_text(p) for p in parts]
    return pc.binary_join_element_wise(*arrays, "")


def _as_text(part: object) -> object:
    if isinstance(part, str):
        return part
    array = part if isinstance(part, (pa.Array, pa.ChunkedArray)) else pa.array(part)
    return array if pa.types.is_string(array.type) else array.cast(pa.string())


def picked(random: Random, n: int, things: list[str], power: float = 2) -> pa.Array:
    """Some of the things, the first ones more often."""
    return pa.array(things).take(pa.array(skewed(random, n, len(things), power)))


def padded(numbers: np.ndarray, digits: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), digits, "0")


def hexadecimal(random: Random, n: int, digits: int) -> pa.Array:
    alphabet = np.frombuffer(b"0123456789abcdef", np.uint8)
    letters = alphabet[random.integers(0, 16, (n, digits))]
    ends = np.arange(0, (n + 1) * digits, digits, dtype=np.int32)
    return pa.StringArray.from_buffers(n, pa.py_buffer(ends), pa.py_buffer(letters))


def words_of(random: Random, count: int, letters: str, least: int = 3, most: int = 9) -> list[str]:
    lengths = random.integers(least, most + 1, count)
    weights = 1 / np.arange(2, len(letters) + 2)
    drawn = random.choice(list(letters), int(lengths.sum()), p=weights / weights.sum())
    ends = np.cumsum(lengths)
    return ["".join(drawn[e - k : e]) for e, k in zip(ends, lengths, strict=True)]


def prose(random: Random, n: int, vocabulary: list[str], least: int, most: int) -> pa.Array:
    """Sentences of Zipf-distributed words."""
    lengths = random.integers(least, most + 1, n)
    ranks = np.minimum(random.zipf(1.25, int(lengths.sum())) - 1, len(vocabulary) - 1)
    words = pa.array(vocabulary).take(pa.array(ranks))
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), words), " ")


LATIN = "etaoinshrdlucmfwypvbgkjqxz"
FIRST = [
    "Anna",
    "Ben",
    "Chen",
    "Diego",
    "Emma",
    "Farid",
    "Grace",
    "Hiro",
    "Ines",
    "Jonas",
    "Karim",
    "Lena",
    "Mia",
    "Noah",
    "Olga",
]
LAST = [
    "Smith",
    "Müller",
    "García",
    "Rossi",
    "Kim",
    "Nguyen",
    "Silva",
    "Kowalski",
    "Ivanov",
    "Haddad",
    "Tanaka",
]

# ---- identifiers ----

add("identifiers", "uuid4", lambda random, n: data.uuids(n, seed=5)["id"].combine_chunks())
add("identifiers", "sha256_hex", lambda random, n: hexadecimal(random, n, 64))
add("identifiers", "hex_16", lambda random, n: hexadecimal(random, n, 16))
add("identifiers", "order_number", lambda _, n: joined("ORD-", padded(np.arange(n), 9)))
add("identifiers", "user_name", lambda r, n: joined("user_", skewed(r, n, n // 10)))


@column("identifiers")
def iban(random: Random, n: int) -> Values:
    country = picked(random, n, ["DE", "FR", "NL", "ES"])
    return joined(country, padded(random.integers(0, 10**18, n), 20))


@column("identifiers")
def phone(random: Random, n: int) -> Values:
    area, number = random.integers(100, 1_000, n), random.integers(10**6, 10**7, n)
    return joined("+1-", area, "-", number)


@column("identifiers")
def ip_address(random: Random, n: int) -> Values:
    return joined(
        "10.", skewed(random, n, 16), ".", random.integers(0, 256, n), ".", skewed(random, n, 256)
    )


@column("identifiers")
def email(random: Random, n: int) -> Values:
    name = picked(random, n, FIRST), ".", picked(random, n, LAST), random.integers(0, 1_000, n)
    domain = picked(random, n, ["gmail.com", "example.org", "mail.example.net", "corp.io"])
    return pc.utf8_lower(joined(*name, "@", domain))


@column("identifiers")
def product_code(random: Random, n: int) -> Values:
    codes = hexadecimal(random, 5_000, 12)
    return codes.take(pa.array(skewed(random, n, 5_000)))


@column("identifiers")
def binary_keys(random: Random, n: int) -> Values:
    raw = random.integers(0, 256, n * 16, np.uint8)
    return pa.Array.from_buffers(pa.binary(16), n, [None, pa.py_buffer(raw)])


@column("identifiers")
def object_id(random: Random, n: int) -> Values:
    """As MongoDB's: seconds, a machine, a counter, in hexadecimal."""
    at = np.char.mod("%08x", 1_700_000_000 + np.cumsum(random.poisson(0.2, n)))
    counter = np.char.mod("%06x", (np.arange(n) + 5_000_000) % (1 << 24))
    return joined(pa.array(at), "5f3a9c01b2", pa.array(counter))


# ---- logs and addresses of the web ----


@column("logs")
def url(random: Random, n: int) -> Values:
    host = picked(random, n, ["https://shop.example.com", "https://www.example.org"])
    path = picked(random, n, ["/products/", "/category/shoes/", "/search?q=", "/account/orders/"])
    source = picked(random, n, ["", "?utm_source=mail", "?ref=home&lang=en"])
    return joined(host, path, random.integers(0, 200_000, n), source)


@column("logs")
def user_agent(random: Random, n: int) -> Values:
    """Some thousand long strings that differ in versions."""
    systems = [
        "Windows NT 10.0; Win64; x64",
        "X11; Linux x86_64",
        "Macintosh; Intel Mac OS X 10_15",
    ]
    made = joined(
        "Mozilla/5.0 (",
        picked(random, 4_000, systems),
        ") AppleWebKit/537.36 (KHTML, like Gecko) Chrome/",
        random.integers(80, 125, 4_000),
        ".0.",
        random.integers(1_000, 7_000, 4_000),
        ".",
        random.integers(0, 200, 4_000),
        " Safari/537.36",
    )
    return made.take(pa.array(skewed(random, n, 4_000)))


@column("logs")
def access_line(random: Random, n: int) -> Values:
    at = pc.strftime(times((NOW // SECOND + np.arange(n) // 7) * SECOND), "%d/%b/%Y:%H:%M:%S +0000")
    at = pc.replace_substring_regex(at, r":(\d\d)\.\d+", r":\1")
    path = picked(random, n, ["/", "/index.html", "/api/v1/items/", "/static/app.js", "/login"])
    code = picked(random, n, ["200", "200", "304", "404", "500"])
    return joined(
        ip_address(random, n),
        " - - [",
        at,
        '] "GET ',
        path,
        random.integers(0, 5_000, n),
        ' HTTP/1.1" ',
        code,
        " ",
        random.integers(200, 90_000, n),
    )


@column("logs")
def application_line(random: Random, n: int) -> Values:
    level = picked(random, n, ["INFO", "INFO", "DEBUG", "WARN", "ERROR"])
    where = picked(random, n, ["worker", "scheduler", "http.server", "db.pool", "cache"])
    what = picked(
        random,
        n,
        [
            "request finished in ",
            "connection taken from pool after ",
            "job queued, position ",
            "retry after timeout, attempt ",
            "evicted entries: ",
        ],
    )
    return joined("[", level, "] ", where, ": ", what, random.integers(0, 30_000, n))


@column("logs")
def time_as_text(random: Random, n: int) -> Values:
    at = NOW + np.cumsum(random.poisson(900, n)) * 1_000
    return joined(pc.strftime(pa.array(at // 1_000, pa.timestamp("ms")), "%Y-%m-%dT%H:%M:%S"), "Z")


@column("logs")
def file_path(random: Random, n: int) -> Values:
    top = picked(random, n, ["/data/warehouse/", "/home/team/projects/", "/var/log/"])
    names = words_of(random, 300, LATIN)
    return joined(
        top,
        picked(random, n, names),
        "/",
        picked(random, n, names),
        "/part-",
        padded(random.integers(0, 10_000, n), 5),
        ".parquet",
    )


@column("logs")
def sorted_paths(random: Random, n: int) -> Values:
    paths = file_path(random, n)
    return paths.take(pc.sort_indices(paths))


@column("logs")
def sorted_words(random: Random, n: int) -> Values:
    stems = words_of(random, 3_000, LATIN)
    made = joined(picked(random, n, stems, 1), picked(random, n, stems, 1))
    return made.take(pc.sort_indices(made))


@column("logs")
def sorted_urls(random: Random, n: int) -> Values:
    made = url(random, n)
    return made.take(pc.sort_indices(made))


# ---- JSON ----


@column("json")
def json_event(random: Random, n: int) -> Values:
    kind = picked(random, n, ["click", "view", "purchase", "scroll"])
    return joined(
        '{"id":',
        np.arange(n) + 10_000_000,
        ',"type":"',
        kind,
        '","user":',
        skewed(random, n, 90_000),
        ',"score":',
        pa.array(np.round(random.random(n), 3)),
        ',"ok":',
        picked(random, n, ["true", "true", "false"]),
        "}",
    )


@column("json")
def json_of_shapes(random: Random, n: int) -> Values:
    """Three shapes, one after the other as they come."""
    a = joined(
        '{"t":"metric","name":"',
        picked(random, n, ["cpu", "mem", "disk"]),
        '","value":',
        random.integers(0, 10_000, n),
        "}",
    )
    b = joined(
        '{"t":"log","msg":"',
        picked(random, n, ["started", "stopped", "failed"]),
        '","host":"h',
        random.integers(0, 50, n),
        '"}',
    )
    c = joined(
        '{"t":"trace","span":"',
        hexadecimal(random, n, 16),
        '","ms":',
        random.integers(0, 900, n),
        "}",
    )
    return pc.choose(pa.array(random.integers(0, 3, n)), a, b, c)


@column("json")
def json_pretty(random: Random, n: int) -> Values:
    return joined(
        '{"name": "',
        picked(random, n, FIRST),
        " ",
        picked(random, n, LAST),
        '", "address": {"city": "',
        picked(random, n, ["Berlin", "Paris", "Madrid", "Warszawa", "Köln"]),
        '", "zip": "',
        padded(random.integers(0, 100_000, n), 5),
        '"}, "tags": ["',
        picked(random, n, ["new", "vip", "old"]),
        '"]}',
    )


# ---- text ----


def text_in(name: str, letters: str) -> None:
    def make(random: Random, n: int) -> Values:
        # a fifth of the rows: text is long
        return prose(random, n // 5, words_of(random, 20_000, letters), 4, 25)

    add("text", name, make)


text_in("latin", LATIN)
text_in("german", "enisratdhulcgmobwfkzüvpäßjöqyx")
text_in("cyrillic", "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё")
text_in("arabic", "اليمونترعبدسفهكقحجشصطخضزثذغظ")
text_in("chinese", "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年")
text_in("hindi", "कारनतसमहलपवयजगदबशभधचटणखथइउएओ")
text_in("emoji", "😀👍🎉🔥💯🙏😂❤🚀✨")


@column("text")
def person(random: Random, n: int) -> Values:
    return joined(picked(random, n, FIRST, 1), " ", picked(random, n, LAST, 1))


@column("text")
def city(random: Random, n: int) -> Values:
    names = [w.capitalize() for w in words_of(random, 3_000, LATIN, 4, 12)]
    return picked(random, n, names, 3)


@column("text")
def rare_comments(random: Random, n: int) -> Values:
    made = prose(random, n // 20, words_of(random, 5_000, LATIN), 3, 12)
    which = np.where(random.random(n) < 0.05, skewed(random, n, n // 20, 1), 0)
    return made.take(pa.array(which, mask=random.random(n) < 0.95))


@column("text")
def half_null_text(random: Random, n: int) -> Values:
    made = prose(random, n, words_of(random, 5_000, LATIN), 1, 6)
    return pc.if_else(pa.array(random.random(n) < 0.5), made, None)


@column("text")
def mostly_empty(random: Random, n: int) -> Values:
    notes = words_of(random, 3_000, LATIN)
    return pc.if_else(pa.array(random.random(n) < 0.97), "", picked(random, n, notes))


@column("text")
def booleans_as_text(random: Random, n: int) -> Values:
    return picked(random, n, ["true", "false"], 1.2)


@column("text")
def numbers_as_text(random: Random, n: int) -> Values:
    return pa.array(np.round(random.lognormal(3, 1, n), 2)).cast(pa.string())


@column("text")
def long_documents(random: Random, n: int) -> Values:
    return prose(random, n // 200, words_of(random, 20_000, LATIN), 200, 600)
