# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""webshop.py SOCKET: a Flask server. Visits are kept for ever; rendered pages are kept, too, but at most a hundred."""
import collections
import sys

from flask import Flask, render_template, request
from jinja2 import DictLoader

TEMPLATE = "<h1>item {{ number }}</h1>{% for other in related %}<p>see also {{ other * number }}</p>{% endfor %}"
VISITS = []
PAGES = collections.OrderedDict()
shop = Flask(__name__)
shop.jinja_loader = DictLoader({"item.html": TEMPLATE})


@shop.route("/item/<int:number>")
def item(number):
    VISITS.append([f"{request.remote_addr} saw item {number + i} at visit {len(VISITS)}" for i in range(20)])  # planted
    PAGES[number] = page = render_template("item.html", number=number, related=range(20))
    if len(PAGES) > 100:
        PAGES.popitem(last=False)
    return page


shop.run(host="unix://" + sys.argv[1], threaded=True)
