/** The runtime refused or failed a run; nothing of it was stored. */
export class DeviceError extends Error {
  override readonly name = 'DeviceError';
}
