#!/bin/sh
# The analyzer: offline, with the key and the shuffler's file. It never sees a name.
set -eu
: "${DATA:=data}" "${PRIVPAC:=privpac}"
exec $PRIVPAC protocol analyze "$DATA/public/run.json" "$DATA/shuffler/mixed.bin" --key "$DATA/analyzer/analyzer.key" \
  --out "$DATA/analyzer/rule.json" "$@"
