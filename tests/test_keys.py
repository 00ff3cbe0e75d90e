from __future__ import annotations

import re
import traceback

import http_sf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idempotency_app.exceptions import KeyInvalid
from idempotency_app.keys import HEADER, mask, parse_key

VISIBLE = [chr(code) for code in range(0x21, 0x7F)]
KEYS = st.text(st.sampled_from(VISIBLE), min_size=1, max_size=255)
LATIN_1 = st.text(st.characters(max_codepoint=0xFF))


def test_the_header_has_its_name_from_the_draft():
    assert HEADER == "Idempotency-Key"


@pytest.mark.parametrize(
    ("header", "key"),
    [
        pytest.param("k-41", "k-41", id="bare"),
        pytest.param('"k-41"', "k-41", id="quoted"),
        pytest.param(" k-41 ", "k-41", id="spaces around"),
        pytest.param('\t "k-41" \t', "k-41", id="tabs around, quoted"),
        pytest.param(r'"a\"b"', 'a"b', id="escaped quote"),
        pytest.param(r'"a\\b"', "a\\b", id="escaped backslash"),
        pytest.param('"a,b"', "a,b", id="comma, quoted"),
        pytest.param('"k;v=1"', "k;v=1", id="no parameter, for it is inside"),
        pytest.param("k;v=1", "k;v=1", id="no parameter, for it is bare"),
        pytest.param("123", "123", id="bare, no integer"),
        pytest.param("007", "007", id="bare, no integer: zeros stay"),
        pytest.param("?1", "?1", id="bare, no boolean"),
        pytest.param(":YQ==:", ":YQ==:", id="bare, no byte sequence"),
        pytest.param("@1659578233", "@1659578233", id="bare, no date"),
        pytest.param("'k'", "'k'", id="single quotes are part of the key"),
        pytest.param("K", "K", id="case stays"),
        pytest.param("a%20b", "a%20b", id="percent signs stay"),
    ],
)
def test_b41_quoted_and_bare_keys(header, key):
    assert parse_key(header) == key


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("", id="empty"),
        pytest.param(" \t ", id="spaces only"),
        pytest.param('""', id="empty, quoted"),
        pytest.param('"', id="a quote"),
        pytest.param('"k-41', id="no closing quote"),
        pytest.param('k-41"', id="no opening quote"),
        pytest.param('k"41', id="quote inside"),
        pytest.param(r"k\41", id="backslash in a bare key"),
        pytest.param(r'"k\41"', id="backslash before a digit"),
        pytest.param('"k-41\\"', id="closing quote escaped"),
        pytest.param('"k-41";v=1', id="parameter"),
        pytest.param('"k-41";v', id="parameter without value"),
        pytest.param('"k-41" ;v=1', id="space before a parameter"),
        pytest.param('"k-41"x', id="text after the quote"),
        pytest.param("k1,k2", id="two bare values"),
        pytest.param("k1, k2", id="two bare values, as joined by a server"),
        pytest.param('"k1","k2"', id="two quoted values"),
        pytest.param('"k1", "k2"', id="two quoted values, as joined by a server"),
        pytest.param('"k1", k2', id="quoted and bare"),
        pytest.param("k,", id="trailing comma"),
        pytest.param("a b", id="space inside"),
        pytest.param('"a b"', id="space inside, quoted"),
        pytest.param('" k"', id="space first, quoted"),
    ],
)
def test_b41_what_is_not_one_key_is_refused(header):
    with pytest.raises(KeyInvalid):
        parse_key(header)


@pytest.mark.parametrize("quote", ["", '"'], ids=["bare", "quoted"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a\x00b", id="NUL"),
        pytest.param("a\r\nX-Evil: 1", id="header injection"),
        pytest.param("a\n", id="newline at the end"),
        pytest.param("a\tb", id="tab inside"),
        pytest.param("a\x7fb", id="DEL"),
        pytest.param("a\x85b", id="C1 control"),
        pytest.param("clé".encode().decode("latin-1"), id="UTF-8 as WSGI reads it"),
        pytest.param("😀".encode().decode("latin-1"), id="emoji as WSGI reads it"),
        pytest.param("a\xa0b", id="no-break space"),
        pytest.param("ключ", id="outside of Latin-1"),
        pytest.param("\ud800", id="lone surrogate"),
    ],
)
def test_b40_nul_control_and_non_ascii_characters_are_refused(text, quote):
    with pytest.raises(KeyInvalid):
        parse_key(f"{quote}{text}{quote}")


@pytest.mark.parametrize("quote", ["", '"'], ids=["bare", "quoted"])
def test_b39_a_key_of_255_characters_is_taken_whole(quote):
    key = "k" * 254 + "x"
    assert parse_key(f"{quote}{key}{quote}") == key


@pytest.mark.parametrize("quote", ["", '"'], ids=["bare", "quoted"])
@pytest.mark.parametrize("length", [256, 8192])
def test_b39_a_longer_key_is_refused_and_never_cut(length, quote):
    with pytest.raises(KeyInvalid):
        parse_key(f"{quote}{'k' * length}{quote}")


def test_b39_the_length_is_counted_after_unquoting():
    assert parse_key('"' + r"\"" * 255 + '"') == '"' * 255


@pytest.mark.parametrize("header", ['"sesame\x07', "sesame\x07", '"sesame\x07"', "sesame,sesame"])
def test_b40_the_error_never_repeats_the_value(header):
    with pytest.raises(KeyInvalid) as caught:
        parse_key(header)
    assert "sesame" not in str(caught.value.detail)
    assert "\x07" not in "".join(traceback.format_exception_only(caught.value))


@given(st.text() | LATIN_1 | LATIN_1.map('"{}'.format) | LATIN_1.map('"{}"'.format))
def test_any_text_is_a_key_of_visible_ascii_or_key_invalid(header):
    try:
        key = parse_key(header)
    except KeyInvalid:
        return
    assert re.fullmatch(r"[\x21-\x7e]{1,255}", key)


@given(KEYS)
def test_a_key_that_http_sf_has_quoted_is_the_same_key(key):
    assert parse_key(http_sf.ser(key)) == key


@given(KEYS.filter(lambda key: not set(key) & set(',"\\')))
def test_a_bare_key_is_the_same_as_its_quoted_form(key):
    assert parse_key(key) == parse_key(http_sf.ser(key)) == key


@pytest.mark.parametrize(
    ("key", "shown"),
    [("8e03978e-40d5", "8e03…"), ("123456789", "1234…"), ("12345678", "…"), ("k", "…")],
)
def test_a_log_shows_four_characters_of_a_long_key_and_none_of_a_short_one(key, shown):
    assert mask(key) == shown
