#!/bin/sh
# ./run.sh LAKE WORK: build the tables of LAKE, which contains journal_raw/, in the folder WORK.
#
# Needs, with the path of the clone: pip install ~/quinque'[spark]' 'pyspark[pipelines]'
# The catalog must remember tables between runs, so it is Hive's catalog with the Derby database of
# Spark. Only one process at a time can use it.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 LAKE WORK" >&2; exit 2; }

project=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2/project"
QUINQUE_LAKE=$(cd "$1" && pwd)
work=$(cd "$2" && pwd)
export QUINQUE_LAKE

cp -R "$project/transformations" "$work/project/"
sed "s|STORAGE|file://$work/storage|" "$project/spark-pipeline.yml" >"$work/project/spark-pipeline.yml"
cd "$work" # Derby creates its database in the current folder
exec quinque spark spark-pipelines run --spec "$work/project/spark-pipeline.yml" \
  --conf spark.sql.catalogImplementation=hive \
  --conf spark.sql.warehouse.dir="file://$work/warehouse" \
  --conf spark.sql.session.timeZone=UTC \
  --conf spark.sql.shuffle.partitions=4
