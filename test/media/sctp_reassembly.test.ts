import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RTCPeerConnection } from 'werift';
import { deliverWhatIsComplete } from '../../src/media/sctp_reassembly.ts';

/** What is used of werift's inside: chunks as they come from the network, messages as they go to the channels. */
interface Association {
  lastReceivedTsn: number;
  readonly onReceive: { subscribe(listener: (streamId: number, protocol: number, data: Buffer) => void): unknown };
  receiveDataChunk(chunk: unknown): void;
  receiveForwardTsnChunk(chunk: unknown): void;
}

const CONTROL = 1;
const INPUT = 3;
const WHOLE = 3;
const UNORDERED = 4;

function association(): { readonly sctp: Association; readonly heard: string[]; readonly close: () => Promise<void> } {
  const connection = new RTCPeerConnection({});
  connection.createDataChannel('control');
  const transport = connection.sctpTransport!;
  deliverWhatIsComplete(transport);
  deliverWhatIsComplete(transport);
  const sctp = transport.sctp as unknown as Association;
  sctp.lastReceivedTsn = 9;
  const heard: string[] = [];
  sctp.onReceive.subscribe((_streamId, _protocol, data) => heard.push(data.toString()));
  return { sctp, heard, close: () => connection.close() };
}

const control = (tsn: number, streamSeqNum: number, text: string) => ({ tsn, streamSeqNum, streamId: CONTROL, protocol: 51, flags: WHOLE, userData: Buffer.from(text) });
const input = (tsn: number, text: string) => ({ tsn, streamSeqNum: 0, streamId: INPUT, protocol: 51, flags: WHOLE | UNORDERED, userData: Buffer.from(text) });

test('what waited for a packet that was lost is delivered with it, in order, whatever lies between', async () => {
  const { sctp, heard, close } = association();
  sctp.receiveDataChunk(input(11, 'i1'));
  sctp.receiveDataChunk(control(12, 1, 'second'));
  sctp.receiveDataChunk(input(13, 'i2'));
  sctp.receiveDataChunk(control(15, 2, 'third'));
  assert.deepEqual(heard, ['i1', 'i2'], 'ordered messages wait');
  sctp.receiveDataChunk(control(10, 0, 'first'));
  assert.deepEqual(heard, ['i1', 'i2', 'first', 'second', 'third']);
  await close();
});

test('a browser that gives up on an input message takes no control message with it', async () => {
  const { sctp, heard, close } = association();
  sctp.receiveDataChunk(control(12, 1, 'second'));
  sctp.receiveDataChunk(control(10, 0, 'first'));
  // 11 was an input message: lost, and not sent again.
  sctp.receiveForwardTsnChunk({ cumulativeTsn: 12, streams: [] });
  sctp.receiveDataChunk(control(13, 2, 'third'));
  assert.deepEqual(heard, ['first', 'second', 'third']);
  await close();
});
