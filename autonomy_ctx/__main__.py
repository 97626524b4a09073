"""`python -m autonomy_ctx`: the command line, also where no script is installed."""

from autonomy_ctx.cli import main

if __name__ == "__main__":
    main()
