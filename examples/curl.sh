#!/bin/sh
# Submits a turn, loses the connection in the middle of the answer and resumes. Then cancels a long turn.
#
#   sh examples/curl.sh
#
# TURNSTREAM_URL is the gateway, TURNSTREAM_KEY its key, if it requires one.
set -eu
url=${TURNSTREAM_URL:-http://127.0.0.1:4010}
turn=curl-$(date +%s)-$$
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT

# The key goes through a pipe: every user of the machine can see the command line.
ask() {
  if [ -n "${TURNSTREAM_KEY:-}" ]; then printf 'header = "authorization: Bearer %s"\n' "$TURNSTREAM_KEY"; fi |
    curl -sS -K - "$@"
}

submit() {
  ask -f -w '\n' "$url/api/v2/submit" -H 'content-type: application/json' \
    -d "{\"turnId\":\"$1\",\"prompt\":\"What is turnstream?\",\"model\":\"$2\"}"
}

echo '# Submit'
submit "$turn" scripted/answer

echo '# Stream, with a connection that breaks after two seconds'
ask -N --max-time 2 "$url/xapi/turns/$turn/stream" > "$seen" 2> /dev/null || true
cat "$seen"

echo '# Resume after the last id'
last=$(sed -n 's/^id: //p' "$seen" | tail -n 1)
ask -f -N "$url/xapi/turns/$turn/stream" -H "last-event-id: ${last:-0-0}"

echo '# Cancel a long turn'
submit "$turn-long" scripted/long
ask -f -w '\n' -X POST "$url/api/v2/runs/$turn-long/cancel"
ask -f -N "$url/xapi/turns/$turn-long/stream" | tail -n 2
