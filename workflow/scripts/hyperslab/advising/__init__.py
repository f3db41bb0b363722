"""Advice: which layouts may suit a file and how it is read, predicted from probes, before any is measured."""

from __future__ import annotations


class Refused(Exception):
    """What cannot be advised on; the text is one line with the fix."""
