"""Validation: strict models, and mistakes as one line."""
