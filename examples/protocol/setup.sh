#!/bin/sh
# Once, before the run: keys, tokens, a certificate, and the manifest. In earnest each role makes its own part.
#   public/       run.json, chain.pem            everyone may read it
#   coordinator/  coordinator.key                signs run.json: devices take nothing else
#   collector/    tokens.txt, key.pem, operator  who may send, under which name
#   shuffler/     operator                       with which the collector gives everything to mix
#   analyzer/     analyzer.key                   the only key that opens messages
# coordinator.pub lies in public/ for the example; people get it, or its fingerprint, from the coordinator.
set -eu
umask 077
: "${DATA:=data}" "${PRIVPAC:=privpac}" "${PEOPLE:=people.txt}" "${N_MIN:=500}" "${N_MAX:=2000}"
mkdir -p "$DATA/public" "$DATA/coordinator" "$DATA/collector" "$DATA/shuffler" "$DATA/analyzer"
chmod 755 "$DATA" "$DATA/public"

$PRIVPAC protocol keys "$DATA/analyzer/analyzer"
$PRIVPAC protocol keys "$DATA/coordinator/coordinator" --coordinator
$PRIVPAC protocol tokens "$DATA/collector/tokens.txt" --names "$PEOPLE"
head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$DATA/collector/operator"
cp "$DATA/collector/operator" "$DATA/shuffler/operator"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=collector \
  -addext "subjectAltName=DNS:localhost,DNS:collector,IP:127.0.0.1" \
  -keyout "$DATA/collector/key.pem" -out "$DATA/public/chain.pem" 2>/dev/null
umask 022
$PRIVPAC protocol new "$DATA/public/run.json" --model shuffle --rule threshold --feature age=0:99 --label ill \
  --epsilon 1 --delta 1e-6 --n-min "$N_MIN" --n-max "$N_MAX" --gamma 20 --key "$DATA/analyzer/analyzer.pub" \
  --sign "$DATA/coordinator/coordinator.key"
cp "$DATA/coordinator/coordinator.pub" "$DATA/public/coordinator.pub"
chmod 644 "$DATA/public/chain.pem" "$DATA/public/coordinator.pub"
