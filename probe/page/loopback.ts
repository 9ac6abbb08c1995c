/**
 * A page to test the probe on: one RTCPeerConnection sends a stamped picture and its tone to another in the same page, which paints
 * and plays what it gets. Escape fences. How it behaves is chosen by the query:
 *
 * - `surface=canvas|video`: what the receiver paints on
 * - `freeze=on|off`: `on` stops painting and sound in the press itself and goes on with the first picture of the new epoch; `off` doesn't
 * - `lag=MS`: how long after the press the sender goes on with the old epoch: with `freeze=off` a fault the probe has to see
 */
import { cells, readStamp, READ_HEIGHT, READ_WIDTH, stampBits, toneHz } from '../barcode.ts';

const WIDTH = 224;
const HEIGHT = 128;
const FRAMES_PER_SECOND = 12;
const GAIN = 0.3;
/** Longer than the receiver's sound buffer on loopback: no old sound is left in it when the gate opens. */
const SOUND_OPENS_AFTER_MS = 400;

const query = new URLSearchParams(location.search);
const surface = query.get('surface') ?? 'canvas';
const freezes = (query.get('freeze') ?? 'on') === 'on';
const lagMs = Number(query.get('lag') ?? 0);

const context = new AudioContext();
const oscillator = new OscillatorNode(context, { frequency: toneHz(0) });
const outgoing = context.createMediaStreamDestination();
oscillator.connect(new GainNode(context, { gain: GAIN })).connect(outgoing);
oscillator.start();

let epoch = 0;
let frame = 0;

function startSending(): MediaStreamTrack {
  const canvas = document.createElement('canvas');
  canvas.width = WIDTH;
  canvas.height = HEIGHT;
  const pen = canvas.getContext('2d')!;
  const stream = canvas.captureStream(0);
  const track = stream.getVideoTracks()[0] as CanvasCaptureMediaStreamTrack;
  track.contentHint = 'detail';
  setInterval(() => {
    const sky = pen.createLinearGradient(0, 0, WIDTH, HEIGHT);
    sky.addColorStop(0, `hsl(${frame % 360} 60% 50%)`);
    sky.addColorStop(1, `hsl(${(frame + 120) % 360} 60% 30%)`);
    pen.fillStyle = sky;
    pen.fillRect(0, 0, WIDTH, HEIGHT);
    const bits = stampBits({ epoch: epoch % 1024, frame: frame % 65536 });
    for (const [bit, cell] of cells(WIDTH, HEIGHT).entries()) {
      pen.fillStyle = bits[bit] ? '#fff' : '#000';
      pen.fillRect(cell.x, cell.y, cell.width, cell.height);
    }
    frame++;
    track.requestFrame();
  }, 1000 / FRAMES_PER_SECOND);
  return track;
}

async function connect(): Promise<RTCPeerConnection> {
  const sender = new RTCPeerConnection();
  const receiver = new RTCPeerConnection();
  sender.onicecandidate = ({ candidate }) => void receiver.addIceCandidate(candidate ?? undefined);
  receiver.onicecandidate = ({ candidate }) => void sender.addIceCandidate(candidate ?? undefined);
  const video = sender.addTrack(startSending(), new MediaStream());
  sender.addTrack(outgoing.stream.getAudioTracks()[0]!, new MediaStream());
  receiver.ontrack = ({ track }) => (track.kind === 'video' ? show(track) : play(track));
  await sender.setLocalDescription(await sender.createOffer());
  await receiver.setRemoteDescription(sender.localDescription!);
  await receiver.setLocalDescription(await receiver.createAnswer());
  await sender.setRemoteDescription(receiver.localDescription!);
  const parameters = video.getParameters();
  parameters.degradationPreference = 'maintain-resolution';
  await video.setParameters(parameters);
  return receiver;
}

let awaited: number | null = null;
const gate = new GainNode(context);
if (surface === 'canvas') gate.connect(context.destination);

function show(track: MediaStreamTrack): void {
  const video = document.createElement('video');
  video.muted = true;
  video.playsInline = true;
  video.srcObject = new MediaStream([track]);
  void video.play();
  if (surface === 'video') {
    document.body.append(video);
    return;
  }
  const canvas = document.createElement('canvas');
  canvas.width = WIDTH;
  canvas.height = HEIGHT;
  document.body.append(canvas);
  const pen = canvas.getContext('2d')!;
  const scratch = new OffscreenCanvas(READ_WIDTH, READ_HEIGHT).getContext('2d', { willReadFrequently: true })!;
  const next = (): void => {
    video.requestVideoFrameCallback(() => {
      next();
      if (awaited !== null) {
        scratch.drawImage(video, 0, 0, READ_WIDTH, READ_HEIGHT);
        const stamp = readStamp(scratch.getImageData(0, 0, READ_WIDTH, READ_HEIGHT).data);
        if (stamp === null || stamp.epoch < awaited) return;
        awaited = null;
        setTimeout(() => (gate.gain.value = 1), SOUND_OPENS_AFTER_MS);
      }
      pen.drawImage(video, 0, 0, WIDTH, HEIGHT);
    });
  };
  next();
}

function play(track: MediaStreamTrack): void {
  const stream = new MediaStream([track]);
  const element = new Audio(); // Chromium feeds a remote track to WebAudio only while an element plays it
  element.srcObject = stream;
  if (surface === 'video') {
    void element.play();
    return;
  }
  element.muted = true;
  void element.play();
  context.createMediaStreamSource(stream).connect(gate);
}

window.addEventListener('keydown', ({ key }) => {
  if (key !== 'Escape') return;
  if (freezes) {
    awaited = epoch + 1;
    gate.gain.value = 0;
  }
  setTimeout(() => {
    epoch++;
    oscillator.frequency.value = toneHz(epoch);
  }, lagMs);
});

void connect();
