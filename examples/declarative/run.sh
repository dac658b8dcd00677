#!/bin/sh
# ./run.sh LAKE WORK: the tables of LAKE (which has journal_raw/ in it), kept in the folder WORK.
#
# Needs: pip install 'quinque[spark]' 'pyspark[pipelines]'
# Tables must be known from one run to the next, so the catalog is Hive's with its small database
# (Derby, which Spark brings along): one process at a time.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 LAKE WORK" >&2; exit 2; }

project=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2/project"
QUINQUE_LAKE=$(cd "$1" && pwd)
work=$(cd "$2" && pwd)
export QUINQUE_LAKE

cp -R "$project/transformations" "$work/project/"
sed "s|STORAGE|file://$work/storage|" "$project/spark-pipeline.yml" >"$work/project/spark-pipeline.yml"
cd "$work" # Derby's database lies where Spark is started
exec quinque spark spark-pipelines run --spec "$work/project/spark-pipeline.yml" \
  --conf spark.sql.catalogImplementation=hive \
  --conf spark.sql.warehouse.dir="file://$work/warehouse" \
  --conf spark.sql.session.timeZone=UTC \
  --conf spark.sql.shuffle.partitions=4
