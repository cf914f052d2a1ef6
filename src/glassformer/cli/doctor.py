"""`glassformer doctor`: check whether this installation works, and how fast."""

import typer

from glassformer.cli import options as o

WIDTH = 78  # columns of the tables


def doctor(device: o.Device = "cpu") -> None:
    """Check versions, processor, compiled code, bundled models and extras.

    It also translates for two seconds, to measure the speed. With --device, the torch model on that
    device is compared with the CPU. The exit code is 1 if a check fails.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from glassformer.doctor import examine
    from glassformer.progress import columns

    console = Console(width=columns(WIDTH), highlight=False)
    wrong: list[str] = []
    for section in examine(device):
        table = Table(
            box=None,
            show_header=False,
            title=Text(section.title, style="bold"),
            title_justify="left",
            pad_edge=False,
        )
        table.add_column(min_width=13)
        table.add_column(overflow="fold")
        for name, found, fine in section.rows:
            table.add_row(Text(name), Text(found if fine else f"{found}  ← wrong"))
        console.print(table)
        console.print()
        if not section.is_fine:
            wrong.append(section.title)
    console.print("all is well" if not wrong else f"failed: {', '.join(wrong)}")
    if wrong:
        raise typer.Exit(1)
