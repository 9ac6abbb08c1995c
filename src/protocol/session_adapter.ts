import { Type, type Static } from 'typebox';
import { SegueError } from './errors.ts';

/** Strongest that an adapter may be applied; beyond it pictures fall apart. */
export const MAX_ADAPTER_SCALE = 1.5;
export const DEFAULT_ADAPTER_SCALE = 1;

/** An adapter of the model, and how strongly it is applied. Which ids there are is the model's business: what can't be used is refused with an error that lists them, not by the schema. */
export const SessionAdapter = Type.Object(
  {
    id: Type.String({ minLength: 1, maxLength: 64, description: 'One of the ids that /v1/models lists.' }),
    scale: Type.Optional(Type.Number({ description: `0 to ${MAX_ADAPTER_SCALE}; default ${DEFAULT_ADAPTER_SCALE}. 0 gives what the model gives without it.` })),
  },
  { additionalProperties: false, description: 'A style that the model was trained in besides its own. At most one at a time.' },
);
export type SessionAdapter = Static<typeof SessionAdapter>;

/** An adapter that is in force. */
export const AdapterInForce = Type.Object({ id: Type.String(), scale: Type.Number() });
export type AdapterInForce = Static<typeof AdapterInForce>;

/** An adapter as a model offers it. */
export const AdapterOffer = Type.Object({ id: Type.String(), title: Type.String() });
export type AdapterOffer = Static<typeof AdapterOffer>;

/** What a request says of the adapter: null takes it away, undefined says nothing. @throws {SegueError} `adapter_not_usable`. */
export function adapterWish(wish: SessionAdapter | null | undefined, offered: readonly Pick<AdapterOffer, 'id'>[]): AdapterInForce | null | undefined {
  return wish == null ? wish : adapterInForce(wish, offered);
}

/** @throws {SegueError} `adapter_not_usable`, naming what there is, for an id that the model lacks and a scale that is out of range. */
export function adapterInForce({ id, scale = DEFAULT_ADAPTER_SCALE }: SessionAdapter, offered: readonly Pick<AdapterOffer, 'id'>[]): AdapterInForce {
  const ids = offered.map((offer) => offer.id);
  const there = ids.length === 0 ? 'this model has none' : `this model has ${ids.join(', ')}`;
  if (!ids.includes(id)) throw new SegueError('adapter_not_usable', `no adapter ${id}; ${there}`, { param: 'adapter.id' });
  if (!(scale >= 0 && scale <= MAX_ADAPTER_SCALE)) throw new SegueError('adapter_not_usable', `the scale of an adapter is 0 to ${MAX_ADAPTER_SCALE}, got ${scale}; ${there}`, { param: 'adapter.scale' });
  return { id, scale };
}

/** Equal ids at equal scales; null: none. */
export function sameAdapter(a: AdapterInForce | null, b: AdapterInForce | null): boolean {
  return a?.id === b?.id && a?.scale === b?.scale;
}
