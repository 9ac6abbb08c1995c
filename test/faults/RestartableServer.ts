import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApiClient } from '../e2e/api_client.ts';
import { TestServer } from '../e2e/server.ts';

/** What keeps sessions in a directory that outlives each process: killed, and started again on what is on disk. */
export class RestartableServer {
  readonly directory = mkdtempSync(join(tmpdir(), 'segue-restart-'));
  #server!: TestServer;
  #api!: ApiClient;

  private constructor() {}

  static async start(): Promise<RestartableServer> {
    const rig = new RestartableServer();
    await rig.start();
    return rig;
  }

  /** The process of now. */
  get server(): TestServer {
    return this.#server;
  }

  get api(): ApiClient {
    return this.#api;
  }

  /** After the process before it has ended. */
  async start(): Promise<void> {
    this.#server = await TestServer.start({ env: { SEGUE_STORAGE_DIRECTORY: this.directory, SEGUE_STORAGE_SNAPSHOT_CHUNKS: '8', SEGUE_ENGINE_ADMISSION_BOUND: '1' } });
    this.#api = new ApiClient(this.#server);
  }

  /** @param meanwhile what is looked at while no process has the directory. */
  async killAndStart(meanwhile: () => void | Promise<void> = () => undefined): Promise<void> {
    await this.#server.kill();
    await meanwhile();
    await this.start();
  }

  /** Idempotent; what was kept is gone. */
  async close(): Promise<void> {
    await this.#server?.kill();
    rmSync(this.directory, { recursive: true, force: true });
  }
}
