"""Advice: which layouts may suit a file and how it is read, predicted from probes, before any is measured."""
