export const DOCTOR_HELP = `turnstream doctor: find out what is wrong, and how to put it right

Usage
  turnstream doctor [options of serve] [--json]
  turnstream doctor --endpoint <url> [--model <model>] [--json]

Without --endpoint it looks at what "turnstream serve" would be started with here: configuration, store,
port, keys, limits of the machine, providers, clock. It changes nothing, and may run beside a server. Give
it the options that the server gets. It reads every record of an embedded store that no process uses, which
takes seconds per gigabyte; meanwhile no server can open that store.

With --endpoint it asks a server that speaks Chat Completions for answers, streams, tool calls and
refusals, and says where they differ from what clients expect. That costs some thousand tokens.

Options
  --config <file>      settings as JSON (./turnstream.config.json, if it is there)
  --endpoint <url>     such as http://localhost:11434/v1; its key comes from OPENAI_API_KEY or
                       TURNSTREAM_KEY, or from the file that either with _FILE at its end names
  --model <model>      the model to ask (the first that the server lists)
  --json               one JSON object: {"ok","failed","warned","checks":[{"name","verdict","found",…}]}

Examples
  turnstream doctor
  turnstream doctor --store ./data
  turnstream doctor --store redis://localhost:6379
  turnstream doctor --endpoint http://localhost:11434/v1 --model qwen3

Exit codes
  0 nothing failed; there may be warnings · 1 something failed · 2 the command makes no sense
`
