/* global AudioWorkletProcessor, sampleRate, currentFrame, registerProcessor */
// Runs in the audio rendering thread: cuts what it is fed into blocks of 10 ms and measures level and stamp tone of each.
// Kept as plain JavaScript because the page loads its text as a worklet module.
const TONES = 16;

class Ear extends AudioWorkletProcessor {
  constructor() {
    super();
    this.size = Math.round(sampleRate / 100);
    this.block = new Float32Array(this.size);
    this.filled = 0;
    this.start = 0;
    this.batch = [];
    this.coefficients = Array.from({ length: TONES }, (_, k) => 2 * Math.cos((2 * Math.PI * (1000 + 200 * k)) / sampleRate));
  }

  process([input]) {
    const left = input[0];
    const right = input[1];
    for (let at = 0; at < 128; at++) {
      if (this.filled === 0) this.start = (currentFrame + at) / sampleRate;
      this.block[this.filled++] = left === undefined ? 0 : right === undefined ? left[at] : (left[at] + right[at]) / 2;
      if (this.filled === this.size) this.measure();
    }
    return true;
  }

  measure() {
    this.filled = 0;
    const { block, size } = this;
    let energy = 0;
    for (let at = 0; at < size; at++) energy += block[at] * block[at];
    let best = -1;
    let bestPower = 0;
    if (energy > 1e-9) {
      for (let tone = 0; tone < TONES; tone++) {
        // Goertzel: all 16 tones are whole multiples of 100 Hz, so over 10 ms they don't leak into each other.
        const coefficient = this.coefficients[tone];
        let one = 0;
        let two = 0;
        for (let at = 0; at < size; at++) {
          const next = block[at] + coefficient * one - two;
          two = one;
          one = next;
        }
        const power = one * one + two * two - coefficient * one * two;
        if (power > bestPower) {
          bestPower = power;
          best = tone;
        }
      }
    }
    this.batch.push({ at: this.start, rms: Math.sqrt(energy / size), tone: best, purity: energy > 1e-9 ? Math.min(1, (2 * bestPower) / (size * energy)) : 0 });
    if (this.batch.length === 4) {
      this.port.postMessage(this.batch);
      this.batch = [];
    }
  }
}

registerProcessor('probe-ear', Ear);
