from __future__ import annotations

import io
import json
import re
import tracemalloc
from itertools import combinations
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIRequestFactory

from idempotency_app.bodies import keep_body
from idempotency_app.fingerprints import MAX_DEPTH, fingerprint, named_target

MIB = 1024 * 1024
OBJECT = b'{"sku":"s1","amount":100,"items":[1,2],"o":{"a":1,"b":2}}'
URLENCODED = "application/x-www-form-urlencoded"


def post(
    body: bytes = b"",
    content_type: str = "application/json",
    path: str = "/orders/",
    method: str = "POST",
    **headers: str,
) -> Any:
    factory: Any = APIRequestFactory()
    request = factory.generic(method, path, body, content_type=content_type, **headers)
    keep_body(request)
    return request


def of(*args: Any, target: str = "/orders/", **kwargs: Any) -> str:
    return fingerprint(post(*args, **kwargs), target=target)


def of_json(text: str) -> str:
    return of(text.encode())


def of_form(body: bytes) -> str:
    return of(body, URLENCODED)


def part(
    name: str, value: bytes = b"", *, filename: str | None = None, headers: bytes = b""
) -> bytes:
    name = f'form-data; name="{name}"' + ("" if filename is None else f'; filename="{filename}"')
    return b"Content-Disposition: " + name.encode() + b"\r\n" + headers + b"\r\n" + value


def multipart(*parts: bytes, boundary: str = "AAA") -> dict[str, Any]:
    mark = f"--{boundary}".encode()
    body = b"".join(mark + b"\r\n" + each + b"\r\n" for each in parts) + mark + b"--\r\n"
    return {"body": body, "content_type": f"multipart/form-data; boundary={boundary}"}


SKU = part("sku", b"s1")
LARGE = part("f", b"x" * (3 * MIB), filename="f.bin")
SMALL = part("f", b"\x00\xff\r\n--AA", filename="f.bin")

# A stored fingerprint meets the code of the next release: these never change within one FORM.
VECTORS: dict[str, tuple[dict[str, Any], str]] = {
    "empty body": ({}, "/orders/"),
    "json": ({"body": OBJECT}, "/orders/"),
    "json, numbers": ({"body": b"[0,-0,1,1.0,1e2,9007199254740993,NaN]"}, "/orders/"),
    "json, nested": ({"body": b'[[],{},[{}],{"":[null,true,false,""]}]'}, "/orders/"),
    "json, strings": ({"body": '["é","\\ud800","\\u0000","\U0001f600"]'.encode()}, "/orders/"),
    "json, duplicate names": ({"body": b'{"a":1,"b":2,"a":3}'}, "/orders/"),
    "json, of a vendor": (
        {"body": OBJECT, "content_type": "application/vnd.api+json; charset=UTF-8"},
        "/orders/",
    ),
    "json that does not parse": ({"body": b"{"}, "/orders/"),
    "json, patched": ({"body": OBJECT, "method": "PATCH"}, "/orders/1/"),
    "json, compressed": ({"body": b"\x1f\x8b", "HTTP_CONTENT_ENCODING": "gzip"}, "/orders/"),
    "query": ({"body": OBJECT, "path": "/orders/?b=2&a=1&a=%C3%A9"}, "/orders/"),
    "named target": ({"body": OBJECT}, named_target((), {"pk": 7})),
    "form": ({"body": b"b=2&a=3&a=1+%C3%A9&c", "content_type": URLENCODED}, "/orders/"),
    "multipart": (multipart(SKU, SMALL, part("sku", b"s2")), "/orders/"),
    "octets": (
        {"body": bytes(range(256)), "content_type": "application/octet-stream"},
        "/orders/",
    ),
    "text with a charset": (
        {"body": b"\xe9", "content_type": "text/plain; charset=ISO-8859-1"},
        "/orders/",
    ),
}
EXPECTED = {
    "empty body": "495177c5593be88effd99db58d8bcf94c3174c0a928eeaf70119d8715cb40a08",
    "json": "494012b72cfd2738e9f142cbe27c903f949b6f7fbbba80278cd07faa8bbfe641",
    "json, numbers": "44c23c550e7f4d40dd3319f227a3d5bb9b42fd2a489bd93fe83465d4297d440a",
    "json, nested": "c52fbffd113d59c9d9282947c7fd0f67ab4e853eb5147e801a690a5617bed947",
    "json, strings": "3741ff61ce78093f952f2c58232654208ab00cf02bdd9a518951851fc1cadd1e",
    "json, duplicate names": "4fa5f167d1a1061f950b60c0967efab3481dfff298994c66ec81dcd93c30ab37",
    "json, of a vendor": "d1a93120ecc8f17e32599778eb139702a6b4ba4ca7d0dfcf5eff1324515afe3b",
    "json that does not parse": "f95ce349f17238461b152477ac74d31367d043bcf498f72a34c08772faea9531",
    "json, patched": "11d3b62dd5985c437fe9bee7cc8109d16b60191ec6c66add1f43cd4fba7a0974",
    "json, compressed": "587dfd60fd67575c15022a5ab9b9e24daefc4004b7e91de0f363378079f2455e",
    "query": "32189a9df3750c89023402de816b49c963825eb6ccc468ff44220ecbded18a0c",
    "named target": "a9323f10be178292670539c5d8e49aa6fb178077d9c99b052ebec1b77e3f671e",
    "form": "0a4136715bba7907a823df23ad795254c4f911f4f72d5fe1f9a19c1d765f8bd4",
    "multipart": "d410ea05c07100dcf01f2eeda2acb4bb8727e1685168cb50899dff4754eeccf3",
    "octets": "e39e40e69a6fa6cdb3ef6cee6d64611e2df1c266840384d8faea65afd00fff6d",
    "text with a charset": "e24963e62b620f5d8cea830a9de86bafdd91ea13e7d4ca052f9fd239a516cd6a",
}


