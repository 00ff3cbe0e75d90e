"""Bring the demo's database to its first state."""

from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, call_command
from django.db import transaction

from demo_project import requestlog
from demo_project.seed import seed
from demo_project.seed_keys import seed_keys


class Command(BaseCommand):
    """Seed the demo; run by `make demo` before each start."""

    help = (
        "Seed the demo's tenants, tokens, staff and keys. The demo's own SQLite file is emptied "
        "first; in a database that DATABASE_URL names only what is missing is added, and no "
        "keys are."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Empty what is ours, then seed."""
        if settings.DEMO_OWNS_DATABASE:
            call_command("flush", interactive=False, verbosity=0)
            requestlog.clear()
        with transaction.atomic():
            seed()
            if settings.DEMO_OWNS_DATABASE:
                seed_keys()
        self.stdout.write("Seeded: tenants acme and globex, their tokens, and the admin's users.")
        if settings.DEMO_OWNS_DATABASE:
            self.stdout.write(
                "Keys of acme: seed-complete, -in-flight, -stale, -unknown, -expired."
            )
