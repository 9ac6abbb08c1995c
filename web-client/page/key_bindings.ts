export type KeyCommand = 'steerLeft' | 'steerRight' | 'faster' | 'slower' | 'focusPrompt' | 'interrupt' | 'hold' | 'toggleMute' | 'toggleOverlay';

export interface KeyBinding {
  readonly command: KeyCommand;
  /** In the legend; bindings that say the same share a place in it. */
  readonly says: string;
  /** `code` names a place on the keyboard, so that A and D lie side by side on any; `key` what is printed there. */
  readonly keys: readonly { readonly cap: string; readonly code?: string; readonly key?: string }[];
}

/** Every key that does something in a session: the keyboard acts by this table and the legend is made of it. */
export const KEY_BINDINGS: readonly KeyBinding[] = [
  { command: 'steerLeft', says: 'steer', keys: [{ cap: '←', code: 'ArrowLeft' }, { cap: 'A', code: 'KeyA' }] },
  { command: 'steerRight', says: 'steer', keys: [{ cap: '→', code: 'ArrowRight' }, { cap: 'D', code: 'KeyD' }] },
  { command: 'faster', says: 'speed', keys: [{ cap: '↑', code: 'ArrowUp' }, { cap: 'W', code: 'KeyW' }] },
  { command: 'slower', says: 'speed', keys: [{ cap: '↓', code: 'ArrowDown' }, { cap: 'S', code: 'KeyS' }] },
  { command: 'interrupt', says: 'interrupt', keys: [{ cap: 'Esc', code: 'Escape' }] },
  { command: 'hold', says: 'hold', keys: [{ cap: 'H', code: 'KeyH' }] },
  { command: 'focusPrompt', says: 'prompt', keys: [{ cap: '/', key: '/' }] },
  { command: 'toggleMute', says: 'mute', keys: [{ cap: 'M', code: 'KeyM' }] },
  { command: 'toggleOverlay', says: 'measurements', keys: [{ cap: 'O', code: 'KeyO' }] },
];

export function commandOf(event: { readonly code: string; readonly key: string }): KeyCommand | null {
  return KEY_BINDINGS.find(({ keys }) => keys.some(({ code, key }) => code === event.code || (key !== undefined && key === event.key)))?.command ?? null;
}

/** The legend: what the keys do, and their caps, first choices first (`← → A D`). */
export function legend(): readonly { readonly says: string; readonly caps: readonly string[] }[] {
  return [...new Set(KEY_BINDINGS.map(({ says }) => says))].map((says) => {
    const same = KEY_BINDINGS.filter((binding) => binding.says === says);
    const most = Math.max(...same.map(({ keys }) => keys.length));
    return { says, caps: Array.from({ length: most }, (_, at) => same.flatMap(({ keys }) => keys[at]?.cap ?? [])).flat() };
  });
}
