"""The admin pages: what `psql` and the commands show and change, for admins and owners in a browser.

`site.py` admits a request and finds its page; `visit.py` is what a page gets. Each folder that `navigation.py` names is
a page: `page.py` with `ROUTES`, whose functions take a `Visit` and return `visit.render(…)`, its templates, and its
statements. `parts.html` has what pages are made of. A page changes something only by `Visit.act`.
"""
