#!/bin/bash
# api.sh TELEPORT_FLEET [SECONDS [SEED]]   questions the API by its own document for so long (300), with schemathesis
# (tests/setup.sh api): ends with 1 if the document and the program disagree, or the program fails.
set -euo pipefail
server=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"
config=$PWD/schemathesis.toml
seconds=${2-300} seed=${3-1}
tool=${CARGO_TARGET_DIR:-$PWD/../target}/schemathesis/bin/schemathesis
if ! [ -x "$tool" ]; then
    echo "skipped: there is no schemathesis (tests/setup.sh api): the API is not questioned by its document" >&2
    exit 0
fi

place=$(mktemp -d)
export TELEPORT_FLEET_ADMIN_SOCKET=$place/admin.sock
# Its first line says where it listens.
exec {listens}< <(exec "$server" serve --config /dev/null --data "$place/data" --listen 127.0.0.1:0 --metrics 127.0.0.1:0 \
    --plain 2>"$place/log")
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid || :; rm -rf "$place"' EXIT
read -r -t 30 address _ <&"$listens" || { cat "$place/log" >&2; exit 1; }

# What the tool keeps of a run is nobody's.
cd "$place"
"$server" create -f - >"$place/created" <<'YAML'
kind: autoupdate_config
version: v1
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules: {regular: [{name: dev, days: ["*"], start_hour: 1}, {name: prod, days: ["*"], start_hour: 2}]}
---
kind: autoupdate_version
version: v1
spec: {agents: {start_version: 1.0.0, target_version: 1.1.0, schedule: regular, mode: enabled}}
YAML
token=$("$server" tokens create schemathesis --role admin 2>"$place/made" | head -n 1)

echo "schemathesis: $seconds s, seed $seed"
# Not its own token, and not what another listener answers.
if ! "$tool" --config-file "$config" run --no-color --continue-on-failure --max-time "$seconds" --seed "$seed" \
    --request-timeout 10 --exclude-operation-id removeToken --exclude-path /metrics --header "Authorization: Bearer $token" \
    --url "http://$address" "http://$address/v1/openapi.json" >"$place/found" 2>&1; then
    cat "$place/found" >&2
    exit 1
fi
grep -E '^ *[0-9]+ generated|Test cases' "$place/found" || tail -n 3 "$place/found"
kill -0 $pid
