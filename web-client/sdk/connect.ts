import { ClientError } from './ClientError.ts';
import { PeerTransport } from './PeerTransport.ts';
import type { Presenter } from './Presenter.ts';
import type { Signalling } from './Signalling.ts';
import type { SoundOutput } from './SoundOutput.ts';
import { StreamTransport } from './StreamTransport.ts';
import type { Transport, TransportEvents } from './Transport.ts';

export interface Connector {
  readonly signalling: Signalling;
  readonly transport: 'auto' | 'webrtc' | 'websocket';
}

export interface ConnectTo {
  readonly presenter: Presenter;
  readonly sound: SoundOutput | null;
  readonly rejoin: string | null;
  /** What the session is to be made of, where it takes a video in. */
  readonly camera: MediaStreamTrack | null;
  readonly signal: AbortSignal;
}

/** WebRTC, or the WebSocket where it is asked for or WebRTC can't connect. A refusal by the server is no reason to try the other way. */
export async function connect({ signalling, transport }: Connector, to: ConnectTo, events: TransportEvents): Promise<Transport> {
  if (transport !== 'websocket' && typeof RTCPeerConnection !== 'undefined') {
    try {
      const iceServers = await signalling.iceServers();
      return await PeerTransport.open({ ...to, signalling, iceServers }, events);
    } catch (error) {
      const blocked = !(error instanceof ClientError) || (error.body === null && error.code !== 'closed');
      if (transport === 'webrtc' || !blocked) throw error;
      events.trouble(new ClientError('webrtc_unavailable', 'no WebRTC connection; trying the WebSocket', null, error));
    }
  }
  return StreamTransport.open(signalling.streamUrl, to, events);
}
