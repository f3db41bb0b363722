"""Several clients of one server: what each does (requests), and the case that times them (case)."""
