#!/bin/sh
# The shuffler: fetches everything, strips the names, mixes. It cannot open a message. Started again it gives the same.
set -eu
: "${DATA:=data}" "${PRIVPAC:=privpac}" "${COLLECTOR:=https://127.0.0.1:8765}"
exec $PRIVPAC protocol shuffle "$DATA/public/run.json" "$COLLECTOR" --out "$DATA/shuffler/mixed.bin" \
  --authority "$DATA/public/chain.pem" --operator-file "$DATA/shuffler/operator"
