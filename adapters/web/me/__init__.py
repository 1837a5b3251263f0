"""About me: what a person sees and changes of their own in a browser.

`site.py` admits a request; `sections.py` reads what each page shows, `acts.py` does what its forms ask for, by what the
chat's commands call. The pages need no script.
"""
