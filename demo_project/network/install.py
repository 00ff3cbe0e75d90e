"""Bring the network's database to its first state."""

import os


def prepare() -> None:
    """Migrate, and begin anew where the demo does: they have to agree on what happened."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "demo_project.network.settings"

    import django
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connections

    from .. import requestlog

    django.setup()
    call_command("migrate", verbosity=0)
    if settings.DEMO_OWNS_DATABASE:
        call_command("flush", interactive=False, verbosity=0)
        requestlog.clear()
    # The workers are forked from here, and a connection must not be shared.
    connections.close_all()
