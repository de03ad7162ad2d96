// Connections to a Capstan server, and its errors in words.
import { connect } from "node:net";
import { Code, ConnectError } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { ErrorInfoSchema } from "./gen/error_info_pb.js";

/**
 * A transport to `target`: http://host:port, https://host:port or unix:/path. Calls end after a
 * minute. A token is not sent in plain text to another host.
 */
export function transportTo(target, token) {
  const socket = target.startsWith("unix:") ? target.slice("unix:".length) : undefined;
  const baseUrl = socket ? "http://localhost" : target;
  const { protocol, hostname } = new URL(baseUrl);
  const isLocal = /^(127\.[0-9.]+|localhost|\[::1\])$/.test(hostname);
  if (token && protocol !== "https:" && !isLocal) {
    throw new Error("a token needs https://, or a server on this host");
  }
  const authenticate = (next) => (request) => {
    if (token) request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
  return createGrpcTransport({
    baseUrl,
    nodeOptions: socket ? { createConnection: () => connect(socket) } : {},
    interceptors: [authenticate],
    defaultTimeoutMs: 60_000,
  });
}

/** An error in one line: status, message and, if the server sent it, Capstan's reason. */
export function describe(error) {
  if (!(error instanceof ConnectError)) return error.message;
  const [info] = error.findDetails(ErrorInfoSchema);
  return `${Code[error.code]}: ${error.rawMessage}${info ? ` (${info.reason})` : ""}`;
}
