import type { Steer } from '../sdk/index.ts';
import type { Steering } from './Steering.ts';

/** Of the stick's way; smaller is drift of a worn stick. */
const DEAD_ZONE = 0.35;
/** Of the standard mapping. */
const BUTTON = { interrupt: 1, slower: 6, faster: 7, padUp: 12, padDown: 13, padLeft: 14, padRight: 15 } as const;

/** Gamepads have no events for their sticks and buttons: they are read once a frame, and only while one is connected. */
export function listenToGamepads(steering: Steering, interrupt: () => void): void {
  let running = false;
  let before: Readonly<Record<keyof typeof BUTTON, boolean>> | null = null;

  const poll = (): void => {
    const pad = navigator.getGamepads().find((candidate) => candidate?.connected === true);
    if (!pad) {
      running = false;
      before = null;
      steering.hold('gamepad', 0);
      return;
    }
    const pressed = Object.fromEntries(Object.entries(BUTTON).map(([name, index]) => [name, pad.buttons[index]?.pressed === true])) as Record<keyof typeof BUTTON, boolean>;
    const axis = pad.axes[0] ?? 0;
    const steer: Steer = pressed.padLeft || axis < -DEAD_ZONE ? -1 : pressed.padRight || axis > DEAD_ZONE ? 1 : 0;
    steering.hold('gamepad', steer);
    const went = (name: keyof typeof BUTTON): boolean => pressed[name] && before?.[name] === false;
    if (went('interrupt')) interrupt();
    if (went('faster') || went('padUp')) steering.changeSpeed(1);
    if (went('slower') || went('padDown')) steering.changeSpeed(-1);
    before = pressed;
    requestAnimationFrame(poll);
  };

  window.addEventListener('gamepadconnected', () => {
    if (running) return;
    running = true;
    requestAnimationFrame(poll);
  });
}
