import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import sharp from 'sharp';
import { Type } from 'typebox';
import { SegueError } from '../../protocol/errors.ts';
import { FrameReceipt } from '../../protocol/frame_receipt.ts';
import type { PresentedFrame } from '../../sessions/PresentedFrames.ts';
import type { ApiContext } from '../ApiContext.ts';
import { BranchQuery, ERROR_RESPONSES, FramePath, PictureQuery } from '../route_schemas.ts';
import { TokenBucket } from '../TokenBucket.ts';

/** Per session: a timeline of thumbnails at once, then as fast as one can be looked through. */
const FRAME_RATE = { burst: 80, perSecond: 20 } as const;
const JPEG_QUALITY = 82;

/** Frames that were presented: what made them, and the pictures themselves, decoded again. */
export function frameRoutes(fastify: FastifyInstance, { registry, card, clock }: ApiContext): void {
  const app = fastify.withTypeProvider<TypeBoxTypeProvider>();
  const bucket = new TokenBucket(clock, FRAME_RATE);
  const { width, height } = card.format;
  const watch = { config: { access: { session: 'watch' } } } as const;
  const find = (id: string, media90k: number, branch: number | undefined): Promise<PresentedFrame> => {
    const waitMs = bucket.take(id);
    if (waitMs > 0) throw new SegueError('rate_limited', 'too many frames of this session', { retryAfterMs: waitMs });
    return registry.frames.find(id, media90k, branch);
  };

  app.get('/v1/sessions/:id/frames/:media90k/receipt', { ...watch, schema: { summary: 'What made a frame that was presented', tags: ['frames'], params: FramePath, querystring: BranchQuery, response: { 200: FrameReceipt, ...ERROR_RESPONSES } } }, async ({ params, query }) => {
    return registry.frames.receipt(await find(params.id, params.media90k, query.branch));
  });

  app.get(
    '/v1/sessions/:id/frames/:media90k',
    {
      ...watch,
      schema: {
        summary: 'A frame that was presented, decoded again',
        tags: ['frames'],
        params: FramePath,
        querystring: PictureQuery,
        response: { 200: Type.Unsafe<Buffer>({ type: 'string', format: 'binary', description: 'The picture: image/png or image/jpeg.' }), 304: Type.Null({ description: 'It is as it was.' }), ...ERROR_RESPONSES },
      },
    },
    async ({ params, query, headers }, reply) => {
      const { format = 'png', width: wanted = width } = query;
      const found = await find(params.id, params.media90k, query.branch);
      // What a position shows changes when its session goes back before it; so it is asked for again, and costs little where it is the same.
      const etag = `"${found.sha256.slice(0, 32)}-${found.frame.frameInChunk}-${wanted}-${format}"`;
      reply.header('etag', etag).header('cache-control', 'private, no-cache');
      if (headers['if-none-match'] === etag) return reply.code(304).send(null);
      const raw = sharp(await registry.frames.picture(found), { raw: { width, height, channels: 3 } });
      const sized = wanted === width ? raw : raw.resize({ width: wanted });
      const file = await (format === 'jpeg' ? sized.jpeg({ quality: JPEG_QUALITY }) : sized.png()).toBuffer();
      return reply.type(`image/${format}`).send(file);
    },
  );
}
