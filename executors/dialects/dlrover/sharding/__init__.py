"""Sharding of rows by index ranges: a ledger assigns the ranges, which workers share, and readers read them."""
