import type { Static } from 'typebox';
import type { DraftMessage, ServerControlMessage } from '../protocol/channel.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ControlToEngine, EngineToControl } from '../streams/messages.ts';
import type { PromptReader } from './ports.ts';

export interface DraftHost {
  readonly sessionId: string;
  readonly prompts: PromptReader;
  mayDrive(connectionId: string): boolean;
  /** The session takes requests now. */
  takesRequests(): boolean;
  toEngine(message: ControlToEngine): void;
  toConnection(connectionId: string, message: ServerControlMessage): void;
}

type Preview = Extract<EngineToControl, { type: 'draft.preview' }>;

/**
 * What the driver is typing: the engine may work on it, and whoever types is told what it would come to. Told to nobody else, kept nowhere, and never
 * a request: it has no answer, and costs none of those that have.
 */
export class SessionDrafts {
  readonly #host: DraftHost;
  /** The newest; previews of others come too late. */
  #current: { readonly draftId: string; readonly connectionId: string } | null = null;

  constructor(host: DraftHost) {
    this.#host = host;
  }

  receive(connectionId: string, { id, prompt, seamless = false }: Static<typeof DraftMessage>): void {
    const { sessionId, prompts } = this.#host;
    if (!this.#host.mayDrive(connectionId)) return this.#host.toConnection(connectionId, { type: 'error', re: id, error: new SegueError('forbidden', 'this connection may watch, not drive').toBody() });
    const text = prompt?.trim() ?? '';
    let understood = text !== '';
    this.#current = { draftId: id, connectionId };
    if (understood) {
      try {
        const warnings = prompts.read(text);
        this.#host.toConnection(connectionId, { type: 'draft.preview', re: id, understood: true, plan: null, warnings: [...warnings] });
      } catch (error) {
        if (!(error instanceof SegueError)) throw error;
        // Half a word is no mistake: it is said, and not as an error.
        understood = false;
        this.#host.toConnection(connectionId, { type: 'draft.preview', re: id, understood: false, plan: null, warnings: [] });
      }
    }
    if (this.#host.takesRequests()) this.#host.toEngine({ type: 'session.draft', sessionId, draftId: id, prompt: understood ? text : null, seamless });
  }

  onPreview({ draftId, plan, warnings }: Preview): void {
    if (this.#current?.draftId !== draftId) return;
    this.#host.toConnection(this.#current.connectionId, { type: 'draft.preview', re: draftId, understood: true, plan, warnings: [...warnings] });
  }
}
