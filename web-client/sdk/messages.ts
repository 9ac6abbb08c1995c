/** The protocol's messages by name. Types only: nothing of the server is in the browser's bundle. */
import type { PROTOCOL_VERSION, ServerControlMessage, ServerStateMessage } from '../../src/protocol/channel.ts';
import type { ErrorBody } from '../../src/protocol/errors.ts';

export type { ActionInput, Activity, ControlMessage, FrameNotice, HoldExpired, InputMessage, PositionInput, ReplayGap, RequestCompleted, ServerControlMessage, ServerStateMessage, SessionRequest, StateUpdate, StoryRewound, TextDelta } from '../../src/protocol/channel.ts';
export type { AdapterInForce, AdapterOffer, SessionAdapter } from '../../src/protocol/session_adapter.ts';
export type { PromptWarning } from '../../src/protocol/prompt_warning.ts';
export type { Degraded } from '../../src/protocol/degraded.ts';
export type { ErrorBody, ErrorCode } from '../../src/protocol/errors.ts';
export type { FrameReceipt } from '../../src/protocol/frame_receipt.ts';
export type { MemoryView } from '../../src/protocol/prompt_memory.ts';
export type { CreatedReplay, CreatedSession, CreateSession, ForkedFrom, ForkedSession, SessionView, Share, WaitingPlace } from '../../src/protocol/rest.ts';

type Of<Type extends string> = Extract<ServerControlMessage, { type: Type }>;
export type Ready = Of<'ready'>;
export type Accepted = Of<'accepted'>;
export type Applied = Of<'applied'>;
export type Forked = Of<'forked'>;
export type Superseded = Of<'superseded'>;
export type RequestError = Of<'error'>;
export type Goaway = Of<'goaway'>;
export type Closed = Of<'closed'>;
export type DraftPreview = Of<'draft.preview'>;
export type IdleWarning = Of<'idle'>;
export type BudgetWarning = Of<'budget'>;

export type ChannelLabel = 'control' | 'input' | 'state';
export type ServerMessage = ServerControlMessage | ServerStateMessage;

/** The version that this client speaks; a change of the server's constant stops this from compiling. */
export const SPOKEN_PROTOCOL = 1 satisfies typeof PROTOCOL_VERSION;

/**
 * What the client tells its user when something failed; `code` is from the server's error table or one of the client's own. `webrtc_unavailable`: the client goes
 * on over the WebSocket.
 */
export type ClientErrorCode = ErrorBody['code'] | 'network' | 'superseded' | 'closed' | 'unsupported_browser' | 'webrtc_unavailable';