@pytest.mark.parametrize("name", VECTORS)
def test_the_pinned_vectors(name):
    arguments, target = VECTORS[name]
    assert of(**arguments, target=target) == EXPECTED[name]


def test_the_vectors_are_all_different():
    assert len(set(EXPECTED.values())) == len(VECTORS)


# JSON


@pytest.mark.parametrize(
    ("second", "same"),
    [
        ('{ "o":{"b":2,"a":1}, "items":[1,2],\n "amount":100, "sku":"s1" }', True),
        ('{"sku":"s1","amount":100,"items":[1,2],"o":{"a":1,"b":2},"note":null}', False),
        ('{"sku":"s1","amount":100,"items":[2,1],"o":{"a":1,"b":2}}', False),
    ],
    ids=["other order and white space", "null is not missing", "arrays keep their order"],
)
def test_b14_json_counts_by_content(second, same):
    assert (of(OBJECT) == of_json(second)) is same


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("9007199254740993", "9007199254740992"),
        ("1", "true"),
        ("0", "false"),
        ('"1"', "1"),
        ("100", "1e2"),
        ("1", "1.0"),
        ("0.1", "0.10000000000000001"),
        ("1e400", "1e401"),
        ("0", "-0"),
        ("NaN", '"NaN"'),
        ("9" * 5000, "9" * 4999 + "8"),
    ],
    ids=lambda text: text[:20],
)
def test_b17_numbers_keep_their_exact_text(first, second):
    assert of_json(f'{{"amount":{first}}}') != of_json(f'{{"amount":{second}}}')


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("null", '"null"'),
        ("null", ""),
        ("[]", "{}"),
        ('{"n":"1"}', "1"),
        ('["n","1"]', "1"),
        ('{"o":["a",1]}', '{"a":1}'),
        ('["o","a",1]', '{"a":1}'),
        ('["a",1]', '{"a":1}'),
        ('{"a":"b","c":"d"}', '{"a":["b","c","d"]}'),
        ("[[1],2]", "[1,[2]]"),
        ('{"a":1}', '{"a":1,"a":1}'),
        ('{"a":1,"a":2}', '{"a":2,"a":1}'),
        (r'"\ud800"', r'"\ud801"'),
        (r'"\ud800"', r'"\ufffd"'),
        (r'"a\u0000b"', '"ab"'),
        (r'"\u00e9"', r'"e\u0301"'),
        ('{"A":1}', '{"a":1}'),
    ],
)
def test_b18_different_documents_are_never_confused(first, second):
    assert of_json(first) != of_json(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (r'"\u00e9"', '"é"'),
        (r'"\ud83d\ude00"', '"😀"'),
        (r'"\/"', '"/"'),
        ('{"a":1,"b":0,"a":2}', '{"b":0,"a":1,"a":2}'),
        ("1", " 1\r\n"),
    ],
)
def test_two_spellings_of_one_document_are_the_same(first, second):
    assert of_json(first) == of_json(second)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"a":1', id="cut"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte order mark"),
        pytest.param(b'"\xff"', id="no UTF-8"),
        pytest.param('{"a":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b"'a'", id="single quotes"),
        pytest.param(b"[1]x", id="text behind"),
        pytest.param(b"[" * 100_000, id="deep and open"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="deep"),
        pytest.param(b'{"a":' * 5_000 + b"1" + b"}" * 5_000, id="deep objects"),
    ],
)
def test_json_that_does_not_parse_counts_by_its_bytes(body):
    assert of(body) == of(body) != of(body + b" ")


