import type { RTCSctpTransport } from 'werift';

interface InboundStream {
  popMessages(): Iterable<readonly [streamId: number, protocol: number, data: Buffer]>;
}

interface Association {
  getInboundStream(streamId: number): InboundStream;
}

const repaired = new WeakSet<object>();

/**
 * Repairs how werift 0.25.2 puts ordered messages together. Where a lost packet is sent again, it delivers the message in it but leaves those that
 * waited behind it, unless their sequence numbers follow without a gap, and messages of `input` always lie between. What is left comes a message late, and
 * the next FORWARD-TSN (a browser sends one for every `input` message it gives up) throws it away, after which the channel delivers nothing more:
 * at 10 % loss `control` was dead within seconds. Here what is complete is asked for until nothing is. Idempotent.
 *
 * @throws {TypeError} for a werift that looks different inside: then see whether this is still needed.
 */
export function deliverWhatIsComplete(transport: RTCSctpTransport): void {
  const association = transport.sctp as unknown as Association;
  if (repaired.has(association)) return;
  if (typeof association.getInboundStream !== 'function') throw new TypeError('werift has no SCTP.getInboundStream any more');
  repaired.add(association);
  const streamOf = association.getInboundStream.bind(association);
  association.getInboundStream = (streamId) => {
    const stream = streamOf(streamId);
    if (repaired.has(stream)) return stream;
    repaired.add(stream);
    const popOnce = stream.popMessages.bind(stream);
    stream.popMessages = function* () {
      for (let delivered = true; delivered; ) {
        delivered = false;
        for (const message of popOnce()) {
          delivered = true;
          yield message;
        }
      }
    };
    return stream;
  };
}
