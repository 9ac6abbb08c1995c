import { byId } from './dom.ts';
import { listenToGamepads } from './gamepad.ts';
import { listenToKeyboard, showLegend } from './keyboard.ts';
import { readPageOptions } from './page_options.ts';
import { Room } from './Room.ts';
import { listenToTouch } from './touch.ts';

const room = new Room(readPageOptions(location.search, location.hash));
listenToKeyboard(room.steering, byId('prompt', HTMLInputElement), {
  interrupt: () => room.interrupt(),
  hold: () => room.hold(),
  release: () => room.release(),
  toggleOverlay: () => room.overlay.toggle(),
  toggleMute: () => room.toggleMute(),
  focusPrompt: () => room.focusPrompt(),
  inSession: () => room.inSession,
});
listenToTouch(room.steering, byId('stage', HTMLElement), { left: byId('pad-left', HTMLElement), right: byId('pad-right', HTMLElement) });
listenToGamepads(room.steering, () => room.interruptOrResume());
showLegend(byId('keys', HTMLElement));
