import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PresentationGate } from '../../web-client/sdk/PresentationGate.ts';
import { rtpAdd } from '../../web-client/sdk/rtp_time.ts';

const TICKS = 7_500;
const start = (epoch: number, rtp: number) => ({ epoch, rtp, audioRtp: 0 });

describe('PresentationGate', () => {
  it('paints in order while nothing is fenced, and never steps back', () => {
    const gate = new PresentationGate();
    assert.equal(gate.offer(1_000), true);
    assert.equal(gate.offer(2_000), true);
    assert.equal(gate.offer(1_500), false);
    assert.equal(gate.lastPainted, 2_000);
  });

  it('paints nothing from the fence to the first frame of the new epoch', () => {
    const gate = new PresentationGate();
    gate.offer(1_000);
    gate.shut('r', true);
    assert.equal(gate.offer(2_000), false);
    gate.accept('r', 1);
    assert.equal(gate.offer(3_000), false);
    gate.announce(start(1, 5_000));
    assert.equal(gate.offer(4_000), false);
    assert.equal(gate.offer(5_000), true);
    assert.equal(gate.presentation, 'flowing');
  });

  it('hands out the frame that came before its notice', () => {
    const gate = new PresentationGate();
    gate.shut('r', true);
    gate.accept('r', 1);
    assert.equal(gate.offer(5_000), false);
    assert.equal(gate.announce(start(1, 5_000)), 5_000);
    assert.equal(gate.lastPainted, 5_000);
  });

  it('hands out the frame that came before the answer', () => {
    const gate = new PresentationGate();
    gate.shut('r', true);
    gate.announce(start(1, 5_000));
    assert.equal(gate.offer(5_000), false);
    assert.equal(gate.accept('r', 1), 5_000);
  });

  it('does not take a notice of the old epoch for the new one', () => {
    const gate = new PresentationGate();
    gate.announce(start(3, 1_000));
    gate.shut('r', true);
    gate.accept('r', 4);
    gate.announce(start(3, 2_000));
    assert.equal(gate.offer(3_000), false);
  });

  it('stays frozen after an interrupt until it is released', () => {
    const gate = new PresentationGate();
    gate.shut('i', false);
    gate.accept('i', 1);
    gate.announce(start(1, 5_000));
    assert.equal(gate.offer(6_000), false);
    assert.equal(gate.presentation, 'held');
    assert.equal(gate.release(), 6_000);
    assert.equal(gate.presentation, 'flowing');
  });

  it('lets a redirect follow an interrupt that has not been answered yet', () => {
    const gate = new PresentationGate();
    gate.shut('i', false);
    gate.shut('r', true);
    gate.accept('i', 1);
    gate.announce(start(1, 5_000));
    assert.equal(gate.offer(6_000), false, 'the epoch of the interrupt is not the one of the redirect');
    gate.accept('r', 2);
    gate.announce(start(2, 7_000));
    assert.equal(gate.offer(7_000), true);
  });

  it('goes on with what is announced after a refused redirect, and only with that', () => {
    const gate = new PresentationGate();
    gate.announce(start(1, 1_000));
    gate.offer(1_000);
    gate.shut('r', true);
    gate.offer(2_000);
    gate.fail('r');
    assert.equal(gate.offer(3_000), false);
    gate.announce(start(1, 4_000));
    assert.equal(gate.offer(4_000), true);
  });

  it('stays held when a redirect out of an interrupt is refused', () => {
    const gate = new PresentationGate();
    gate.shut('i', false);
    gate.accept('i', 1);
    gate.shut('r', true);
    gate.fail('r');
    assert.equal(gate.presentation, 'held');
    gate.shut('r2', true);
    gate.fail('r2');
    assert.equal(gate.presentation, 'held');
  });

  it('keeps an open fence over a lost connection, with RTP times that start anew', () => {
    const gate = new PresentationGate();
    gate.offer(4_000_000);
    gate.shut('r', true);
    gate.accept('r', 1);
    gate.reconnect();
    assert.equal(gate.offer(10), false);
    assert.equal(gate.announce(start(1, 10)), 10);
  });

  /**
   * A server that fences at random moments, numbers its frames by epoch, and whose frames, notices and answers arrive each in order but shifted against each other.
   * The person interrupts, redirects and resumes at random.
   */
  it('property: never paints an old frame after a fence, and paints the newest frame once all is told', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof({ weight: 4, arbitrary: fc.constant('frame' as const) }, { weight: 1, arbitrary: fc.constantFrom('redirect' as const, 'interrupt' as const) }, { weight: 3, arbitrary: fc.constantFrom('deliver frame' as const, 'deliver notice' as const, 'deliver answer' as const) }), { minLength: 10, maxLength: 200 }),
        fc.integer({ min: 0, max: 0xffffffff }),
        (steps, base) => {
          const gate = new PresentationGate();
          const frames: { rtp: number; epoch: number }[] = [];
          const notices: { rtp: number; epoch: number }[] = [];
          const answers: { id: string; epoch: number }[] = [];
          const epochOf = new Map<number, number>();
          let epoch = 0;
          let announced = -1;
          let rtp = base;
          let fenceEpoch = 0;
          let lastRtp: number | null = null;
          let requests = 0;
          const painted = (frame: number | null): void => {
            if (frame === null) return;
            const of = epochOf.get(frame);
            assert.ok(of !== undefined && of >= fenceEpoch, `painted a frame of epoch ${of} after the fence of ${fenceEpoch}`);
            assert.notEqual(gate.presentation, 'held');
            if (lastRtp !== null) assert.ok(((frame - lastRtp) | 0) >= 0, 'stepped back');
            lastRtp = frame;
          };
          const deliver = { frame: () => { const frame = frames.shift(); if (frame && gate.offer(frame.rtp)) painted(frame.rtp); }, notice: () => { const notice = notices.shift(); if (notice) painted(gate.announce({ ...notice, audioRtp: 0 })); }, answer: () => { const answer = answers.shift(); if (answer) painted(gate.accept(answer.id, answer.epoch)); } };
          for (const step of steps) {
            if (step === 'frame') {
              rtp = rtpAdd(rtp, TICKS);
              epochOf.set(rtp, epoch);
              if (announced !== epoch) notices.push({ rtp, epoch });
              announced = epoch;
              frames.push({ rtp, epoch });
            } else if (step === 'redirect' || step === 'interrupt') {
              requests += 1;
              epoch += 1;
              fenceEpoch = epoch;
              gate.shut(String(requests), step === 'redirect');
              answers.push({ id: String(requests), epoch });
            } else deliver[step.slice(8) as keyof typeof deliver]();
          }
          painted(gate.release());
          while (answers.length > 0) deliver.answer();
          while (notices.length > 0) deliver.notice();
          const sent = frames.at(-1);
          while (frames.length > 0) deliver.frame();
          if (sent && sent.epoch === epoch) assert.equal(gate.lastPainted, sent.rtp, 'the newest frame was lost');
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('property: loses no frame of the new epoch that is offered after its notice and answer, whatever the order of those two', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 0xffffffff }), fc.integer({ min: 0, max: 20 }), fc.integer({ min: 1, max: 20 }), fc.boolean(), (base, old, fresh, noticeFirst) => {
        const gate = new PresentationGate();
        gate.offer(base);
        gate.shut('r', true);
        for (let i = 1; i <= old; i += 1) assert.equal(gate.offer(rtpAdd(base, i * TICKS)), false);
        const first = rtpAdd(base, (old + 1) * TICKS);
        if (noticeFirst) gate.announce(start(1, first));
        gate.accept('r', 1);
        if (!noticeFirst) gate.announce(start(1, first));
        for (let i = 0; i < fresh; i += 1) assert.equal(gate.offer(rtpAdd(first, i * TICKS)), true);
      }),
    );
  });
});
