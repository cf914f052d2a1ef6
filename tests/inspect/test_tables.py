"""CSV of attention and of head statistics."""

import csv
import io

import pytest

from glassformer.inspect.statistics import head_statistics
from glassformer.inspect.tables import attention_csv, heads_csv
from glassformer.inspect.trace import trace_of


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_every_cell_of_every_head(untrained) -> None:
    trace = trace_of(untrained(), 'a "dog", tea', "le thé")
    rows = read(attention_csv(trace))
    assert len(rows) == sum(weights.numel() for weights in trace.attention.values())
    for row in rows:
        place = [int(row[name]) - 1 for name in ("layer", "head", "row", "column")]
        weight = trace.attention[row["kind"]][tuple(place)].item()
        assert float(row["attention"]) == pytest.approx(weight, abs=1e-6)
        one, other = trace.sides(row["kind"])
        assert row["row_token"] == one.tokens[place[2]]
        assert row["column_token"] == other.tokens[place[3]]


def test_csv_has_every_head_with_the_statistics_of_its_kind(untrained) -> None:
    found = head_statistics(untrained(), [("a dog", "le thé"), ("old tea", "un")])
    rows = read(heads_csv(found.heads))
    assert len(rows) == 12
    for row, head in zip(rows, found.heads, strict=True):
        assert (row["kind"], row["layer"], row["head"]) == (
            head.kind, str(head.layer), str(head.head),
        )  # fmt: skip
        assert float(row["entropy"]) == pytest.approx(head.entropy, rel=1e-5)
        assert (row["next"] == "") == (head.kind != "encoder")
        assert (row["mutual_information"] == "") == (head.kind != "cross")
        assert row["importance"] == row["importance_p"] == ""
