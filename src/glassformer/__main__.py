"""`python -m glassformer`: the command line."""

from glassformer.cli.app import main

main()
