#!/bin/sh
# The collector: HTTPS, a token for every name, on disk before it answers. Kill it as you like and start it again.
set -eu
: "${DATA:=data}" "${PRIVPAC:=privpac}" "${HOST:=127.0.0.1}" "${PORT:=8765}" "${RATE:=600}"
exec $PRIVPAC protocol collect "$DATA/public/run.json" --out "$DATA/collector/submissions" \
  --tokens "$DATA/collector/tokens.txt" --certificate "$DATA/public/chain.pem" --private-key "$DATA/collector/key.pem" \
  --host "$HOST" --port "$PORT" --rate "$RATE" --operator-file "$DATA/collector/operator"
