import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { Page } from 'playwright-core';

/**
 * A bad network between a page and the server: all UDP of the page's WebRTC connection passes through a socket that loses a share of the
 * packets, in both directions, whatever they carry. The page learns no other address of the server, and the server none of the page.
 */
export class LossyPath {
  /** Share of packets that are lost. */
  loss = 0;
  lost = 0;
  passed = 0;
  readonly #front: Socket = createSocket('udp4');
  readonly #back: Socket = createSocket('udp4');
  readonly #random: () => number;
  #page: RemoteInfo | null = null;
  #serverPort = 0;

  private constructor(random: () => number) {
    this.#random = random;
  }

  static async open(random: () => number): Promise<LossyPath> {
    const path = new LossyPath(random);
    path.#front.on('message', (packet, from) => {
      path.#page = from;
      path.#pass(path.#back, packet, path.#serverPort);
    });
    path.#back.on('message', (packet) => path.#page !== null && path.#pass(path.#front, packet, path.#page.port));
    for (const socket of [path.#front, path.#back]) {
      socket.bind(0, '127.0.0.1');
      await once(socket, 'listening');
    }
    return path;
  }

  /** Puts itself between: call it before the page joins. */
  async between(page: Page): Promise<void> {
    await page.route(/\/v1\/sessions\/[^/]+\/connections/, async (route) => {
      const request = route.request();
      // Trickled candidates would tell the server a way around.
      if (request.method() === 'PATCH') return route.fulfill({ status: 204 });
      if (request.method() !== 'POST' && request.method() !== 'PUT') return route.continue();
      const { type, sdp } = request.postDataJSON() as { readonly type: string; readonly sdp: string };
      const response = await route.fetch({ postData: JSON.stringify({ type, sdp: sdp.replace(/^a=candidate:.*\r\n/gm, '') }) });
      const answer = (await response.json()) as { readonly sdp?: string };
      await route.fulfill({ response, json: answer.sdp === undefined ? answer : { ...answer, sdp: this.#throughHere(answer.sdp) } });
    });
  }

  close(): void {
    this.#front.close();
    this.#back.close();
  }

  #throughHere(sdp: string): string {
    return sdp.replace(/^(a=candidate:\S+ 1 udp \d+) \S+ (\d+) typ host/gim, (_line, head: string, port: string) => {
      this.#serverPort = Number(port);
      return `${head} 127.0.0.1 ${this.#front.address().port} typ host`;
    });
  }

  #pass(socket: Socket, packet: Buffer, port: number): void {
    if (port === 0 || this.#random() < this.loss) {
      this.lost++;
      return;
    }
    this.passed++;
    socket.send(packet, port, '127.0.0.1');
  }
}
