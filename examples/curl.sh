#!/bin/sh
# Submits a turn, is cut off in the middle of the answer, and goes on where it was. Then it stops a long one.
#
#   sh examples/curl.sh
#
# TURNSTREAM_URL is the gateway; TURNSTREAM_KEY is sent to one that asks for keys.
set -eu
url=${TURNSTREAM_URL:-http://127.0.0.1:4010}
turn=curl-$(date +%s)-$$
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT

# Through a pipe: what stands on the command line can be seen by every user of the machine.
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

echo '# Stream, and be cut off after two seconds'
ask -N --max-time 2 "$url/xapi/turns/$turn/stream" > "$seen" 2> /dev/null || true
cat "$seen"

echo '# Resume after the last frame that was seen'
last=$(sed -n 's/^id: //p' "$seen" | tail -n 1)
ask -f -N "$url/xapi/turns/$turn/stream" -H "last-event-id: ${last:-0-0}"

echo '# Stop a long one'
submit "$turn-long" scripted/long
ask -f -w '\n' -X POST "$url/api/v2/runs/$turn-long/cancel"
ask -f -N "$url/xapi/turns/$turn-long/stream" | tail -n 2
