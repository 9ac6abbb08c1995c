// Threads that codecs run on, apart from libuv's pool: a codec must never wait for a file read or a DNS lookup.
#pragma once

#include <napi.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace segue {

// One call of a codec. Built and settled on the JavaScript thread, executed on a pool thread in between.
class Job {
 public:
  explicit Job(Napi::Env env) : deferred_(Napi::Promise::Deferred::New(env)) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Napi::Promise Promise() const { return deferred_.Promise(); }
  // Pool thread. Touches no JavaScript value; a failure is kept in `error`.
  virtual void Execute() noexcept = 0;
  void Settle(Napi::Env env);

 protected:
  // JavaScript thread: the value that the promise resolves with.
  virtual Napi::Value Result(Napi::Env env) = 0;
  std::string error;

 private:
  Napi::Promise::Deferred deferred_;
};

class WorkerPool;

// The calls of one codec: run one at a time and in order, on any thread of the pool. At most `kMaxWaiting` wait.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  static constexpr std::size_t kMaxWaiting = 4;

  explicit Strand(WorkerPool& pool) : pool_(pool) {}
  // JavaScript thread. Throws a JavaScript error when the queue is full: the caller is expected to await.
  Napi::Promise Post(Napi::Env env, std::unique_ptr<Job> job);

 private:
  friend class WorkerPool;
  WorkerPool& pool_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Job>> waiting_;
  bool scheduled_ = false;
};

// One pool per JavaScript environment, owned by its addon data, so that every worker thread of Node has its own.
class WorkerPool {
 public:
  WorkerPool(Napi::Env env, unsigned threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

 private:
  friend class Strand;
  static void SettleOnJs(Napi::Env env, Napi::Function, WorkerPool* pool, Job* job);
  static void CleanUp(void* pool);
  using Settler = Napi::TypedThreadSafeFunction<WorkerPool, Job, &WorkerPool::SettleOnJs>;

  void Schedule(std::shared_ptr<Strand> strand);
  void Run();
  void Stop();
  void JobPosted(Napi::Env env);
  void JobSettled(Napi::Env env);

  napi_env env_;
  Settler settler_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Strand>> ready_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  // Promises not yet settled: only they keep the event loop alive. JavaScript thread only.
  std::size_t unsettled_ = 0;
};

}  // namespace segue
