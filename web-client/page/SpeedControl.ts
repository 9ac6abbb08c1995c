import type { Speed } from '../sdk/index.ts';
import { RadioGroup } from './RadioGroup.ts';

const NAMES: readonly string[] = ['Stop', 'Slow', 'Cruise', 'Fast'];

export class SpeedControl {
  readonly #group: RadioGroup;

  constructor(root: HTMLElement, choose: (speed: Speed) => void) {
    const choices = NAMES.map((label, speed) => ({ label, testId: `speed-${speed}` }));
    this.#group = new RadioGroup(root, choices, (speed) => choose(speed as Speed));
  }

  show(speed: Speed): void {
    this.#group.show(speed);
  }
}
