/** The engine's list of blocks against a store that reads its messages late, in every interleaving. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { BlockRegistry } from '../../../src/engine/workers/BlockRegistry.ts';
import { BlockStore, type BlockRelease, type SharedBlock } from '../../../src/engine/workers/BlockStore.ts';
import type { MemoryTag } from '../../../src/engine/model/work.ts';

const SESSIONS = ['a', 'b', 'c'] as const;
const MEMORY = ['kv', 'activations'] as const satisfies readonly MemoryTag[];

type Command =
  /** Units that the executor will run; those that are cancelled write nothing. */
  | { readonly do: 'execute'; readonly blocks: readonly { readonly session: string; readonly memory: MemoryTag; readonly published: boolean; readonly cancelled: boolean }[] }
  | { readonly do: 'release'; readonly which: number }
  | { readonly do: 'detach'; readonly session: string }
  | { readonly do: 'sleep'; readonly memory: MemoryTag }
  /** The executor reads so many of the messages that wait. */
  | { readonly do: 'handle'; readonly count: number }
  /** The engine reads so many answers. */
  | { readonly do: 'settle'; readonly count: number };

const command: fc.Arbitrary<Command> = fc.oneof(
  fc.record({
    do: fc.constant('execute' as const),
    blocks: fc.array(fc.record({ session: fc.constantFrom(...SESSIONS), memory: fc.constantFrom(...MEMORY), published: fc.boolean(), cancelled: fc.boolean() }), { minLength: 1, maxLength: 3 }),
  }),
  fc.record({ do: fc.constant('release' as const), which: fc.nat() }),
  fc.record({ do: fc.constant('detach' as const), session: fc.constantFrom(...SESSIONS) }),
  fc.record({ do: fc.constant('sleep' as const), memory: fc.constantFrom(...MEMORY) }),
  fc.record({ do: fc.constant('handle' as const), count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ do: fc.constant('settle' as const), count: fc.integer({ min: 1, max: 3 }) }),
);

type Posted = { readonly batchId: number; readonly writes: readonly SharedBlock[] } | BlockRelease;

/** An executor as far as its blocks go: it reads messages in order, and answers batches with what they wrote. */
class Model {
  readonly registry = new BlockRegistry();
  readonly store = new BlockStore();
  readonly inbox: Posted[] = [];
  readonly answers: { readonly batchId: number; readonly published: readonly SharedBlock[] }[] = [];
  #ids = 0;
  #batches = 0;

  run(step: Command): void {
    switch (step.do) {
      case 'execute': {
        const batchId = ++this.#batches;
        const writes = step.blocks.flatMap(({ session, memory, published, cancelled }): SharedBlock[] => {
          const id = ++this.#ids;
          return cancelled ? [] : [{ id, sessionId: session, memory, published, dtype: 'float32', dims: [1, 1], buffer: new SharedArrayBuffer(4) }];
        });
        this.registry.begin(batchId);
        this.inbox.push({ batchId, writes });
        return;
      }
      case 'release':
        return this.#free({ type: 'release', blocks: [1 + (step.which % Math.max(1, this.#ids))] });
      case 'detach':
        return this.#free({ type: 'detach', sessionId: step.session });
      case 'sleep':
        return this.#free({ type: 'sleep', tags: [step.memory] });
      case 'handle':
        for (const message of this.inbox.splice(0, step.count)) {
          if ('batchId' in message) {
            for (const block of message.writes) this.store.put(block);
            this.answers.push({ batchId: message.batchId, published: message.writes });
          } else this.store.free(message);
        }
        return;
      case 'settle':
        for (const { batchId, published } of this.answers.splice(0, step.count)) this.registry.settle(batchId, published);
    }
  }

  #free(release: BlockRelease): void {
    this.registry.free(release);
    this.inbox.push(release);
  }
}

function idsOf(blocks: Iterable<SharedBlock>): number[] {
  return [...blocks].map(({ id }) => id).sort((a, b) => a - b);
}

test('however messages and answers interleave, the list equals what the executor holds once it has read all', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
      const model = new Model();
      for (const step of commands) model.run(step);
      model.run({ do: 'handle', count: Infinity });
      model.run({ do: 'settle', count: Infinity });
      assert.deepEqual(idsOf(model.registry.adoption().blocks), idsOf(model.store.values()));
    }),
    { numRuns: 500 },
  );
});

test('at any moment, what an executor is told to adopt is what the one before it holds less what its unread messages free', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
      const model = new Model();
      for (const step of commands) {
        model.run(step);
        // Hung here: what was answered is read, what was not is lost.
        const answered = new Set(model.answers.flatMap(({ published }) => published.map(({ id }) => id)));
        const expected = new BlockStore();
        for (const block of model.store.values()) if (!answered.has(block.id)) expected.put(block);
        for (const message of model.inbox) if (!('batchId' in message)) expected.free(message);
        assert.deepEqual(idsOf(model.registry.adoption().blocks), idsOf(expected.values()));
      }
    }),
    { numRuns: 300 },
  );
});

test('a batch that was given up adds nothing, whatever comes for it later', () => {
  const registry = new BlockRegistry();
  const block: SharedBlock = { id: 1, sessionId: 'a', memory: 'kv', published: false, dtype: 'float32', dims: [1, 1], buffer: new SharedArrayBuffer(4) };
  registry.begin(1);
  registry.lose(1);
  assert.deepEqual(registry.settle(1, [block]), []);
  assert.equal(registry.blocks, 0);
});

test('sessions are handed over with their pools, until they are detached', () => {
  const registry = new BlockRegistry();
  const pool = { buffer: new SharedArrayBuffer(16), slotBytes: 8, slots: 1 };
  for (const sessionId of ['a', 'b']) registry.attach({ sessionId, video: pool, audio: pool });
  registry.free({ type: 'detach', sessionId: 'a' });
  assert.deepEqual(registry.adoption().sessions, [{ sessionId: 'b', video: pool, audio: pool }]);
});
