"""The pages of people: a list that is searched, and a page for each person."""
