"""Translate a column of a Parquet table with Spark, by `mapInPandas`.

pip install pyspark pandas pyarrow
spark-submit examples/translate_on_spark.py reviews.parquet text reviews.fr.parquet

The column of translations is added to the table; rows keep their other columns. Each Python worker
loads the model once and uses one thread, as Spark starts a worker for each core.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import glassformer as gf

BATCH = 2_000  # rows that a worker holds at a time


@cache
def translator_of(model: str) -> Any:
    """Load the model once in a worker, for all of its tasks."""
    return gf.load(model, threads=1)


def translation(
    column: str, model: str = "en-fr"
) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """Return the function for `mapInPandas`; empty cells stay empty."""

    def translate(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            texts = frame[column].fillna("").astype(str).tolist()
            found = translator_of(model).translate(texts)
            yield frame.assign(translation=found)

    return translate


def translated(table: DataFrame, column: str, model: str = "en-fr") -> DataFrame:
    added = StructField("translation", StringType())
    return table.mapInPandas(translation(column, model), StructType([*table.schema, added]))


def main(source: str, column: str, target: str, model: str = "en-fr") -> None:
    spark = SparkSession.builder.appName("glassformer").getOrCreate()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", BATCH)
    translated(spark.read.parquet(source), column, model).write.parquet(target)


if __name__ == "__main__":
    main(*sys.argv[1:])
