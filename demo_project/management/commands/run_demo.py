"""Migrate, seed and serve the demo, with the card network beside it."""

from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, call_command
from django.db import connections

from demo_project.network import address
from demo_project.processes import Ended, Servers, check_free, servers

FOLDER = Path(__file__).resolve().parents[2]

WELCOME = """
  API      {url}/api/   transfers/, charges/, wires/, messages/, unprotected/charges/
           Authorization: Token alice-token    (tenant acme)
                          Token alice-token-2  (tenant acme, too)
                          Token bob-token      (tenant globex)
  counts   {url}/api/counts/
  admin    {url}/admin/   boss, support or viewer; the password is the name
  network  {network}/counts/?tenant=acme   a process of its own

  Send this twice; the second answer is the first one, replayed:

  curl -i {url}/api/transfers/ -H 'Authorization: Token alice-token' \
-H 'Idempotency-Key: order-1' -H 'Content-Type: application/json' \
-d '{{"amount_cents": 2500, "currency": "usd", "to": "savings"}}'

  Ctrl-C ends it.
"""


class Command(BaseCommand):
    """Run the demo in the foreground, on 127.0.0.1, at the port that PORT names."""

    help = (
        "Migrate, seed and serve the demo with gunicorn, in the foreground, until Ctrl-C. "
        "The card network runs beside it on the next port."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        """Start the network, prepare the database meanwhile, and serve."""
        try:
            # Before anything is emptied that another demo may be at work on.
            for port in (address.port() - 1, address.port()):
                check_free(address.HOST, port)
            with servers(FOLDER.parent) as running:
                self.serve(running)
        except Ended as error:
            raise CommandError(str(error)) from error

    def serve(self, running: Servers) -> None:
        """Start both servers and wait; raises Ended where one of them ends."""
        running.start(
            "card network",
            FOLDER / "network" / "gunicorn.conf.py",
            {"DJANGO_SETTINGS_MODULE": "demo_project.network.settings"},
        )
        call_command("migrate", verbosity=0)
        call_command("seed_demo", stdout=self.stdout)
        connections.close_all()
        running.wait_until_listening(address.HOST, address.port())
        self.stdout.write(WELCOME.format(url=_url(), network=address.url()))
        self.stdout.flush()
        running.start("demo", FOLDER / "gunicorn.conf.py", {})
        running.wait()


def _url() -> str:
    return f"http://{address.HOST}:{address.port() - 1}"