@pytest.mark.parametrize(("depth", "same"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
@pytest.mark.parametrize(("left", "right"), [("[", "]"), ('{"[":', "}")], ids=["list", "object"])
def test_how_deep_json_counts_by_content_does_not_depend_on_the_stack(left, right, depth, same):
    compact = left * depth + '"[{\\"["' + right * depth
    assert (of_json(compact) == of_json(f" {compact}")) is same


def test_brackets_side_by_side_are_not_deep():
    text = json.dumps([["[{", {}]] * MAX_DEPTH)
    assert of_json(text) == of_json(f" {text}")


@pytest.mark.parametrize(
    ("limit", "same"), [(len(OBJECT) + 1, True), (len(OBJECT), False), (None, True)]
)
def test_json_too_large_for_memory_counts_by_its_bytes(limit, same):
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=limit):
        assert (of(OBJECT) == of(OBJECT + b" ")) is same


@pytest.mark.parametrize(
    ("content_type", "same"),
    [
        ("application/json; charset=utf-8", True),
        ("application/problem+json", True),
        ("application/json; charset=latin-1", False),
        ("application/json-seq", False),
        ("text/json", False),
    ],
)
def test_only_json_in_utf_8_counts_by_content(content_type, same):
    assert (of(b"[1]", content_type) == of(b"[ 1]", content_type)) is same


# Forms and the query


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (b"a=1&b=2", b"b=2&a=1", True),
        (b"a=1&b=2&a=3", b"a=1&a=3&b=2", True),
        (b"a=1&a=2", b"a=2&a=1", False),
        (b"a=%C3%A9", "a=é".encode(), True),
        (b"a=b+c", b"a=b%20c", True),
        (b"a=", b"a", True),
        (b"a=", b"", False),
        (b"a=1", b"a=2", False),
        (b"a=%FF", b"a=%FE", False),
        (b"a=%FF", b"a=%EF%BF%BD", False),
        (b"a=\xff", b"a=\xfe", False),
        (b"a=1%26b=2", b"a=1&b=2", False),
        (b"a=1;b=2", b"a=1&b=2", False),
        (b"a=%00", b"a=", False),
    ],
)
def test_forms_count_by_field_values(first, second, same):
    assert (of_form(first) == of_form(second)) is same


def test_a_form_with_more_fields_than_django_takes_counts_by_its_bytes():
    with override_settings(DATA_UPLOAD_MAX_NUMBER_FIELDS=2):
        assert of_form(b"a=1&b=2") == of_form(b"b=2&a=1")
        assert of_form(b"a=1&b=2&c=3") != of_form(b"b=2&a=1&c=3")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("?a=1&b=2", "?b=2&a=1", True),
        ("?a=1&a=2", "?a=2&a=1", False),
        ("?dry_run=1", "", False),
        ("?a", "?a=", True),
        ("?a=%FF", "?a=%FE", False),
        ("?a=%C3%A9", "?a=é", True),
    ],
)
def test_b16_the_query_counts_by_its_values(first, second, same):
    both = (of(OBJECT, path=f"/orders/{query}") for query in (first, second))
    assert (next(both) == next(both)) is same


