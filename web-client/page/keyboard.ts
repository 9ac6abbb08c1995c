import type { Steer } from '../sdk/index.ts';
import type { Steering } from './Steering.ts';

const STEER_KEYS: Readonly<Record<string, Steer>> = { ArrowLeft: -1, KeyA: -1, ArrowRight: 1, KeyD: 1 };
const SPEED_KEYS: Readonly<Record<string, 1 | -1>> = { ArrowUp: 1, KeyW: 1, ArrowDown: -1, KeyS: -1 };

export interface KeyboardActions {
  interrupt(): void;
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
  const held: string[] = [];
  const hold = (): void => steering.hold('keyboard', STEER_KEYS[held.at(-1) ?? ''] ?? 0);

  window.addEventListener('keydown', (event) => {
    if (!actions.inSession() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const { code } = event;
    if (code === 'Escape') {
      event.preventDefault();
      if (!event.repeat) actions.interrupt();
      return;
    }
    const typing = event.target === prompt && (prompt.value !== '' || !code.startsWith('Arrow'));
    // A group of radio buttons keeps its arrows.
    const choosing = event.target instanceof Element && event.target.getAttribute('role') === 'radio' && code.startsWith('Arrow');
    if (typing || choosing) return;
    const steer = STEER_KEYS[code];
    const speed = SPEED_KEYS[code];
    if (steer !== undefined) {
      event.preventDefault();
      if (!held.includes(code)) held.push(code);
      hold();
    } else if (speed !== undefined) {
      event.preventDefault();
      if (!event.repeat) steering.changeSpeed(speed);
    } else if (!event.repeat && code === 'KeyO') actions.toggleOverlay();
    else if (!event.repeat && code === 'KeyM') actions.toggleMute();
    else if (event.key === '/') {
      event.preventDefault();
      actions.focusPrompt();
    }
  });

  window.addEventListener('keyup', ({ code }) => {
    const at = held.indexOf(code);
    if (at < 0) return;
    held.splice(at, 1);
    hold();
  });

  // A key released in another window is never told here.
  const release = (): void => {
    held.length = 0;
    steering.releaseAll();
  };
  window.addEventListener('blur', release);
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) release();
  });
}
