// What one JavaScript environment owns. No statics: each worker thread of Node loads its own copy of this.
#pragma once

#include <napi.h>

#include "worker_pool.h"

namespace segue {

struct AddonData {
  AddonData(Napi::Env env, unsigned threads) : pool(env, threads) {}
  WorkerPool pool;
};

inline WorkerPool& PoolOf(Napi::Env env) { return env.GetInstanceData<AddonData>()->pool; }

}  // namespace segue
