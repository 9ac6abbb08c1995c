/**
 * A client as anyone would write it against the session protocol: it joins, paints and plays whatever comes, and sends what is typed and
 * pressed. It freezes nothing and knows no epochs, so what it paints is what the server lets through. Baselines of the benches run on it.
 * Query: `session`, `token`.
 */
interface Message {
  readonly type: string;
  readonly [key: string]: unknown;
}

type Listener = (...args: unknown[]) => void;

/** The part of the page's client that the tests listen to. */
class PlainClient {
  readonly sessionId: string;
  readonly transport = 'webrtc';
  readonly #listeners: { readonly event: string; readonly listener: Listener }[] = [];

  constructor(sessionId: string) {
    this.sessionId = sessionId;
  }

  on(event: string, listener: Listener): void {
    this.#listeners.push({ event, listener });
  }

  emit(event: string, ...args: unknown[]): void {
    for (const entry of this.#listeners) if (entry.event === event) entry.listener(...args);
  }
}

const query = new URLSearchParams(location.search);
const sessionId = query.get('session') ?? '';
const token = query.get('token') ?? '';
const prompt = document.querySelector('input')!;
const canvas = document.querySelector('canvas')!;
const ICE_GATHERING_MS = 1_000;

let paintedRtp: number | undefined;
let audioReceiver: RTCRtpReceiver | undefined;
let count = 0;
let sequence = 0;
let steer = 0;

async function join(): Promise<void> {
  const client = new PlainClient(sessionId);
  (window as unknown as { segue: PlainClient }).segue = client;
  const context = new AudioContext();
  const peer = new RTCPeerConnection();
  peer.addTransceiver('video', { direction: 'recvonly' });
  peer.addTransceiver('audio', { direction: 'recvonly' });
  const control = peer.createDataChannel('control', { ordered: true });
  const input = peer.createDataChannel('input', { ordered: false, maxRetransmits: 0 });
  const state = peer.createDataChannel('state', { ordered: true });
  peer.ontrack = ({ track, receiver }) => {
    receiver.jitterBufferTarget = 0;
    if (track.kind === 'video') paint(track);
    else play(track, receiver, context);
  };
  control.onmessage = ({ data }) => {
    const message = JSON.parse(data as string) as Message;
    if (message.type === 'error') client.emit('error', message['error'], { id: message['re'] });
    else client.emit(message.type, message);
  };
  const held = (): Record<string, number> => {
    const audioRtp = audioReceiver?.getSynchronizationSources()[0]?.rtpTimestamp;
    return { ...(paintedRtp === undefined ? {} : { heldVideoRtp: paintedRtp }), ...(audioRtp === undefined ? {} : { heldAudioRtp: audioRtp }) };
  };
  const request = (message: Record<string, unknown>): void => {
    const text = JSON.stringify({ id: `p${++count}`, ...message, ...held() });
    control.send(text);
    for (let copy = 0; copy < 3; copy++) input.send(text);
  };
  const act = (): void => input.send(JSON.stringify({ type: 'action', sequence: ++sequence, steer, speed: 2, leftPresses: 0, rightPresses: 0 }));

  await peer.setLocalDescription(await peer.createOffer());
  await new Promise<void>((resolve) => {
    if (peer.iceGatheringState === 'complete') resolve();
    peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && resolve();
    setTimeout(resolve, ICE_GATHERING_MS);
  });
  const response = await fetch(`/v1/sessions/${sessionId}/connections`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'offer', sdp: peer.localDescription!.sdp }),
  });
  if (!response.ok) throw new Error(`the offer was refused: ${response.status} ${await response.text()}`);
  const { sdp } = (await response.json()) as { sdp: string };
  await peer.setRemoteDescription({ type: 'answer', sdp });
  await Promise.all([control, input, state].map((channel) => channel.readyState === 'open' || new Promise((resolve) => (channel.onopen = resolve))));
  control.send(JSON.stringify({ type: 'hello', id: 'hello', protocol: 1, client: 'plain' }));

  setInterval(act, 50);
  setInterval(() => paintedRtp !== undefined && input.send(JSON.stringify({ type: 'position', videoRtp: paintedRtp })), 100);
  window.addEventListener('keydown', ({ key, repeat }) => {
    if (repeat) return;
    if (key === 'Escape') request({ type: 'interrupt' });
    if (key === 'Enter' && prompt.value !== '') request({ type: 'redirect', prompt: prompt.value });
    if (key !== 'ArrowLeft' && key !== 'ArrowRight') return;
    steer = key === 'ArrowLeft' ? -1 : 1;
    act();
  });
  window.addEventListener('keyup', ({ key }) => {
    if (key !== 'ArrowLeft' && key !== 'ArrowRight') return;
    steer = 0;
    act();
  });
}

function paint(track: MediaStreamTrack): void {
  const pen = canvas.getContext('2d', { alpha: false })!;
  const video = document.createElement('video');
  video.muted = true;
  video.playsInline = true;
  video.srcObject = new MediaStream([track]);
  void video.play();
  const next = (): void => {
    video.requestVideoFrameCallback((_now, { rtpTimestamp }) => {
      next();
      pen.drawImage(video, 0, 0, canvas.width, canvas.height);
      paintedRtp = rtpTimestamp;
    });
  };
  next();
}

function play(track: MediaStreamTrack, receiver: RTCRtpReceiver, context: AudioContext): void {
  receiver.jitterBufferTarget = 0;
  audioReceiver = receiver;
  const stream = new MediaStream([track]);
  const element = new Audio(); // Chromium feeds a remote track to WebAudio only while an element plays it
  element.muted = true;
  element.srcObject = stream;
  void element.play();
  context.createMediaStreamSource(stream).connect(context.destination);
}

document.querySelector('button')!.addEventListener('click', () => void join());
