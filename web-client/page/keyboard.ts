import type { Steer } from '../sdk/index.ts';
import { create } from './dom.ts';
import { commandOf, legend, type KeyCommand } from './key_bindings.ts';
import type { Steering } from './Steering.ts';

const STEERS: Partial<Readonly<Record<KeyCommand, Steer>>> = { steerLeft: -1, steerRight: 1 };
const SPEEDS: Partial<Readonly<Record<KeyCommand, 1 | -1>>> = { faster: 1, slower: -1 };

export interface KeyboardActions {
  interrupt(): void;
  /** The key is down, and up again. */
  hold(): void;
  release(): void;
  toggleOverlay(): void;
  toggleMute(): void;
  focusPrompt(): void;
  /** Keys mean nothing before and after a session. */
  inSession(): boolean;
}

/**
 * The keyboard. Escape interrupts from anywhere. In the prompt field letters are letters, and the arrows move the cursor while there is text;
 * in an empty field they steer, so that nobody has to leave it to drive on.
 */
export function listenToKeyboard(steering: Steering, prompt: HTMLInputElement, actions: KeyboardActions): void {
  const held: { readonly code: string; readonly steer: Steer }[] = [];
  const hold = (): void => steering.hold('keyboard', held.at(-1)?.steer ?? 0);

  window.addEventListener('keydown', (event) => {
    if (!actions.inSession() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const { code, repeat, target } = event;
    const command = commandOf(event);
    if (command === null) return;
    const arrow = code.startsWith('Arrow');
    const typing = target === prompt && (prompt.value !== '' || !arrow);
    // A group of radio buttons keeps its arrows, and a list all its keys.
    const choosing = target instanceof HTMLSelectElement || (arrow && target instanceof Element && target.getAttribute('role') === 'radio');
    if (command !== 'interrupt' && (typing || choosing)) return;
    const steer = STEERS[command];
    const speed = SPEEDS[command];
    if (steer !== undefined) {
      if (!held.some((key) => key.code === code)) held.push({ code, steer });
      hold();
    } else if (!repeat) {
      if (speed !== undefined) steering.changeSpeed(speed);
      else if (command === 'interrupt' || command === 'hold' || command === 'focusPrompt' || command === 'toggleMute' || command === 'toggleOverlay') actions[command]();
    }
    event.preventDefault();
  });

  window.addEventListener('keyup', (event) => {
    const { code } = event;
    if (commandOf(event) === 'hold') actions.release();
    const at = held.findIndex((key) => key.code === code);
    if (at < 0) return;
    held.splice(at, 1);
    hold();
  });

  // A key released in another window is never told here.
  const release = (): void => {
    held.length = 0;
    actions.release();
    steering.releaseAll();
  };
  window.addEventListener('blur', release);
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) release();
  });
}

/** Writes the legend. */
export function showLegend(root: HTMLElement): void {
  root.replaceChildren(...legend().map(({ says, caps }) => create('span', {}, ...caps.map((cap) => create('kbd', { textContent: cap })), ` ${says}`)));
}
