"""The search: a whole key, as it was pasted, or a whole account."""

from __future__ import annotations

import pytest

from idempotency_app.models import IdempotencyKey
from tests.factories import make_key

from .test_pages import text

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("term", ["key-7", ' "key-7"\n', "“key-7”", "\u200bkey-7"])
def test_a_key_is_found_as_it_was_pasted(admin_client, term):
    make_key(key="key-7", endpoint="POST found/")
    make_key(key="key-70", endpoint="POST other/")
    got = text(admin_client, q=term)
    assert "POST found/" in got
    assert "POST other/" not in got


def test_an_account_is_found_whole_and_a_key_of_that_name_hides_nothing(admin_client):
    make_key(account="tenant:acme", endpoint="POST acme/")
    make_key(account="tenant:acme2", endpoint="POST acme2/")
    assert "POST acme2/" not in text(admin_client, q="tenant:acme")
    make_key(key="tenant:acme", account="tenant:evil", endpoint="POST evil/")
    got = text(admin_client, q="tenant:acme")
    assert "POST acme/" in got
    assert "POST evil/" in got


def test_empty_lists_say_why(admin_client):
    assert "There are no keys yet" in text(admin_client)
    assert "No key is in this filter." in text(admin_client, state="stale")
    assert "No key and no account is exactly “nope”." in text(admin_client, q="nope")
    assert "No key and no account" in text(admin_client, q="n" * 300)


@pytest.mark.parametrize("key", ["key-7;", "'key-7'", "`key-7`"])
def test_a_key_that_ends_in_what_is_trimmed_is_found_too(admin_client, key):
    make_key(key=key, endpoint="POST found/")
    assert "POST found/" in text(admin_client, q=key)


def many_of_one_key(**newest: object) -> None:
    first = make_key(key="order-1", account="t:first", complete=True)
    copies = []
    for n in range(110):
        copy = IdempotencyKey.objects.get(pk=first.pk)
        copy.pk, copy.account = None, f"t:{n}"
        copies.append(copy)
    IdempotencyKey.objects.bulk_create(copies)
    make_key(key="order-1", account="t:newest", **newest)


def test_a_key_that_many_accounts_use_loses_none_of_them(admin_client):
    many_of_one_key(stale=True)
    assert "112 keys" in text(admin_client, q="order-1")
    assert "t:newest" in text(admin_client, q="order-1", state="stale")


def test_a_term_of_blanks_and_a_nul_find_no_error(admin_client):
    make_key(endpoint="POST found/")
    assert "POST found/" in text(admin_client, q=" \u00a0 ")
    text(admin_client, q="a\x00b")
