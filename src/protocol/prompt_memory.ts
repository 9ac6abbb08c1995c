/** What a session remembers of what it was asked: read, exported, imported, corrected. */
import { Type, type Static } from 'typebox';
import { NamedPlan } from './named_plan.ts';
import { AdapterInForce } from './session_adapter.ts';

export const MEMORY_VERSION = 1;
/** Turns kept one by one; beyond that the oldest are folded into one. */
export const MAX_TURNS = 256;
/** Characters kept of the plan and the narration of each turn. */
export const MAX_WORDS = 2_000;

const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) => Type.Union([schema, Type.Null()]);

export const MediaRange = Type.Object({ start90k: Count, end90k: Count }, { additionalProperties: false });
export type MediaRange = Static<typeof MediaRange>;

const TURN = {
  requestId: nullable(Type.String({ maxLength: 64, description: 'Null: the opening, which nobody asked for by a request.' })),
  prompt: nullable(Type.String({ maxLength: 1000 })),
  adapter: nullable(AdapterInForce),
  plan: Type.String({ maxLength: MAX_WORDS, description: 'The plan that the model made of it.' }),
  attributes: nullable(NamedPlan),
  narration: Type.String({ maxLength: MAX_WORDS }),
  at: Type.String({ maxLength: 40, description: 'Calendar time, ISO 8601.' }),
  presented90k: Count,
  epoch: Count,
  outcome: Type.Enum(['open', 'applied', 'superseded', 'failed', 'rewound'], { description: 'rewound: the story went back to before it, so that it is no part of it any more.' }),
  presented: nullable({ ...MediaRange, description: 'Media time in which it was presented. Null: it was not, or what was is no part of the story any more.' }),
  standsFor: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Turns that were folded into this one, itself included; its words are those of the last in force.' }),
  imported: Type.Boolean({ description: 'It was brought along: its media times are of another session.' }),
  edited: nullable(Type.String({ maxLength: 40, description: 'When its words were last corrected.' })),
};

export const TurnView = Type.Object({ turn: Count, ...TURN });

/** What the next words change. */
export const InForce = Type.Object(
  { prompt: TURN.prompt, attributes: TURN.attributes, adapter: TURN.adapter },
  { additionalProperties: false },
);
export type InForce = Static<typeof InForce>;

export const MemoryView = Type.Object(
  { version: Type.Literal(MEMORY_VERSION), session: Type.String(), inForce: InForce, turns: Type.Array(TurnView) },
  { $id: 'Memory', description: 'Importable as it is.' },
);
export type MemoryView = Static<typeof MemoryView>;

const ImportedTurn = Type.Object({ turn: Type.Optional(Count), ...Object.fromEntries(Object.entries(TURN).map(([name, schema]) => [name, Type.Optional(schema)])) as { [Name in keyof typeof TURN]: ReturnType<typeof Type.Optional<(typeof TURN)[Name]>> } }, { additionalProperties: false });

/** An export, or as little as `{"turns": [{"prompt": "a forest at night"}]}`. What is in force follows from the turns, where `inForce` doesn't say it. */
export const MemoryImport = Type.Object(
  { version: Type.Optional(Type.Literal(MEMORY_VERSION)), session: Type.Optional(Type.String({ maxLength: 64 })), inForce: Type.Optional(InForce), turns: Type.Array(ImportedTurn, { minItems: 1, maxItems: MAX_TURNS }) },
  { additionalProperties: false, $id: 'MemoryImport' },
);
export type MemoryImport = Static<typeof MemoryImport>;

/** Corrects the words of a turn. */
export const TurnEdit = Type.Object(
  { prompt: Type.Optional(Type.String({ minLength: 1, maxLength: 1000 })), narration: Type.Optional(Type.String({ maxLength: MAX_WORDS })) },
  { additionalProperties: false, minProperties: 1 },
);
export type TurnEdit = Static<typeof TurnEdit>;
