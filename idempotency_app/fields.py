"""Columns that mean the same on every database: exact text, and times in UTC."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.utils import timezone

if TYPE_CHECKING:
    CharField = models.CharField[Any, Any]
    DateTimeField = models.DateTimeField[Any, Any]
else:
    CharField = models.CharField
    DateTimeField = models.DateTimeField


class ExactCharField(CharField):
    """Hold text that is compared byte for byte; `max_length` counts bytes in UTF-8.

    PostgreSQL and SQLite compare so by themselves. MySQL and MariaDB ignore case, accents
    and trailing blanks in text, so there the column is VARBINARY.
    """

    def db_type(self, connection: Any) -> str | None:
        """Return `varbinary` on MySQL and MariaDB, and what CharField says elsewhere."""
        if connection.vendor == "mysql":
            return f"varbinary({self.max_length})"
        return super().db_type(connection)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Decode what VARBINARY returns."""
        return value.decode() if isinstance(value, bytes) else value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Encode for VARBINARY, so that no collation takes part in a comparison."""
        value = super().get_db_prep_value(value, connection, prepared)
        if connection.vendor == "mysql" and isinstance(value, str):
            return value.encode()
        return value


class UTCDateTimeField(DateTimeField):
    """Hold a time in UTC, whatever `USE_TZ` and the database's `TIME_ZONE` are.

    The database's own clock writes these columns. Where its type has no time zone (SQLite,
    MySQL, MariaDB) Django takes what it reads for local time under `USE_TZ = False`.
    """

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Read the column as UTC; return what Django code expects under `USE_TZ`."""
        if value is None or connection.vendor == "postgresql":
            return value
        value = value.replace(tzinfo=datetime.timezone.utc)
        return value if settings.USE_TZ else timezone.make_naive(value)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        """Write an aware time, or a naive one in the current time zone, as UTC."""
        if not isinstance(value, datetime.datetime) or connection.vendor == "postgresql":
            return super().get_db_prep_value(value, connection, prepared)
        aware = timezone.make_aware(value) if timezone.is_naive(value) else value
        # Both databases take and sort this form; SQLite's own clock gives three decimals of it.
        return aware.astimezone(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")


class DatabaseNow(models.Func):
    """The database's clock at the start of the statement, in UTC: the only judge of age."""

    function = "STATEMENT_TIMESTAMP"
    output_field = UTCDateTimeField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """SQLite keeps times as text; its own `now` is in UTC, to the millisecond."""
        # Halved twice: by Func's template, then by the parameters.
        template = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f', 'now')"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Return UTC; CURRENT_TIMESTAMP would be in the session's time zone."""
        return self.as_sql(compiler, connection, template="UTC_TIMESTAMP(6)", **context)
