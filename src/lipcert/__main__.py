"""`lipcert` and `python -m lipcert` are the command line; Ctrl-C while it is being loaded is one line too."""

import sys


def main() -> None:
    try:
        from lipcert.cli.signals import terminate_like_ctrl_c

        terminate_like_ctrl_c()
        from lipcert.cli.app import main as command_line
    except KeyboardInterrupt:
        sys.stderr.write("lipcert: interrupted\n")
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
