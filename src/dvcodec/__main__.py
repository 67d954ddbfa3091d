"""The command line, as ``python -m dvcodec``."""

from dvcodec.cli import main

if __name__ == "__main__":
    main()
