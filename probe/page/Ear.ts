import earWorklet from './ear_worklet.js?raw';
import type { PressSample } from '../samples.ts';
import type { Log } from './Log.ts';

/** Below this a block has no sound to name a tone of; above, at least half its energy must be in one tone. */
const MIN_TONE_RMS = 0.003;
const MIN_PURITY = 0.5;

interface Block {
  readonly at: number;
  readonly rms: number;
  readonly tone: number;
  readonly purity: number;
}

interface Tap {
  readonly id: number;
  readonly context: BaseAudioContext;
  /** Everything that goes to the destination is summed here too. */
  readonly sum: GainNode;
}

/**
 * Taps what is heard: every node that is connected to a context's destination, and every `<audio>` or `<video>` that plays unmuted.
 * Measured where it is rendered, in the audio thread, so a busy page delays the log but loses nothing.
 */
export class Ear {
  readonly #log: Log;
  readonly #taps = new Map<BaseAudioContext, Tap>();
  readonly #elements = new WeakSet<HTMLMediaElement>();
  readonly #connect = AudioNode.prototype.connect as (this: AudioNode, to: AudioNode, output?: number) => AudioNode;
  #elementContext: AudioContext | null = null;

  constructor(log: Log) {
    this.#log = log;
  }

  install(): void {
    const ear = this; // eslint-disable-line @typescript-eslint/no-this-alias -- the wrappers have a `this` of their own
    const connect = this.#connect;
    AudioNode.prototype.connect = function (this: AudioNode, ...args: unknown[]): unknown {
      const result: unknown = Reflect.apply(connect, this, args);
      if (args[0] instanceof AudioDestinationNode) Reflect.apply(connect, this, [ear.#tap(this.context).sum, (args[1] as number | undefined) ?? 0]);
      return result;
    } as typeof AudioNode.prototype.connect;

    const disconnect = AudioNode.prototype.disconnect as (...args: unknown[]) => void;
    AudioNode.prototype.disconnect = function (this: AudioNode, ...args: unknown[]): void {
      Reflect.apply(disconnect, this, args);
      const tap = ear.#taps.get(this.context);
      if (tap === undefined || !(args[0] instanceof AudioDestinationNode)) return;
      Reflect.apply(disconnect, this, [tap.sum, ...args.slice(1, 2)]);
    } as typeof AudioNode.prototype.disconnect;

    const play = HTMLMediaElement.prototype.play;
    HTMLMediaElement.prototype.play = function (this: HTMLMediaElement) {
      ear.#listen(this);
      return Reflect.apply(play, this, []);
    };
    document.addEventListener('playing', (event) => event.target instanceof HTMLMediaElement && this.#listen(event.target), { capture: true });
  }

  now(): PressSample['audio'] {
    return [...this.#taps.values()].map(({ id, context }) => ({ context: id, at: context.currentTime }));
  }

  #tap(context: BaseAudioContext): Tap {
    const known = this.#taps.get(context);
    if (known !== undefined) return known;
    const tap: Tap = { id: this.#taps.size, context, sum: context.createGain() };
    this.#taps.set(context, tap);
    const url = URL.createObjectURL(new Blob([earWorklet], { type: 'text/javascript' }));
    context.audioWorklet.addModule(url).then(
      () => {
        const node = new AudioWorkletNode(context, 'probe-ear', { numberOfInputs: 1, numberOfOutputs: 1, channelCount: 2, channelCountMode: 'explicit' });
        node.port.onmessage = ({ data }: MessageEvent<Block[]>) => this.#heard(tap, data);
        Reflect.apply(this.#connect, tap.sum, [node]);
        Reflect.apply(this.#connect, node, [context.destination]); // its output is silence; connected, it is always rendered
      },
      (error: unknown) => console.error('probe: the ear could not be installed', error),
    );
    return tap;
  }

  #heard(tap: Tap, blocks: readonly Block[]): void {
    const { context } = tap;
    const output = context instanceof AudioContext ? context.getOutputTimestamp() : {};
    const contextTime = output.contextTime ?? context.currentTime;
    const performanceTime = output.performanceTime || performance.now();
    for (const { at, rms, tone, purity } of blocks) {
      this.#log.add({
        kind: 'sound',
        t: performanceTime + (at - contextTime) * 1000,
        at,
        context: tap.id,
        durationMs: 10,
        rms: Math.round(rms * 1e5) / 1e5,
        tone: rms >= MIN_TONE_RMS && purity >= MIN_PURITY ? tone : null,
        purity: Math.round(purity * 100) / 100,
      });
    }
  }

  /** An element's own output can't be tapped: its stream is, with the element's volume applied by hand; from when it first is audible. */
  #listen(element: HTMLMediaElement): void {
    if (this.#elements.has(element)) return;
    this.#elements.add(element);
    let gain: GainNode | null = null;
    const follow = (): void => {
      const volume = element.muted || element.paused ? 0 : element.volume;
      if (gain === null && volume > 0) gain = this.#tapElement(element);
      if (gain !== null) gain.gain.value = volume;
    };
    for (const event of ['volumechange', 'play', 'playing', 'pause', 'ended']) element.addEventListener(event, follow);
    follow();
  }

  #tapElement(element: HTMLMediaElement): GainNode | null {
    const stream = element.srcObject instanceof MediaStream ? element.srcObject : (element as HTMLMediaElement & { captureStream?(): MediaStream }).captureStream?.();
    if (stream === undefined || stream.getAudioTracks().length === 0) return null;
    const context = (this.#elementContext ??= new AudioContext());
    const gain = context.createGain();
    Reflect.apply(this.#connect, context.createMediaStreamSource(new MediaStream(stream.getAudioTracks())), [gain]);
    Reflect.apply(this.#connect, gain, [this.#tap(context).sum]);
    return gain;
  }
}
