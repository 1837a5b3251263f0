"""Planner mode: a model answers with plans, which are carried out here; optional, the loop knows no plan."""
