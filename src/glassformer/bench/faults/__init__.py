"""`bench faults`: faults that are made on purpose, and what survives them."""
