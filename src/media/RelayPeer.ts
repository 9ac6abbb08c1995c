import type { ChannelLabel, MediaToControl } from '../streams/messages.ts';
import type { OutgoingPicture, OutgoingSound, Peer, PeerEvents, PeerState, Sent } from './Peer.ts';

const NOTHING: Sent = { packets: 0, bytes: 0 };

/**
 * A receiver behind the control thread: encoded media and texts cross to it as messages and go on by WebSocket.
 * Bounded by what the control thread has not acknowledged (`relay.taken`): past the limit pictures are dropped until the next
 * keyframe, and past twice the limit sound as well. Texts are few and never dropped.
 */
export class RelayPeer implements Peer {
  readonly connectionId: string;
  readonly #sessionId: string;
  readonly #limit: number;
  readonly #toControl: (message: MediaToControl) => void;
  readonly #events: PeerEvents;
  #state: PeerState = 'connecting';
  #waiting = 0;
  #needsKeyframe = true;
  #dropped = 0;

  constructor(deps: { readonly sessionId: string; readonly connectionId: string; readonly backlog: number; readonly toControl: (message: MediaToControl) => void; readonly events: PeerEvents }) {
    this.#sessionId = deps.sessionId;
    this.connectionId = deps.connectionId;
    this.#limit = deps.backlog;
    this.#toControl = deps.toControl;
    this.#events = deps.events;
  }

  get state(): PeerState {
    return this.#state;
  }

  /** Messages dropped because the control thread had not taken those before. */
  get dropped(): number {
    return this.#dropped;
  }

  open(): void {
    if (this.#state !== 'connecting') return;
    this.#state = 'connected';
    this.#events.state('connected');
  }

  /** The control thread has taken `count` media messages. */
  taken(count: number): void {
    const full = this.#waiting >= this.#limit;
    this.#waiting = Math.max(0, this.#waiting - count);
    if (full && this.#needsKeyframe && this.#waiting < this.#limit) this.#events.keyframeNeeded();
  }

  sendPicture({ data, keyframe, rtp, epoch }: OutgoingPicture): Sent {
    if (this.#state !== 'connected') return NOTHING;
    if (this.#waiting >= this.#limit) {
      this.#needsKeyframe = true;
      this.#dropped++;
      return NOTHING;
    }
    if (this.#needsKeyframe && !keyframe) return NOTHING;
    this.#needsKeyframe = false;
    return this.#post('video', data, rtp, epoch, keyframe);
  }

  sendSound({ data, rtp, epoch }: OutgoingSound): Sent {
    if (this.#state !== 'connected') return NOTHING;
    if (this.#waiting >= this.#limit * 2) {
      this.#dropped++;
      return NOTHING;
    }
    return this.#post('audio', data, rtp, epoch, true);
  }

  sendText(channel: ChannelLabel, text: string): boolean {
    if (this.#state !== 'connected') return false;
    this.#toControl({ type: 'relay.text', sessionId: this.#sessionId, connectionId: this.connectionId, channel, text });
    return true;
  }

  askForKeyframe(): void {
    this.sendText('control', JSON.stringify({ type: 'keyframe' }));
  }

  addCandidate(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    if (this.#state !== 'closed') {
      this.#state = 'closed';
      this.#events.state('closed');
    }
    return Promise.resolve();
  }

  #post(kind: 'video' | 'audio', data: Uint8Array, rtp: number, epoch: number, key: boolean): Sent {
    this.#waiting++;
    this.#toControl({ type: 'relay.media', sessionId: this.#sessionId, connectionId: this.connectionId, kind, epoch, rtp, key, bytes: data });
    return { packets: 1, bytes: data.byteLength };
  }
}
