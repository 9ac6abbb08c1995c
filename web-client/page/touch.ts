import type { Steer } from '../sdk/index.ts';
import type { Steering } from './Steering.ts';

const TAP_MS = 250;

/** Fingers and mouse: the two pads, and the left and right half of the picture. The last one put down counts. */
export function listenToTouch(steering: Steering, stage: HTMLElement, pads: { readonly left: HTMLElement; readonly right: HTMLElement }): void {
  const fingers = new Map<number, { readonly steer: Steer; readonly pad: HTMLElement | null }>();
  const update = (): void => {
    steering.hold('touch', [...fingers.values()].at(-1)?.steer ?? 0);
    for (const pad of [pads.left, pads.right]) pad.classList.toggle('pressed', [...fingers.values()].some((finger) => finger.pad === pad));
  };
  const down = (event: PointerEvent, element: HTMLElement, steer: Steer, pad: HTMLElement | null): void => {
    if (event.button !== 0) return;
    // Keeps the keyboard of a phone, and the focus, where they are.
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, { steer, pad });
    update();
  };
  const up = (event: PointerEvent): void => {
    if (fingers.delete(event.pointerId)) update();
  };

  // A press that no finger made, of a screen reader: a tap, as long as one takes.
  for (const [pad, steer] of [[pads.left, -1], [pads.right, 1]] as const) {
    pad.addEventListener('click', (event) => {
      if (event.detail !== 0) return;
      steering.hold('touch', steer);
      setTimeout(update, TAP_MS);
    });
  }

  pads.left.addEventListener('pointerdown', (event) => down(event, pads.left, -1, pads.left));
  pads.right.addEventListener('pointerdown', (event) => down(event, pads.right, 1, pads.right));
  stage.addEventListener('pointerdown', (event) => {
    const { left, width } = stage.getBoundingClientRect();
    down(event, stage, event.clientX < left + width / 2 ? -1 : 1, null);
  });
  for (const element of [pads.left, pads.right, stage]) {
    for (const name of ['pointerup', 'pointercancel', 'lostpointercapture'] as const) element.addEventListener(name, up);
    element.addEventListener('contextmenu', (event) => event.preventDefault());
  }
}
