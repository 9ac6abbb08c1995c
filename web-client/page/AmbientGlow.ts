const INTERVAL_MS = 200;

/** The light that the picture throws on the room around it: a copy of a few pixels, which the browser's own scaling blurs. */
export class AmbientGlow {
  #world: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D | null;
  #lastAt = 0;

  constructor(canvas: HTMLCanvasElement, world: HTMLCanvasElement) {
    this.#world = world;
    this.#context = canvas.getContext('2d', { alpha: false });
  }

  /** Another picture is the one that throws light. */
  of(world: HTMLCanvasElement): void {
    this.#world = world;
  }

  /** Called with each painted frame. */
  update(now: number): void {
    if (!this.#context || now - this.#lastAt < INTERVAL_MS) return;
    this.#lastAt = now;
    const { width, height } = this.#context.canvas;
    this.#context.drawImage(this.#world, 0, 0, width, height);
  }
}