def test_b16_a_query_with_too_many_fields_still_counts():
    with override_settings(DATA_UPLOAD_MAX_NUMBER_FIELDS=1):
        assert of(path="/?a=1&b=2") == of(path="/?a=1&b=2") != of(path="/?a=1&b=3")


# The rest of the head


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"method": "POST"}, {"method": "PATCH"}),
        ({"target": "/orders/"}, {"target": "/refunds/"}),
        ({"target": "/orders/1/"}, {"target": "/orders/2/"}),
        ({"target": "/7/"}, {"target": named_target(("7",), {})}),
        ({"content_type": ""}, {"content_type": "text/plain"}),
        ({"content_type": "text/plain"}, {"content_type": "text/html"}),
        ({"content_type": "text/plain"}, {"content_type": "text/plain; charset=utf-8"}),
        (
            {"content_type": "text/plain; charset=latin-1"},
            {"content_type": "text/plain; charset=utf-8"},
        ),
        (
            {"content_type": "application/x+json; version=1"},
            {"content_type": "application/x+json; version=2"},
        ),
        ({}, {"HTTP_CONTENT_ENCODING": "gzip"}),
        ({"HTTP_CONTENT_ENCODING": "br"}, {"HTTP_CONTENT_ENCODING": "gzip"}),
    ],
)
def test_b16_what_else_makes_another_request(first, second):
    assert of(OBJECT, **first) != of(OBJECT, **second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"content_type": "text/plain"}, {"content_type": "Text/PLAIN"}),
        (
            {"content_type": "text/plain; charset=utf-8"},
            {"content_type": 'text/plain;CHARSET="UTF-8"'},
        ),
        ({}, {"HTTP_CONTENT_ENCODING": "identity"}),
        ({"HTTP_CONTENT_ENCODING": "gzip"}, {"HTTP_CONTENT_ENCODING": " GZIP "}),
        ({}, {"HTTP_ACCEPT": "text/html"}),
        ({}, {"HTTP_AUTHORIZATION": "Token other"}),
        ({}, {"HTTP_DEMO_DELAY": "1.5"}),
    ],
)
def test_what_makes_no_other_request(first, second):
    assert of(OBJECT, **first) == of(OBJECT, **second)


def test_compressed_json_counts_by_its_bytes():
    assert of(b"[1]", HTTP_CONTENT_ENCODING="x") != of(b"[ 1]", HTTP_CONTENT_ENCODING="x")


def test_content_of_one_kind_is_never_content_of_another():
    canonical = b'[["a","1"]]'
    assert len({of(canonical, URLENCODED), of_form(b"a=1"), of(canonical, "text/plain")}) == 3


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "[[],[]]"),
        ((), {"pk": 7}, '[[],[["pk","7"]]]'),
        ((), {"b": "é", "a": 1}, '[[],[["a","1"],["b","\\u00e9"]]]'),
        (("7", 8), {}, '[["7","8"],[]]'),
    ],
)
def test_a_named_target_is_the_arguments_and_no_path(args, kwargs, text):
    assert named_target(args, kwargs) == text


# Multipart


@pytest.mark.parametrize("file", [SMALL, LARGE], ids=["in memory", "on disk"])
def test_b15_a_new_boundary_is_the_same_request(file):
    assert of(**multipart(SKU, file)) == of(**multipart(SKU, file, boundary="BBB"))


def test_b15_the_last_byte_of_a_file_counts():
    changed = part("f", b"x" * (3 * MIB - 1) + b"y", filename="f.bin")
    assert of(**multipart(SKU, LARGE)) != of(**multipart(SKU, changed))


