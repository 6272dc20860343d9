// SPDX-License-Identifier: Apache-2.0
// The official TypeScript clients behind one small face: the 1.x SDK, and the 2.x client in both of its modes.
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';

export const MODERN = '2026-07-28';

/// `kind`: "v1", "v2" (legacy protocol) or "v2-modern". `server`: {command, args, env} or {url, token}.
/// `elicit(message)` answers "accept", "decline" or "cancel"; without it the client has no such ability.
export async function connect(kind, server, elicit) {
  const info = { name: 'klab-test', version: '1.0.0' };
  const capabilities = elicit ? { elicitation: {} } : {};
  const first = kind === 'v1';
  const client = first
    ? new Client1(info, { capabilities })
    : new Client2(info, { capabilities, versionNegotiation: { mode: kind === 'v2-modern' ? { pin: MODERN } : 'legacy' } });
  if (elicit) {
    const answer = async request => {
      const action = await elicit(request.params);
      return action === 'accept' ? { action, content: { save: true } } : { action };
    };
    client.setRequestHandler(first ? ElicitRequestSchema : 'elicitation/create', answer);
  }
  let transport;
  if (server.url) {
    const options = { requestInit: { headers: { Authorization: `Bearer ${server.token}` } } };
    transport = new (first ? Http1 : Http2)(new URL(server.url), options);
  } else {
    transport = new (first ? Stdio1 : Stdio2)({ ...server, stderr: 'inherit' });
  }
  await client.connect(transport);
  return {
    client,
    version: () => (first ? undefined : client.getNegotiatedProtocolVersion?.()),
    tools: async () => (await client.listTools()).tools,
    /// Structured content of a tool's answer; `options`: {onprogress, signal, timeout}.
    async call(name, args, options = {}) {
      const limits = { timeout: 120000, resetTimeoutOnProgress: true, ...options };
      const result = first
        ? await client.callTool({ name, arguments: args }, undefined, limits)
        : await client.callTool({ name, arguments: args }, limits);
      return { error: result.isError === true, data: result.structuredContent, text: result.content?.[0]?.text };
    },
    close: () => client.close(),
  };
}
