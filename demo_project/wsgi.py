"""What gunicorn serves."""

import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "demo_project.settings")

# The admin's style sheets, from the same process; on 127.0.0.1 nobody needs a web server.
application = StaticFilesHandler(get_wsgi_application())
