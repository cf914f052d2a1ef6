"""Score cards as HTML for notebooks. Every text is escaped: none of it can become markup."""

from html import escape

from glassformer.evaluate.card import Sheet, Table, cell_text


def sheet_html(sheet: Sheet) -> str:
    """Return a sheet as HTML without styles or scripts: its tables, then what it quotes."""
    quoted = (
        f"<li>{escape(name)}: <code>{escape(text)}</code></li>"
        for name, text in sheet.quoted.items()
    )
    notes = (f"<p>{escape(note)}</p>" for note in sheet.notes)
    items = "".join(quoted)
    details = f"<details><summary>signatures and checksums</summary><ul>{items}</ul></details>"
    parts = [f"<h4>{escape(sheet.title)}</h4>", *map(_table, sheet.tables), *notes]
    return "\n".join([*parts, details] if items else parts)


def _table(table: Table) -> str:
    sides = ["left" if side == "l" else "right" for side in table.alignment]
    rows = [_row("td", [cell_text(cell) for cell in row], sides) for row in table.rows]
    head = f"<thead>{_row('th', table.columns, sides)}</thead>" if any(table.columns) else ""
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return f"<table>{caption}{head}<tbody>{''.join(rows)}</tbody></table>"


def _row(cell: str, texts: list[str], sides: list[str]) -> str:
    pairs = zip(texts, sides, strict=True)
    cells = (f'<{cell} style="text-align: {side}">{escape(t)}</{cell}>' for t, side in pairs)
    return f"<tr>{''.join(cells)}</tr>"
