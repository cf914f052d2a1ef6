"""Properties across files: for every variant, against every oracle."""
