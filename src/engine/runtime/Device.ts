import { CACHE_CLASSES } from '../cache/cache_classes.ts';
import { CacheManager } from '../cache/CacheManager.ts';
import { BlockPool } from '../memory/BlockPool.ts';
import type { BlockId, MemoryTag } from '../model/work.ts';
import { AdmissionController } from '../scheduler/AdmissionController.ts';
import { CostModel } from '../scheduler/CostModel.ts';
import type { Place } from '../scheduler/PlacementScheduler.ts';
import { ReadyQueue } from '../scheduler/ReadyQueue.ts';
import type { TransferScheduler } from '../scheduler/TransferScheduler.ts';
import type { LoadedModel, Worker } from '../workers/Worker.ts';
import type { EngineOptions } from './engine_options.ts';

/** A worker and all that the engine keeps about it: its blocks, its cache, its promises, its costs, and what waits for it. */
export class Device<Session> implements Place {
  readonly worker: Worker;
  /** Its weights version is another once they were replaced. */
  loaded: LoadedModel;
  /** Roles of the pool of executors that it is in; none: it serves whoever asks for none, live sessions among them. */
  readonly roles: readonly string[];
  readonly pool: BlockPool;
  readonly cache: CacheManager;
  readonly costs: CostModel;
  readonly admission: AdmissionController;
  readonly queue = new ReadyQueue<Session>();
  /** A batch is with the worker. */
  busy = false;
  /** Excluded while its executor doesn't answer. */
  usable = true;
  /** Its weights are about to be replaced, once what is out has come back: no chunk begins (`boundary`), or nothing does (`at_once`). */
  switching: 'boundary' | 'at_once' | null = null;

  /** @throws {TypeError} where the cache's share alone exceeds the device's memory. */
  constructor({ worker, loaded, roles = [], options, transfers, nextBlockId }: { readonly worker: Worker; readonly loaded: LoadedModel; readonly roles?: readonly string[]; readonly options: EngineOptions; readonly transfers: TransferScheduler; readonly nextBlockId: () => BlockId }) {
    this.worker = worker;
    this.loaded = loaded;
    this.roles = roles;
    this.costs = new CostModel(loaded.modelId, loaded.cost);
    this.pool = new BlockPool({ capacity: options.memory, nextId: nextBlockId, onFree: (block) => transfers.release(worker, block) });
    const account = this.pool.reserve('cache', options.cacheMemory);
    if (account === null) throw new TypeError(`cacheMemory ${JSON.stringify(options.cacheMemory)} exceeds memory ${JSON.stringify(options.memory)}`);
    this.cache = new CacheManager(CACHE_CLASSES.text_encoder_output, this.pool, account);
    this.admission = new AdmissionController(this.costs, this.pool, { bound: options.admissionBound, redirectReserve: options.redirectReserve, lookAheadMs: options.lookAheadMs });
  }

  get workerId(): string {
    return this.worker.id;
  }

  get load(): number {
    return this.admission.load;
  }

  /**
   * Gives the memory of tags up, once nothing but caches lies in it; what caches hold goes. Until it is awake again no session and no run is let in that wants any.
   * @throws {MemoryInUseError} where somebody's state lies in it: nothing has changed then.
   */
  async sleep(tags: readonly MemoryTag[]): Promise<void> {
    this.cache.trim();
    this.pool.sleep(tags);
    await this.worker.sleep(tags);
  }

  /** Usable only once the worker has it again. */
  async wake(tags: readonly MemoryTag[]): Promise<void> {
    await this.worker.wake(tags);
    this.pool.wake(tags);
  }
}
