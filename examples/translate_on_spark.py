"""Translate a column of a Parquet table with Spark, by `mapInPandas`.

pip install pyspark pandas pyarrow
spark-submit examples/translate_on_spark.py reviews.parquet text reviews.fr.parquet

The column of translations is added to the table; rows keep their other columns. The model is
loaded once for each partition and uses one thread, as Spark starts a worker for each core.
"""

import sys
from collections.abc import Callable, Iterator

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

import glassformer as gf

BATCH = 2_000  # rows that a worker holds at a time


def translation(
    column: str, model: str = "en-fr"
) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """Return the function for `mapInPandas`; empty cells stay empty."""

    def translate(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        translator = gf.load(model, threads=1)
        for frame in frames:
            texts = frame[column].fillna("").astype(str).tolist()
            yield frame.assign(translation=translator.translate(texts))

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
