import type { ChannelLabel, IceCandidate } from '../streams/messages.ts';

export interface OutgoingPicture {
  readonly data: Uint8Array;
  readonly keyframe: boolean;
  readonly rtp: number;
  readonly epoch: number;
}

export interface OutgoingSound {
  readonly data: Uint8Array;
  readonly rtp: number;
  readonly epoch: number;
}

/** How many packets and bytes of media one call sent. */
export interface Sent {
  readonly packets: number;
  readonly bytes: number;
}

export type PeerState = 'connecting' | 'connected' | 'disconnected' | 'closed';

/** One receiver of a session's encoded media, whatever carries it. */
export interface Peer {
  readonly connectionId: string;
  readonly state: PeerState;
  /** Sends at once and whole; nothing is queued before the socket. Nothing happens unless connected. */
  sendPicture(picture: OutgoingPicture): Sent;
  sendSound(sound: OutgoingSound): Sent;
  /** False where the text was dropped (only on `state`, when its backlog is full). */
  sendText(channel: ChannelLabel, text: string): boolean;
  /** The other side's camera must send a keyframe. */
  askForKeyframe(): void;
  addCandidate(candidate: IceCandidate | null): Promise<void>;
  /** Idempotent; resolves when nothing of it is left. Text handed over before is flushed first, within a bound. */
  close(): Promise<void>;
}

/** What a peer tells whoever made it. Never called after `close()` has been. */
export interface PeerEvents {
  state(state: PeerState): void;
  message(channel: ChannelLabel, data: string | Uint8Array): void;
  /** A packet of Opus from the other side's microphone, in order; lost ones are left out. */
  sound(packet: Uint8Array): void;
  /** A whole VP8 frame of the other side's camera, in order; null where one was lost. */
  picture(frame: Uint8Array | null): void;
  /** PLI or FIR: the receiver can't decode. */
  keyframeNeeded(): void;
  /** REMB, bits per second. */
  estimated(bitsPerSecond: number): void;
  /** Fraction lost in the receiver's last report of the picture, 0 … 1. */
  lost(fraction: number): void;
}
