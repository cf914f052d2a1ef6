"""Looking inside: what attention does, beside what it should."""
