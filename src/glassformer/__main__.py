"""`python -m glassformer`: the command line."""

from glassformer.cli.app import main

if __name__ == "__main__":  # not in the processes that `bench decode` starts
    main()
