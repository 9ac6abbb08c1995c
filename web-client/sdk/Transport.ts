import type { ControlMessage, InputMessage, ServerMessage } from './messages.ts';

export interface TransportEvents {
  message(message: ServerMessage): void;
  /** The connection broke, by itself; told at most once, and never after `close()`. */
  lost(reason: string): void;
  /** Something went wrong that the connection survives. */
  trouble(error: Error): void;
}

/** A MediaStreamTrack: named without the browser's types, since servers' tests read this file too. */
export interface MicrophoneTrack {
  readonly kind: string;
  readonly id: string;
}

/** One connection to a session: messages both ways and media to the presenter. Made open; not reusable. */
export interface Transport {
  readonly kind: 'webrtc' | 'websocket';
  /** Names the connection when it is replaced; null where the server has none to name. */
  readonly connectionId: string | null;
  /** Reliable and ordered. Returns false where the connection is gone. */
  sendControl(message: ControlMessage): boolean;
  /** May be lost; never queued behind older ones. `copies` are for what must not wait for a retransmission. */
  sendInput(message: InputMessage, copies?: number): boolean;
  /** Sends the microphone from now on; null: none. Rejects with ClientError where the server listens to none, or the browser can't send it. */
  setMicrophone(track: MicrophoneTrack | null): Promise<void>;
  stats(): Promise<TransportStats>;
  /** `leaving`: the person leaves, and isn't about to come back by another connection. Idempotent. */
  close(leaving?: boolean): Promise<void>;
}

export interface TransportStats {
  readonly bytesReceived: number;
  /** Ms; null where unknown. */
  readonly roundTripMs: number | null;
  readonly jitterBufferMs: number | null;
  readonly packetsLost: number;
  readonly framesDropped: number;
}