def test_b15_the_view_reads_the_whole_file_after_the_fingerprint():
    request = post(**multipart(SKU, LARGE))
    fingerprint(request, target="/orders/")
    assert (request.POST["sku"], len(request.FILES["f"].read())) == ("s1", 3145728)
    request.close()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([SKU], [part("sku", b"s2")], False),
        ([SKU, SMALL], [SMALL, SKU], True),
        ([part("a", b"1"), part("b", b"2")], [part("b", b"2"), part("a", b"1")], True),
        ([part("a", b"1"), part("a", b"2")], [part("a", b"2"), part("a", b"1")], False),
        ([part("a", b"1")], [part("a", b"1", filename="a")], False),
        ([part("a", b"1", filename="x")], [part("a", b"1", filename="y")], False),
        ([part("a", b"1", filename="x")], [part("b", b"1", filename="x")], False),
        ([part("a", b"1", filename="à")], [part("a", b"1", filename="á")], False),
        ([part("a", b"1", filename="\u0100")], [part("a", b"1", filename="\u0101")], False),
        ([part("à", b"1")], [part("á", b"1")], False),
        ([part("a", b"\xff")], [part("a", b"\xfe")], False),
        ([part("a", b"\xff")], [part("a", "\ufffd".encode())], False),
        ([part("a", b"1")], [part("a", b"1"), part("a")], False),
        (
            [part("a", b"YQ==", headers=b"Content-Transfer-Encoding: base64\r\n")],
            [part("a", b"a")],
            True,
        ),
        ([SKU, part("f", filename="")], [SKU, part("f")], True),
    ],
)
def test_multipart_counts_by_fields_names_and_files(first, second, same):
    assert (of(**multipart(*first)) == of(**multipart(*second))) is same


UNPARSED = [
    pytest.param(b"--AAA\r\nnothing", "multipart/form-data", id="no boundary"),
    pytest.param(b"--AAA\r\nx", "multipart/form-data; boundary=\x7f", id="bad boundary"),
    pytest.param(
        b"--AAA\r\n" + part("f", b"cut", filename="f") + b"\r\n--AAA",
        "multipart/form-data; boundary=AAA",
        id="cut after a file",
    ),
    pytest.param(
        b"--AAA\r\n"
        + part("f", b"!", filename="f", headers=b"Content-Transfer-Encoding: base64\r\n")
        + b"\r\n--AAA--",
        "multipart/form-data; boundary=AAA",
        id="bad base64",
    ),
    pytest.param(
        multipart(SMALL)["body"], "multipart/form-data; boundary=AAA; charset=zip", id="no charset"
    ),
]


@pytest.mark.parametrize(("body", "content_type"), UNPARSED)
def test_multipart_that_does_not_parse_counts_by_its_bytes(body, content_type):
    assert of(body, content_type) == of(body, content_type) != of(b"\r\n" + body, content_type)


@pytest.mark.parametrize(
    "limit",
    [
        {"DATA_UPLOAD_MAX_NUMBER_FIELDS": 0},
        {"DATA_UPLOAD_MAX_NUMBER_FILES": 0},
        {"DATA_UPLOAD_MAX_MEMORY_SIZE": 1},
    ],
    ids=lambda limit: next(iter(limit)),
)
def test_multipart_over_a_limit_of_django_counts_by_its_bytes(limit):
    fields = [part(name, b"12345") for name in "abc"] + [SMALL]
    with override_settings(**limit):
        assert of(**multipart(*fields)) != of(**multipart(*fields, boundary="BBB"))


def test_the_media_type_of_multipart_ignores_case():
    body = multipart(SKU, SMALL)["body"]
    both = (
        of(body, f"{name}; boundary=AAA") for name in ("multipart/form-data", "Multipart/FORM-data")
    )
    assert next(both) == next(both)


NAMES = ["f.bin", "à.bin", "a/b.txt", "a&amp;b.txt", "n" * 300 + ".txt"]


