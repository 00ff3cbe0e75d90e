"""The search: a whole key or a whole account, each looked up in its index."""

from __future__ import annotations

from typing import Any

from django.db.models import Exists

from ..models import IdempotencyKey

LONGEST = 255  # bytes, of a key and of an account
MATCHES = 100  # of each, for a term that is both a key and an account

# Around what is pasted from a ticket or a log.
PASTED = " \"'`“”‘’«»,;"


def found(queryset: Any, text: str) -> Any:
    """Return the rows of the key or of the account; all rows where nothing is asked."""
    term = trimmed(text)
    if not term:
        return queryset
    if len(term.encode()) > LONGEST:
        return queryset.none()
    of_key = queryset.filter(key__in={term, text})
    of_account = _of_account(queryset, term)
    is_account = Exists(IdempotencyKey.objects.using(queryset.db).filter(account=term))
    keys = list(of_key.annotate(is_account=is_account).values_list("pk", "is_account")[:MATCHES])
    if not keys:
        return of_account
    if not keys[0][1]:
        return of_key
    # An OR of the two indexes would read the whole account.
    accounts = of_account.values_list("pk", flat=True)[:MATCHES]
    return queryset.filter(pk__in=[*(pk for pk, _ in keys), *accounts])


def trimmed(text: str) -> str:
    """Return the text without what pasting adds: invisible characters, blanks, quotes."""
    return "".join(char for char in text if char.isprintable()).strip(PASTED)


def _of_account(queryset: Any, account: str) -> Any:
    """Return the account's rows, read from the account's index.

    Said as a range, and in the account's order: of an equality PostgreSQL knows that any index
    of the dates has the order too, and walks the whole table to an account that is idle today.
    """
    order = ("-account", *queryset.query.order_by)
    return queryset.filter(account__gte=account, account__lte=account).order_by(*order)
