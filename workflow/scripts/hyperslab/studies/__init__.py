"""Studies: what a study file may say, how it is checked and expanded, and what each of its cells is."""