@pytest.mark.parametrize("limit", [0, 10 * MIB], ids=["files on disk", "files in memory"])
@pytest.mark.parametrize("filename", NAMES, ids=lambda name: name[:20])
def test_a_form_that_a_middleware_has_parsed_has_the_same_fingerprint(filename, limit):
    parts = multipart(
        SKU, part("é", "ü".encode()), SKU, part("f", b"1\x00" * 99, filename=filename)
    )
    parsed = APIRequestFactory().generic("POST", "/orders/", parts["body"], parts["content_type"])
    with override_settings(FILE_UPLOAD_MAX_MEMORY_SIZE=limit):
        parsed.FILES["f"].read(7)
        keep_body(parsed)
        assert fingerprint(parsed, target="/orders/") == of(**parts)
    assert parsed.FILES["f"].tell() == 7
    parsed.close()


# Memory


class Lazy(io.RawIOBase):
    """A head, `middle` zeros and a tail, which never exist as a whole."""

    def __init__(self, head: bytes = b"", middle: int = 0, tail: bytes = b"") -> None:
        self.head, self.middle, self.tail = head, middle, tail
        self.length = len(head) + middle + len(tail)

    def read(self, size: int = -1, /) -> bytes:
        if self.head:
            data, self.head = self.head[:size], self.head[size:]
        elif self.middle:
            data = bytes(min(size, self.middle))
            self.middle -= len(data)
        else:
            data, self.tail = self.tail[:size], self.tail[size:]
        return data


@pytest.mark.parametrize(
    ("source", "content_type"),
    [
        (Lazy(middle=32 * MIB), "application/octet-stream"),
        (Lazy(middle=32 * MIB), "application/json"),
        (
            Lazy(b"--AAA\r\n" + part("f", filename="f"), 32 * MIB, b"\r\n--AAA--\r\n"),
            "multipart/form-data; boundary=AAA",
        ),
    ],
    ids=["octets", "json", "multipart"],
)
def test_a_large_upload_takes_constant_memory(source, content_type):
    environ = {"REQUEST_METHOD": "POST", "CONTENT_TYPE": content_type, "wsgi.input": source}
    request = WSGIRequest(environ | {"CONTENT_LENGTH": str(source.length)})
    keep_body(request)
    tracemalloc.start()
    fingerprint(request, target="/")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(map(len, iter(lambda: request.read(MIB), b""))) == source.length
    # Twice Django's 2.5 MiB in memory, for the moment when the spool moves to disk.
    assert peak < 9 * MIB


# Properties

DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
TYPES = st.sampled_from(
    [
        "application/json",
        "application/x+json",
        URLENCODED,
        "multipart/form-data; boundary=AAA",
        "multipart/form-data",
        "text/plain; charset=\xff",
        "",
    ]
)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(value)}
    return [reordered(each) for each in value] if isinstance(value, list) else value


@given(DOCUMENTS)
def test_a_document_in_another_order_and_layout_is_the_same(document):
    assert of_json(json.dumps(document)) == of_json(json.dumps(reordered(document), indent=3))


@given(st.lists(DOCUMENTS, min_size=2, max_size=4))
def test_two_documents_are_the_same_exactly_if_their_texts_are(documents):
    for one, two in combinations(documents, 2):
        texts = [json.dumps(each, sort_keys=True) for each in (one, two)]
        assert (of_json(texts[0]) == of_json(texts[1])) is (texts[0] == texts[1])


@given(st.binary(), TYPES | st.text(st.characters(max_codepoint=0xFF)))
def test_any_bytes_of_any_type_have_a_fingerprint_and_stay_for_the_view(body, content_type):
    request = post(body, content_type)
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(request, target="/"))
    assert request.body == body


@given(
    st.lists(
        st.sampled_from(
            [b"--AAA", b"--", b"\r\n", part("a", b"1"), part("f", b"2", filename="f"), b"x" * 2000]
        )
    )
)
def test_any_heap_of_parts_has_a_fingerprint_and_stays_for_the_view(pieces):
    request = post(b"".join(pieces), "multipart/form-data; boundary=AAA")
    assert re.fullmatch("[0-9a-f]{64}", fingerprint(request, target="/"))
    assert request.body == b"".join(pieces)
