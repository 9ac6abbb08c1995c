import { existsSync } from 'node:fs';
import fastifyStatic from '@fastify/static';
import swagger from '@fastify/swagger';
import { TypeBoxValidatorCompiler } from '@fastify/type-provider-typebox';
import fastify, { LogController, type FastifyInstance, type FastifyReply } from 'fastify';
import { createId } from '../sessions/session_ids.ts';
import type { ApiContext } from './ApiContext.ts';
import type { Access, Principal } from './Authenticator.ts';
import { installCors } from './cors.ts';
import { collectMethods, installErrorHandlers, sendError, toSegueError } from './http_errors.ts';
import type { HttpListener } from './HttpListener.ts';
import { connectionRoutes } from './routes/connection_routes.ts';
import { demoEnabled, demoRoutes } from './routes/demo_routes.ts';
import { discoveryRoutes } from './routes/discovery_routes.ts';
import { eventRoutes } from './routes/event_routes.ts';
import { frameRoutes } from './routes/frame_routes.ts';
import { modelRoutes } from './routes/model_routes.ts';
import { operationsRoutes } from './routes/operations_routes.ts';
import { memoryRoutes } from './routes/memory_routes.ts';
import { sessionRoutes } from './routes/session_routes.ts';
import { shareRoutes } from './routes/share_routes.ts';
import { testRoutes } from './routes/test_routes.ts';

declare module 'fastify' {
  interface FastifyRequest {
    principal: Principal | null;
    receivedMs: number;
  }
  interface FastifyContextConfig {
    /** Who may call; a route that doesn't say is for nobody. */
    access?: Access;
    /** The token may come as `?token=`, for callers that can't set headers. */
    queryToken?: boolean;
  }
}

/** The largest body: an SDP offer is at most 64,000 characters, all else is small. */
export const BODY_LIMIT = 256 * 1024;
/** What the page may load and reach: itself, and nothing else. `blob:` and `worker-src` are for its audio worklet. */
const CONTENT_SECURITY_POLICY = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data: blob:; media-src 'self' blob: mediastream:; script-src 'self' blob:; worker-src 'self' blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";

/** The HTTP side: routes, access, errors, the page. Resolves when it serves on `listener`, which outlives it. */
export async function createHttpApp(context: ApiContext, listener: HttpListener): Promise<FastifyInstance> {
  const { config, authenticator, metrics, clock, log, webDirectory } = context;
  let serve = (): unknown => undefined;
  const app = fastify({
    loggerInstance: log,
    // Calls are measured, not logged: their addresses may carry tokens.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_LIMIT,
    // The listener owns the socket: its limits, what can't be read, and the end.
    serverFactory: (handler) => {
      serve = () => listener.serve(handler);
      return listener.server;
    },
    clientErrorHandler: () => undefined,
    genReqId: () => createId('call'),
    routerOptions: { maxParamLength: 128 },
    // Paths that can't be decoded never reach a route or the error handler.
    frameworkErrors: (error, _request, reply) => {
      void sendError(reply as unknown as FastifyReply, toSegueError(error));
    },
  }) as unknown as FastifyInstance;
  app.setValidatorCompiler(TypeBoxValidatorCompiler);
  // Bodies are JSON and nothing else: text/plain would otherwise be let in unparsed.
  app.removeContentTypeParser('text/plain');
  app.decorateRequest('principal', null);
  app.decorateRequest('receivedMs', 0);
  const methodsOf = collectMethods(app);
  installErrorHandlers(app, methodsOf);
  installCors(app, config.cors, methodsOf);

  app.addHook('onRequest', async (request) => {
    request.receivedMs = clock.now();
    if (request.is404) return;
    const { access, queryToken } = request.routeOptions.config;
    const { id } = (request.params ?? {}) as { readonly id?: string };
    const { token } = (request.query ?? {}) as { readonly token?: unknown };
    // Before the body is read, so that nobody without a right makes the server take one in. What has no `access` is the page.
    request.principal = await authenticator.authenticate(access ?? 'public', request.headers.authorization, id, queryToken === true && typeof token === 'string' ? token : null);
  });
  app.addHook('onResponse', async (request, reply) => {
    metrics.observeHttp(request.method, request.routeOptions.url ?? 'unknown', reply.statusCode, clock.now() - request.receivedMs);
  });

  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Segue', description: 'Realtime sessions with generative models.', version: '0.1.0', license: { name: 'Apache-2.0' } },
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', description: 'An API key, or the client token of one session.' } } },
      security: [{ bearer: [] }],
    },
  });
  await app.register(async (routes) => {
    sessionRoutes(routes, context);
    memoryRoutes(routes, context);
    frameRoutes(routes, context);
    shareRoutes(routes, context);
    connectionRoutes(routes, context);
    eventRoutes(routes, context);
    discoveryRoutes(routes, context);
    modelRoutes(routes, context);
    operationsRoutes(routes, context);
    if (demoEnabled(config)) demoRoutes(routes, context);
    if (config.test.enabled) testRoutes(routes, context);
  });
  if (existsSync(webDirectory)) {
    await app.register(fastifyStatic, {
      root: webDirectory,
      wildcard: true,
      dotfiles: 'ignore',
      setHeaders: (reply) => {
        reply.header('content-security-policy', CONTENT_SECURITY_POLICY);
        reply.header('x-content-type-options', 'nosniff');
        reply.header('referrer-policy', 'no-referrer');
      },
    });
  }
  await app.ready();
  serve();
  return app;
}
