export { joinSession, SegueClient, type ClientEvents, type ClientState, type JoinOptions } from './SegueClient.ts';
export { ClientError } from './ClientError.ts';
export { errorOf } from './Signalling.ts';
export type { Speed, Steer } from './ActionState.ts';
export type { PaintedFrame } from './PaintedFrame.ts';
export type { ForkHandle, RequestHandle } from './RequestBook.ts';
export type { RequestMeasure } from './RequestMeasures.ts';
export type { ChangePoint, ClientStats } from './StatsSampler.ts';
export type * from './messages.ts';
