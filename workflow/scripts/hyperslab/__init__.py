"""Hyperslab: how should this array be stored, on these machines, for the way it is read?"""
