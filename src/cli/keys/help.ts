export const KEYS_HELP = `turnstream keys: make, list and revoke the keys of a gateway

Usage
  turnstream keys add <tenant> [name] [--file <file>] [--json]
  turnstream keys list [--file <file>] [--json]
  turnstream keys revoke <tenant> <name> [--file <file>] [--json]

A key belongs to a tenant, which has threads and turns of its own; tenants are made by their first key.
add prints a new key, this once: the file keeps its hash. A server takes keys from the file when it
starts, and again on SIGHUP, without a restart: streams of a revoked key end, and nothing else does.

Options
  --file <file>      the file of keys (TURNSTREAM_KEYS_FILE, or keysFile of turnstream.config.json)
  --json             one JSON object, or {"error"}

Examples
  turnstream keys add acme web --file turnstream.keys
  turnstream serve --host 0.0.0.0 --keys-file turnstream.keys

Exit codes
  0 done · 1 it could not be done, and the file is as it was · 2 the command makes no sense
`
