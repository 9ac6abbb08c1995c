/** A minimal page that joins, paints, listens and reports what it saw: the browser's side of `webrtc.test.ts`. Runs in Chromium as it stands. */
export const WATCHER_PAGE = `<!doctype html><meta charset="utf-8"><video id="video" autoplay playsinline muted></video><script>
const painted = [], sounds = [], notices = [], answers = [];
let connection, channels = {}, lastRtp = null, analyser, receivers = {};
const CELL_HEIGHT = 14;
function readStamp(pixels, width) {
  const cell = Math.floor(width / 16);
  let word = 0;
  for (let bit = 0; bit < 32; bit++) {
    const x = (bit % 16) * cell + (cell >> 1), y = Math.floor(bit / 16) * CELL_HEIGHT + 7;
    let sum = 0;
    for (let dy = -2; dy <= 2; dy++) for (let dx = -2; dx <= 2; dx++) sum += pixels[((y + dy) * width + x + dx) * 4 + 1];
    word = word * 2 + (sum / 25 > 125 ? 1 : 0);
  }
  const epoch = Math.floor(word / 2 ** 22), frame = Math.floor(word / 64) % 65536;
  return word % 64 === (epoch * 31 + frame * 7 + 13) % 61 ? { epoch, frame } : null;
}
function watch(video) {
  const canvas = document.createElement('canvas'), context = canvas.getContext('2d', { willReadFrequently: true });
  const each = (now, meta) => {
    video.requestVideoFrameCallback(each);
    canvas.width = meta.width; canvas.height = 28;
    context.drawImage(video, 0, 0, meta.width, 28, 0, 0, meta.width, 28);
    lastRtp = meta.rtpTimestamp;
    painted.push({ stamp: readStamp(context.getImageData(0, 0, meta.width, 28).data, meta.width), rtp: meta.rtpTimestamp, wallMs: performance.timeOrigin + performance.now() });
  };
  video.requestVideoFrameCallback(each);
}
async function listen(stream) {
  const audio = new Audio(); audio.srcObject = stream; audio.muted = true; audio.play().catch(() => {});
  const context = new AudioContext(); await context.resume();
  analyser = context.createAnalyser(); analyser.fftSize = 4096; analyser.smoothingTimeConstant = 0;
  context.createMediaStreamSource(stream).connect(analyser);
  const time = new Float32Array(2048), spectrum = new Float32Array(analyser.frequencyBinCount);
  setInterval(() => {
    analyser.getFloatTimeDomainData(time); analyser.getFloatFrequencyData(spectrum);
    let power = 0; for (const x of time) power += x * x;
    let peak = 0; for (let i = 1; i < spectrum.length; i++) if (spectrum[i] > spectrum[peak]) peak = i;
    sounds.push({ rms: Math.sqrt(power / time.length), hz: peak * context.sampleRate / analyser.fftSize, wallMs: performance.timeOrigin + performance.now() });
  }, 50);
}
async function join() {
  connection = new RTCPeerConnection({ iceServers: [] });
  connection.addTransceiver('video', { direction: 'recvonly' }); connection.addTransceiver('audio', { direction: 'recvonly' });
  channels.control = connection.createDataChannel('control');
  channels.input = connection.createDataChannel('input', { ordered: false, maxRetransmits: 0 });
  channels.state = connection.createDataChannel('state');
  channels.control.onmessage = (event) => answers.push(JSON.parse(event.data));
  channels.state.onmessage = (event) => notices.push(JSON.parse(event.data));
  connection.ontrack = ({ track, receiver }) => {
    receivers[track.kind] = receiver; receiver.jitterBufferTarget = 0;
    if (track.kind === 'video') { document.getElementById('video').srcObject = new MediaStream([track]); watch(document.getElementById('video')); }
    else listen(new MediaStream([track]));
  };
  connection.onicecandidate = ({ candidate }) => { if (candidate) trickle(candidate.toJSON()); };
  await connection.setLocalDescription(await connection.createOffer());
  await connection.setRemoteDescription({ type: 'answer', sdp: await signal(connection.localDescription.sdp) });
  await new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error('not connected: ' + connection.iceConnectionState)), 9000);
    connection.onconnectionstatechange = () => { if (connection.connectionState === 'connected') resolve(); };
  });
  await new Promise((resolve) => { if (channels.control.readyState === 'open') resolve(); else channels.control.onopen = resolve; });
  setInterval(() => { if (channels.input.readyState === 'open' && lastRtp !== null) channels.input.send(JSON.stringify({ type: 'position', videoRtp: lastRtp })); }, 100);
}
function interrupt(id) {
  const text = JSON.stringify({ type: 'interrupt', id, ...(lastRtp === null ? {} : { heldVideoRtp: lastRtp }) });
  channels.control.send(text); for (let i = 0; i < 3; i++) channels.input.send(text);
  return { wallMs: performance.timeOrigin + performance.now(), rtp: lastRtp, painted: painted.length };
}
async function statistics() {
  const result = {};
  for (const report of (await connection.getStats()).values()) {
    if (report.type === 'inbound-rtp') result[report.kind] = { framesDecoded: report.framesDecoded, packetsLost: report.packetsLost, pliCount: report.pliCount, jitterMs: 1000 * report.jitterBufferDelay / (report.jitterBufferEmittedCount || 1), freezeCount: report.freezeCount, concealed: report.concealedSamples, samples: report.totalSamplesReceived, ntp: report.estimatedPlayoutTimestamp };
    if (report.type === 'remote-outbound-rtp') result['sender ' + report.kind] = { remoteTimestamp: report.remoteTimestamp, reports: report.reportsSent };
    if (report.type === 'candidate-pair' && report.nominated) result.rttMs = 1000 * report.currentRoundTripTime;
  }
  return result;
}
</script>`;
