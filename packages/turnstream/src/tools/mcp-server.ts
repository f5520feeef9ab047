/** A local MCP server. It gets the variables of `env` and a few such as PATH, and nothing else of our environment. */
export interface McpProcess {
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** A remote MCP server, reached by Streamable HTTP. */
export interface McpEndpoint {
  readonly url: string
  readonly headers?: Readonly<Record<string, string>>
}

export type McpServer = McpProcess | McpEndpoint
